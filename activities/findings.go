package activities

import (
	"context"
	"errors"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/contract"
)

// findingsStarter is what brings a message to an operation's findings, which the
// first one starts.
type findingsStarter interface {
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
}

// tellFindings returns once the server has the message.
func tellFindings(ctx context.Context, to findingsStarter, operation, signal string, message any) error {
	id := contract.FindingsID(operation)
	_, err := to.SignalWithStartWorkflow(ctx, id, signal, message, client.StartWorkflowOptions{
		ID:                    id,
		TaskQueue:             contract.ControlQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         "what was found about " + operation,
	}, contract.FindingsWorkflow, contract.FindingsInput{Operation: operation})
	return err
}

// Note keeps findings.
func (c *Control) Note(ctx context.Context, in contract.FindingNote) error {
	if err := tellFindings(ctx, c.Client, in.Operation, contract.NoteSignal, in); err != nil {
		return temporal.NewApplicationErrorWithCause("keep findings of "+in.Operation, UnreachableError, err)
	}
	return nil
}

// Settled reads how a task has ended. One that is open, is not there, or cannot be
// looked at is told as such.
func (c *Control) Settled(ctx context.Context, in contract.SettledRequest) (contract.Settled, error) {
	seen, err := c.Client.DescribeWorkflowExecution(ctx, in.Task, "")
	switch {
	case gone(err):
		return contract.Settled{State: contract.AuditMissing}, nil
	case err != nil:
		return contract.Settled{}, temporal.NewApplicationErrorWithCause("look at "+in.Task, UnreachableError, err)
	}
	out := contract.Settled{State: auditAnswer(seen.GetWorkflowExecutionInfo()).State}
	if out.State != contract.AuditClosed {
		return out, nil
	}
	var result contract.TaskResult
	err = c.Client.GetWorkflow(ctx, in.Task, seen.GetWorkflowExecutionInfo().GetExecution().GetRunId()).Get(ctx, &result)
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	switch {
	case err == nil:
	case errors.As(err, &app) && app.HasDetails():
		err = app.Details(&result)
	case errors.As(err, &cancelled) && cancelled.HasDetails():
		err = cancelled.Details(&result)
	case ended(seen.GetWorkflowExecutionInfo().GetStatus()):
		return out, nil // from outside: nothing is known of it
	}
	if err != nil {
		return contract.Settled{}, temporal.NewApplicationErrorWithCause("read the end of "+in.Task, UnreachableError, err)
	}
	out.Phase, out.Attempt, out.Reference = result.Phase, result.Attempt, result.Reference
	return out, nil
}

// ended tells a workflow that was ended from outside.
func ended(s enums.WorkflowExecutionStatus) bool {
	return s == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED || s == enums.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
}
