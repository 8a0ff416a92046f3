package gateway

import (
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"headgate/admission"
	"headgate/contract"
)

// The last chapters of a story: reconciliation and the end.

func (s *story) reconciling(a *historypb.StartChildWorkflowExecutionInitiatedEventAttributes, at time.Time) {
	_, _, n, ok := contract.ParseReconcileID(a.GetWorkflowId())
	if !ok {
		n = s.lastNumber()
	}
	s.reconcile = append(s.reconcile, reconcileRun{workflow: a.GetWorkflowId(), attempt: n})
	reason := "the outcome is not known"
	switch last := s.number(n); {
	case last != nil && last.class == admission.Succeeded:
		reason = "the provider has accepted it, which is to be verified"
	case last != nil && last.reason != "":
		reason += " (" + last.reason + ")"
	}
	s.add(at, "reconciling", n, a.GetWorkflowId(), reason)
}

func (s *story) childStarted(a *historypb.ChildWorkflowExecutionStartedEventAttributes) {
	for i := range s.reconcile {
		if s.reconcile[i].workflow == a.GetWorkflowExecution().GetWorkflowId() {
			s.reconcile[i].run = a.GetWorkflowExecution().GetRunId()
		}
	}
}

func (s *story) reconciled(a *historypb.ChildWorkflowExecutionCompletedEventAttributes, at time.Time) {
	var result contract.ReconcileResult
	_, _, n, ok := contract.ParseReconcileID(a.GetWorkflowExecution().GetWorkflowId())
	if !ok || !decode(a.GetResult(), &result) {
		return
	}
	s.unnoticed = true
	if at0 := s.number(n); at0 != nil {
		at0.looked, at0.verdict = true, result.Verdict
	}
	text, actor := map[string]string{
		contract.VerdictHappened:     "it happened",
		contract.VerdictDidNotHappen: "it did not happen: the attempt may be repeated",
		contract.VerdictFailed:       "it did not happen, and shall not be tried again",
		contract.VerdictReplay:       "it may be sent again with the same key: the provider deduplicates",
	}[result.Verdict], a.GetWorkflowExecution().GetWorkflowId()
	if text == "" {
		text = result.Verdict
	}
	if k := len(result.Evidence); k > 0 {
		last := result.Evidence[k-1]
		text += "; decided by " + evidenceText(last)
		if last.Actor != "" {
			actor = last.Actor
		}
	}
	s.add(at, "reconciled", n, actor, text)
}

// close is the end of the workflow, in whichever way.
func (s *story) close(e *historypb.HistoryEvent, at time.Time) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		a := e.GetWorkflowExecutionTerminatedEventAttributes()
		s.add(at, "terminated", 0, a.GetIdentity(), join("from outside, against the rules of Headgate", a.GetReason()))
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		s.add(at, "timed_out", 0, "", "the workflow reached a time limit that Headgate does not set")
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		if result, ok := resultOf(e); ok {
			s.add(at, string(result.Phase), 0, "", because(result.Phase, result.Reason, result.Detail))
		} else {
			s.add(at, "ended", 0, "", strings.TrimPrefix(e.GetEventType().String(), "WorkflowExecution"))
		}
	}
}

// because words why a task ended; a reason that only repeats the phase is left out.
func because(phase contract.Phase, reason, detail string) string {
	if reason == string(phase) {
		return firstLine(detail)
	}
	return join(reason, firstLine(detail))
}

// reconcileEvents is the timeline of one reconciliation, from its own history.
// Its start and its verdict are told by the task.
func reconcileEvents(n int, events []*historypb.HistoryEvent) []contract.Event {
	s := &story{}
	probes, became := map[int64]bool{}, outcomes(events)
	for _, e := range events {
		at := e.GetEventTime().AsTime()
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			a := e.GetActivityTaskScheduledEventAttributes()
			probes[e.GetEventId()] = a.GetActivityType().GetName() == contract.ProbeActivity
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			a := e.GetActivityTaskCompletedEventAttributes()
			var found contract.Evidence
			if probes[a.GetScheduledEventId()] && decode(a.GetResult(), &found) {
				s.add(at, "probe", n, a.GetIdentity(), evidenceText(found))
			}
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
			a := e.GetActivityTaskFailedEventAttributes()
			s.add(at, "probe", n, a.GetIdentity(), "the probe failed, which says nothing: "+firstLine(a.GetFailure().GetMessage()))
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
			s.add(at, "probe", n, "", "the probe timed out, which says nothing")
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
			a := e.GetWorkflowExecutionSignaledEventAttributes()
			var late contract.LateEvidence
			if a.GetSignalName() == contract.EvidenceSignal && decode(a.GetInput(), &late) && late.Callback == nil { // the task tells callbacks
				s.add(at, "evidence", n, late.Outcome.Worker, "late answer: "+outcomeText(late.Outcome))
			}
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
			request := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest()
			var word contract.Resolution
			if became[e.GetEventId()].GetFailure() == nil && request.GetInput().GetName() == contract.ResolveUpdate && decode(request.GetInput().GetArgs(), &word) {
				s.add(at, "resolution", n, word.Actor, fmt.Sprintf("%s, seen at version %d: %s", word.Outcome, word.Version, word.Evidence))
			}
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
			a := e.GetWorkflowExecutionTerminatedEventAttributes()
			s.add(at, "reconciliation_ended", n, a.GetIdentity(), join("terminated", a.GetReason()))
		}
	}
	return s.events
}

func outcomeText(o contract.Outcome) string {
	parts := []string{strings.ReplaceAll(string(o.Class), "_", " ")}
	if o.Class == admission.Unknown {
		parts[0] = "outcome unknown"
	}
	if o.Reason != "" {
		parts = append(parts, o.Reason)
	}
	if o.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", o.Status))
	}
	if o.Reference != "" {
		parts = append(parts, "reference "+o.Reference)
	}
	if o.RetryAfter > 0 {
		parts = append(parts, "the provider asks to wait "+o.RetryAfter.String())
	}
	if o.Detail != "" {
		parts = append(parts, firstLine(o.Detail))
	}
	return strings.Join(parts, ", ")
}

func evidenceText(e contract.Evidence) string {
	parts := []string{e.Kind + ": " + strings.ReplaceAll(e.Finding, "_", " ")}
	if e.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", e.Status))
	}
	if e.Reference != "" {
		parts = append(parts, "reference "+e.Reference)
	}
	if e.Detail != "" {
		parts = append(parts, firstLine(e.Detail))
	}
	return strings.Join(parts, ", ")
}

// brief is the beginning of a hash, which is enough for people.
func brief(hash string) string { return hash[:min(len(hash), len("sha256:")+12)] }

// clock is how times are written in sentences.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// length is how durations are written in sentences.
func length(d time.Duration) string {
	if d < time.Second {
		return max(0, d).Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func label(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

// join puts a colon between what is there; a part that the next one begins with
// says nothing by itself.
func join(parts ...string) string {
	var full []string
	for i, p := range parts {
		if p != "" && (i == len(parts)-1 || !strings.HasPrefix(parts[i+1], p)) {
			full = append(full, p)
		}
	}
	return strings.Join(full, ": ")
}

// firstLine cuts a text at its first line and at 200 bytes: no stack traces.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
