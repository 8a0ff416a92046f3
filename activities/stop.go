package activities

import (
	"context"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.uber.org/zap"

	"headgate/contract"
)

// stopLook is the pause between two looks at a task that was asked to stop.
const stopLook = 20 * time.Millisecond

// Stop asks tasks not to dispatch attempts of a frozen operation. An item is
// delivered once the server would answer the attempt's checkpoint with the request,
// or the attempt is over: nothing of it is dispatched after that. A signal alone
// does not make it so, as the task has yet to act on it.
func (c *Control) Stop(ctx context.Context, in contract.Stops) (contract.DeliverReply, error) {
	reply := contract.DeliverReply{Answers: make([]string, len(in.Items))}
	each(ctx, len(in.Items), func(ctx context.Context, i int) {
		stop := in.Items[i]
		err := c.stop(ctx, stop)
		if reply.Answers[i] = delivered(err); reply.Answers[i] == contract.NotDelivered {
			c.Log.Warn("attempt not stopped yet", zap.String("task", stop.Task), zap.Int("attempt", stop.Attempt), zap.Error(err))
		}
	})
	return reply, nil
}

// stop returns nil once the request is where the attempt's beats meet it.
func (c *Control) stop(ctx context.Context, stop contract.Stop) error {
	if err := c.Client.SignalWorkflow(ctx, stop.Task, "", contract.StopSignal, stop); err != nil {
		return err
	}
	for {
		seen, err := c.Client.DescribeWorkflowExecution(ctx, stop.Task, "")
		if err != nil {
			return err
		}
		if settled(seen) {
			return nil
		}
		if !pause(ctx, stopLook) {
			return ctx.Err()
		}
	}
}

// settled tells that the task has acted on all that it was sent, and that no
// effect of it runs unasked. A workflow task that is pending may still schedule
// an effect that was decided before the signal came.
func settled(seen *workflowservice.DescribeWorkflowExecutionResponse) bool {
	switch seen.GetWorkflowExecutionInfo().GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_PAUSED: // an attempt of a paused task goes on
	default:
		return true
	}
	if seen.GetPendingWorkflowTask() != nil {
		return false
	}
	for _, a := range seen.GetPendingActivities() {
		if a.GetActivityType().GetName() == contract.EffectActivity && a.GetState() != enums.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED {
			return false
		}
	}
	return true
}
