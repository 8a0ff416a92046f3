package activities

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	common "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/activities/conformance/server"
	"headgate/contract"
)

// An attempt counts as stopped only once its beats would be answered with it.
func TestStopWaitsForTheServer(t *testing.T) {
	effect := func(state enums.PendingActivityState) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{
			WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING},
			PendingActivities:     []*workflow.PendingActivityInfo{{ActivityType: &common.ActivityType{Name: contract.EffectActivity}, State: state}}}
	}
	pending := effect(enums.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED)
	pending.PendingWorkflowTask = &workflow.PendingWorkflowTaskInfo{}
	closed := effect(enums.PENDING_ACTIVITY_STATE_STARTED)
	closed.WorkflowExecutionInfo.Status = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	paused := effect(enums.PENDING_ACTIVITY_STATE_STARTED)
	paused.WorkflowExecutionInfo.Status = enums.WORKFLOW_EXECUTION_STATUS_PAUSED
	none := effect(0)
	none.PendingActivities = nil
	for name, c := range map[string]struct {
		seen []*workflowservice.DescribeWorkflowExecutionResponse // the last one stays
		want string
	}{
		"asked to cancel":            {[]*workflowservice.DescribeWorkflowExecutionResponse{effect(enums.PENDING_ACTIVITY_STATE_STARTED), effect(enums.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED)}, contract.Delivered},
		"nothing runs":               {[]*workflowservice.DescribeWorkflowExecutionResponse{none}, contract.Delivered},
		"the task has ended":         {[]*workflowservice.DescribeWorkflowExecutionResponse{closed}, contract.Delivered},
		"the task has not acted yet": {[]*workflowservice.DescribeWorkflowExecutionResponse{pending}, contract.NotDelivered},
		"the task is paused":         {[]*workflowservice.DescribeWorkflowExecutionResponse{paused}, contract.NotDelivered},
		"the effect runs on":         {[]*workflowservice.DescribeWorkflowExecutionResponse{effect(enums.PENDING_ACTIVITY_STATE_STARTED)}, contract.NotDelivered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				d := &desk{described: func(context.Context, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
					seen := c.seen[min(looks, len(c.seen)-1)]
					looks++
					return seen, nil
				}}
				stop := contract.Stop{Task: "task/acme/1", Attempt: 2, Operation: "o"}
				got, err := newControl(d).Stop(t.Context(), contract.Stops{Items: []contract.Stop{stop}})
				require.NoError(t, err)
				require.Equal(t, []string{c.want}, got.Answers)
				require.Equal(t, []any{stop}, d.signals)
			})
		})
	}
}

func TestStopOfATaskThatIsNotThere(t *testing.T) {
	d := &desk{signalled: func(context.Context, string, string, any) error { return server.ErrNotFound }}
	got, err := newControl(d).Stop(t.Context(), contract.Stops{Items: []contract.Stop{{Task: "task/acme/1", Attempt: 1}}})
	require.NoError(t, err)
	require.Equal(t, []string{contract.TaskGone}, got.Answers)
}
