package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/contract"
)

// ControlClient is what Control needs of a Temporal client.
type ControlClient interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// Resolver pins operations: the configuration.
type Resolver interface {
	Resolve(in contract.TaskInput, now time.Time) contract.Resolved
}

// Control serves the budgets. The zero value needs Client, Config and Log.
type Control struct {
	Client ControlClient
	Config Resolver
	Log    *zap.Logger
	Now    func() time.Time // nil: time.Now

	once     sync.Once
	reports  *batcher[admission.Report]
	requests *batcher[contract.AttemptRequest]
}

// Resolve looks up the operation of a task that was started without the
// gateway, and canonicalises its payload.
func (c *Control) Resolve(_ context.Context, in contract.TaskInput) (contract.Resolved, error) {
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	return c.Config.Resolve(in, now()), nil
}

// Report tells a budget what became of an attempt. It returns once the server
// has the signal that carries the report, among others.
func (c *Control) Report(ctx context.Context, in contract.ReportInput) error {
	c.start()
	return c.reports.join(ctx, in.Budget, in.Report)
}

// Request asks a budget for an attempt, in the same way.
func (c *Control) Request(ctx context.Context, in contract.RequestInput) error {
	c.start()
	return c.requests.join(ctx, in.Budget, in.Request)
}

func (c *Control) start() {
	c.once.Do(func() {
		c.reports = newBatcher(func(ctx context.Context, budget string, items []admission.Report) error {
			return c.signal(ctx, budget, contract.ReportSignal, contract.ReportBatch{Reports: items})
		})
		c.requests = newBatcher(func(ctx context.Context, budget string, items []contract.AttemptRequest) error {
			return c.signal(ctx, budget, contract.RequestSignal, contract.RequestBatch{Requests: items})
		})
	})
}

func (c *Control) signal(ctx context.Context, budget, name string, batch any) error {
	if budget == "" {
		budget = contract.DefaultBudget
	}
	err := c.Client.SignalWorkflow(ctx, contract.BudgetID(budget), "", name, batch)
	if err != nil {
		c.Log.Warn("budget not signalled", zap.String("budget", budget), zap.String("signal", name), zap.Error(err))
		return unreachable(budget, err)
	}
	return nil
}
