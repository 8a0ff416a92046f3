package workers

import (
	"context"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"headgate/contract"
)

// starter is the part of a client that starts workflows.
type starter interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
}

// ensureBudget starts the budget if there is none, and tries until it knows. A
// running one keeps its policy: two processes with different files must not make
// it flap.
func ensureBudget(ctx context.Context, o Options) {
	startBudget(ctx, o.Client, contract.BudgetInput{Name: contract.DefaultBudget, Policy: o.Config.Budget}, o.Log)
}

func startBudget(ctx context.Context, c starter, in contract.BudgetInput, log *zap.Logger) {
	options := client.StartWorkflowOptions{
		ID:                       contract.BudgetID(in.Name),
		TaskQueue:                contract.ControlQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            "guards the resources of pool " + in.Name,
	}
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	for wait := shortest; ; wait = min(2*wait, longest) {
		run, err := c.ExecuteWorkflow(ctx, options, contract.BudgetWorkflow, in)
		if err == nil {
			log.Info("budget runs", zap.String("budget", in.Name), zap.String("run", run.GetRunID()))
			return
		}
		if ctx.Err() != nil {
			return
		}
		log.Warn("budget not started", zap.String("budget", in.Name), zap.Duration("next_try", wait), zap.Error(err))
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}
