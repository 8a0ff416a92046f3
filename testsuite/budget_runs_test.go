package testsuite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

// tasksAfterSuggested counts the workflow tasks of a run that were carried out
// although the server had suggested to begin a new one.
func tasksAfterSuggested(run *history.History) (n int) {
	suggested := false
	for _, e := range run.GetEvents() {
		switch e.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_STARTED:
			suggested = suggested || e.GetWorkflowTaskStartedEventAttributes().GetSuggestContinueAsNew()
		case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			if suggested {
				n++
			}
		}
	}
	return n
}

// pauses tells where a run stood still for more than a second.
func pauses(run *history.History) string {
	var said []string
	events := run.GetEvents()
	for i, e := range events[:len(events)-1] {
		if d := events[i+1].GetEventTime().AsTime().Sub(e.GetEventTime().AsTime()); d > time.Second {
			said = append(said, fmt.Sprintf("%s after %s (event %d)", d.Round(time.Millisecond), e.GetEventType(), e.GetEventId()))
		}
	}
	tasks := map[string]int{}
	for _, e := range events {
		if name := e.GetEventType().String(); strings.HasPrefix(name, "WorkflowTask") {
			tasks[name]++
		}
	}
	return fmt.Sprint(said, tasks)
}

// refusedCommand tells whether the server has refused to end a run, because
// something had come meanwhile.
func refusedCommand(run *history.History) bool {
	return slices.ContainsFunc(run.GetEvents(), func(e *history.HistoryEvent) bool {
		return e.GetWorkflowTaskFailedEventAttributes().GetCause() == enums.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
	})
}
