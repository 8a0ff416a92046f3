package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// Intent keeps a tenant's intent for one task: until the window is over, and as
// long as the task is open. It answers nothing: that it is open, and its memo,
// are what a gateway looks at. A gateway ends it earlier when its task has ended
// without an effect.
func Intent(ctx workflow.Context, in contract.IntentInput) error {
	for wait := in.Window.D(); ; wait = intentAgain {
		if err := workflow.Sleep(ctx, wait); err != nil {
			return err
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			in.Window = contract.Duration(time.Second)
			return workflow.NewContinueAsNewError(ctx, contract.IntentWorkflow, in)
		}
		actx := workflow.WithActivityOptions(ctx, batchOptions("look at the task of an intent"))
		var reply contract.AuditReply
		err := workflow.ExecuteActivity(actx, contract.AuditActivity, contract.AuditRequest{
			Tasks: []string{contract.TaskID(in.Tenant, in.Key)}}).Get(ctx, &reply)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && len(reply.Answers) == 1 && (reply.Answers[0].State == contract.AuditClosed || reply.Answers[0].State == contract.AuditMissing) {
			return nil
		}
	}
}
