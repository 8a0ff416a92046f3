package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// Audit reads an operation's tasks and effects from outside and notes what does not
// agree. It changes no task.
func Audit(ctx workflow.Context, in contract.AuditInput) (contract.AuditReport, error) {
	var report contract.AuditReport
	actx := workflow.WithActivityOptions(ctx, sweepOptions(in.Operation))
	if err := workflow.ExecuteActivity(actx, contract.SweepActivity, in).Get(ctx, &report); err != nil {
		return report, err
	}
	if len(report.Findings) == 0 {
		return report, nil
	}
	lctx := workflow.WithLocalActivityOptions(ctx, controlOptions())
	err := workflow.ExecuteLocalActivity(lctx, contract.NoteActivity, contract.FindingNote{Operation: in.Operation.Name, Budget: in.Budget,
		Freeze: in.Operation.OnFinding == contract.OnFindingFreeze, Findings: report.Findings}).Get(ctx, nil)
	if err != nil {
		return report, temporal.NewApplicationErrorWithCause("the findings were not kept", contract.FailedError, err)
	}
	return report, nil
}
