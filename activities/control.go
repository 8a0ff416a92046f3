package activities

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/contract"
)

// ControlClient is what Control needs of a Temporal client.
type ControlClient interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	findingsStarter
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
// gateway, and canonicalises its payload. A client that let Temporal start the
// same ID again after its end is refused: a key is one task. The index that tells
// is a second or so behind, which the gateway's own starts do not depend on.
func (c *Control) Resolve(ctx context.Context, in contract.TaskInput) (contract.Resolved, error) {
	own := activity.GetInfo(ctx).WorkflowExecution
	if refused, err := c.earlier(ctx, own.ID, own.RunID); refused != "" || err != nil {
		return contract.Resolved{Refused: refused}, err
	}
	return c.Config.Resolve(in, clock(c.Now)()), nil
}

// earlier looks for another run of a task's ID.
func (c *Control) earlier(ctx context.Context, id, own string) (refused string, err error) {
	got, err := c.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: 2, Query: "WorkflowId = '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(id) + "'"})
	if err != nil {
		return "", temporal.NewApplicationErrorWithCause("look for earlier runs of the task", UnreachableError, err)
	}
	for _, e := range got.GetExecutions() {
		if run := e.GetExecution().GetRunId(); run != own {
			return "key_reused: the key has a task already, run " + run + "; start with the reuse policy reject-duplicate", nil
		}
	}
	return "", nil
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
		c.reports = newReports(c.Client, c.Log)
		c.requests = newBatcher(func(ctx context.Context, budget string, items []contract.AttemptRequest) error {
			return c.signal(ctx, budget, contract.RequestSignal, contract.RequestBatch{Requests: items})
		})
	})
}

func newReports(to signaller, log *zap.Logger) *batcher[admission.Report] {
	return newBatcher(func(ctx context.Context, budget string, items []admission.Report) error {
		return signalBudget(ctx, to, log, budget, contract.ReportSignal, contract.ReportBatch{Reports: items})
	})
}

func (c *Control) signal(ctx context.Context, budget, name string, batch any) error {
	return signalBudget(ctx, c.Client, c.Log, budget, name, batch)
}

// signaller is what sends a message to a workflow.
type signaller interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

func signalBudget(ctx context.Context, to signaller, log *zap.Logger, budget, name string, batch any) error {
	if budget == "" {
		budget = contract.DefaultBudget
	}
	err := to.SignalWorkflow(ctx, contract.BudgetID(budget), "", name, batch)
	if err != nil {
		log.Warn("budget not signalled", zap.String("budget", budget), zap.String("signal", name), zap.Error(err))
		return unreachable(budget, err)
	}
	return nil
}
