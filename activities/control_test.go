package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	common "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/zap"

	"headgate/activities/conformance/server"
	"headgate/admission"
	"headgate/contract"
)

// desk is the Temporal server as far as Control sees it.
type desk struct {
	listed    func(query string) (*workflowservice.ListWorkflowExecutionsResponse, error) // nil: nothing is there
	signalled func(ctx context.Context, id, name string, arg any) error
	described func(ctx context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error)

	mu       sync.Mutex
	run      client.WorkflowRun
	signals  []any
	ids      []string
	now, top int // calls under way, and their maximum
}

func (d *desk) call() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now++
	d.top = max(d.top, d.now)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.now--
	}
}

func (d *desk) SignalWorkflow(ctx context.Context, id, _, name string, arg any) error {
	defer d.call()()
	d.mu.Lock()
	d.signals = append(d.signals, arg)
	d.ids = append(d.ids, id)
	d.mu.Unlock()
	if d.signalled != nil {
		return d.signalled(ctx, id, name, arg)
	}
	return nil
}

func (d *desk) DescribeWorkflowExecution(ctx context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	defer d.call()()
	return d.described(ctx, id)
}

func (d *desk) GetWorkflow(context.Context, string, string) client.WorkflowRun { return d.run }

func (d *desk) SignalWithStartWorkflow(ctx context.Context, id, name string, arg any, o client.StartWorkflowOptions, kind any, in ...any) (client.WorkflowRun, error) {
	if o.ID != id || kind != contract.FindingsWorkflow || len(in) != 1 {
		return nil, errors.New("unexpected start")
	}
	return nil, d.SignalWorkflow(ctx, id, "", name, arg)
}

func report(task string) contract.ReportInput {
	return contract.ReportInput{Budget: "default", Report: admission.Report{Task: task, Attempt: 1, Kind: admission.Released}}
}

func newControl(d *desk) *Control { return &Control{Client: d, Log: zap.NewNop()} }

func TestReportsJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := &desk{signalled: func(context.Context, string, string, any) error { <-gate; return nil }}
		c := newControl(d)
		var all sync.WaitGroup
		say := func(n int) {
			for i := range n {
				all.Go(func() {
					if err := c.Report(t.Context(), report(fmt.Sprint("task/acme/", i))); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
		}
		say(1) // alone: sent at once
		require.Len(t, d.signals, 1)
		say(250) // while it is under way: collected
		require.Len(t, d.signals, 1)
		close(gate)
		all.Wait()
		sizes := []int{}
		for _, s := range d.signals {
			sizes = append(sizes, len(s.(contract.ReportBatch).Reports))
		}
		require.Equal(t, []int{1, maxBatch, 50}, sizes)
		require.Equal(t, "task/acme/0", d.signals[1].(contract.ReportBatch).Reports[0].Task, "in order")
		require.Equal(t, "budget/default", d.ids[0])
		require.Equal(t, 1, d.top, "one signal under way")
		synctest.Wait()
		require.Empty(t, c.reports.lanes, "nothing is left behind")
	})
}

func TestBatchesAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := &desk{signalled: func(context.Context, string, string, any) error { <-gate; return nil }}
		c := newControl(d)
		var all sync.WaitGroup
		for _, size := range []int{1, maxBatchSize / 2, maxBatchSize / 2, 2 * maxBatchSize, 1} {
			all.Go(func() {
				in := contract.RequestInput{Request: contract.AttemptRequest{Request: admission.Request{Task: strings.Repeat("x", size)}}}
				if err := c.Request(t.Context(), in); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(gate)
		all.Wait()
		sizes := []int{}
		for _, s := range d.signals {
			sizes = append(sizes, len(s.(contract.RequestBatch).Requests))
		}
		require.Equal(t, []int{1, 1, 1, 1, 1}, sizes)
		require.Equal(t, contract.BudgetID(contract.DefaultBudget), d.ids[0], "the default, when none is named")
	})
}

func TestBudgetsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := &desk{signalled: func(_ context.Context, id, _ string, _ any) error {
			if id == "budget/slow" {
				<-gate
			}
			return nil
		}}
		c := newControl(d)
		slow := report("task/acme/1")
		slow.Budget = "slow"
		done := make(chan error, 1)
		go func() { done <- c.Report(t.Context(), slow) }()
		synctest.Wait()
		require.NoError(t, c.Report(t.Context(), report("task/acme/2")))
		close(gate)
		require.NoError(t, <-done)
	})
}

// Those whose caller has gone are left out; the others are not disturbed.
func TestAbandonedReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := &desk{signalled: func(ctx context.Context, _, _ string, _ any) error {
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		c := newControl(d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := make(chan error, 3)
		go func() { errs <- c.Report(ctx, report("first")) }() // under way when its caller goes
		synctest.Wait()
		go func() { errs <- c.Report(ctx, report("second")) }()
		require.ErrorIs(t, <-errs, context.DeadlineExceeded)
		require.ErrorIs(t, <-errs, context.DeadlineExceeded)
		go func() { errs <- c.Report(t.Context(), report("third")) }()
		synctest.Wait()
		close(gate)
		require.NoError(t, <-errs)
		require.Len(t, d.signals, 2)
		require.Equal(t, "third", d.signals[1].(contract.ReportBatch).Reports[0].Task)
	})
}

func TestBudgetOutOfReach(t *testing.T) {
	for name, cause := range map[string]error{"no budget": server.ErrNotFound, "no server": serviceerror.NewUnavailable("away")} {
		t.Run(name, func(t *testing.T) {
			d := &desk{signalled: func(context.Context, string, string, any) error { return cause }}
			c := newControl(d)
			err := c.Report(t.Context(), report("task/acme/1"))
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			require.Equal(t, UnreachableError, app.Type())
			require.False(t, app.NonRetryable())
			require.ErrorIs(t, err, cause)
			d.signalled = nil
			require.NoError(t, c.Report(t.Context(), report("task/acme/1")), "and works again")
		})
	}
}

func TestUnreadableItemFailsAlone(t *testing.T) {
	b := newBatcher(func(context.Context, string, []func()) error { return nil })
	var app *temporal.ApplicationError
	require.ErrorAs(t, b.join(t.Context(), "default", func() {}), &app)
	require.True(t, app.NonRetryable())
	require.Empty(t, b.lanes)
}

func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{signalled: func(ctx context.Context, id, name string, arg any) error {
			if name != contract.DecisionSignal {
				return errors.New(name)
			}
			switch arg.(contract.Decision).Attempt {
			case 1:
				pause(ctx, time.Second)
				return nil
			case 2:
				return server.ErrNotFound
			case 3:
				<-ctx.Done()
				return ctx.Err()
			}
			return serviceerror.NewUnavailable("away")
		}}
		var in contract.Deliveries
		for i := range 100 {
			in.Items = append(in.Items, contract.Delivery{Task: fmt.Sprint("task/acme/", i), Decision: contract.Decision{Attempt: i%4 + 1}})
		}
		reply, err := newControl(d).Deliver(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, reply.Answers, 100)
		for i, a := range reply.Answers {
			require.Equal(t, []string{contract.Delivered, contract.TaskGone, contract.NotDelivered, contract.NotDelivered}[i%4], a)
		}
		require.Equal(t, manyAtOnce, d.top)
		slices.Sort(d.ids)
		require.Len(t, slices.Compact(d.ids), 100)
	})
}

func TestAudit(t *testing.T) {
	ticket, err := converter.GetDefaultDataConverter().ToPayload("t-1")
	require.NoError(t, err)
	info := func(s enums.WorkflowExecutionStatus, memo *common.Payload) *workflowservice.DescribeWorkflowExecutionResponse {
		i := &workflow.WorkflowExecutionInfo{Status: s}
		if memo != nil {
			i.Memo = &common.Memo{Fields: map[string]*common.Payload{contract.TicketMemo: memo}}
		}
		return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: i}
	}
	d := &desk{described: func(_ context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
		switch id {
		case "open":
			return info(enums.WORKFLOW_EXECUTION_STATUS_RUNNING, ticket), nil
		case "bare":
			return info(enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil), nil
		case "done":
			return info(enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, ticket), nil
		case "killed":
			return info(enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, nil), nil
		case "secret":
			return info(enums.WORKFLOW_EXECUTION_STATUS_RUNNING, &common.Payload{Data: []byte("?")}), nil
		case "missing":
			return nil, server.ErrNotFound
		}
		return nil, serviceerror.NewUnavailable("away")
	}}
	reply, err := newControl(d).Audit(t.Context(), contract.AuditRequest{Tasks: []string{"open", "bare", "done", "killed", "secret", "missing", "?"}})
	require.NoError(t, err)
	require.Equal(t, []contract.AuditAnswer{
		{State: contract.AuditOpen, Ticket: "t-1"}, {State: contract.AuditOpen}, {State: contract.AuditClosed, Ticket: "t-1"}, {State: contract.AuditClosed},
		{State: contract.AuditUnclear}, {State: contract.AuditMissing}, {State: contract.AuditUnclear},
	}, reply.Answers)
}

func (d *desk) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if d.listed == nil {
		return &workflowservice.ListWorkflowExecutionsResponse{}, nil
	}
	return d.listed(request.GetQuery())
}

// A key is one task, also for a client that lets Temporal start an ID again.
func TestASecondRunOfAKeyIsRefused(t *testing.T) {
	runs := func(ids ...string) func(string) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		return func(query string) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			require.Equal(t, `WorkflowId = 'task/acme/it\'s'`, query)
			got := &workflowservice.ListWorkflowExecutionsResponse{}
			for _, id := range ids {
				got.Executions = append(got.Executions, &workflow.WorkflowExecutionInfo{Execution: &common.WorkflowExecution{RunId: id}})
			}
			return got, nil
		}
	}
	ask := func(listed func(string) (*workflowservice.ListWorkflowExecutionsResponse, error)) (string, error) {
		return newControl(&desk{listed: listed}).earlier(t.Context(), "task/acme/it's", "own")
	}
	for _, only := range [][]string{nil, {"own"}} {
		refused, err := ask(runs(only...))
		require.NoError(t, err)
		require.Empty(t, refused)
	}
	refused, err := ask(runs("own", "older"))
	require.NoError(t, err)
	require.Contains(t, refused, "key_reused")
	_, err = ask(func(string) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		return nil, serviceerror.NewUnavailable("away")
	})
	require.Error(t, err, "not known is not no")
}

type resolver struct{ at time.Time }

func (r *resolver) Resolve(in contract.TaskInput, now time.Time) contract.Resolved {
	r.at = now
	return contract.Resolved{Hash: in.Key}
}

// Under the names that histories hold.
func TestControlAsActivities(t *testing.T) {
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	d, r := &desk{}, &resolver{}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	RegisterControl(env, &Control{Client: d, Config: r, Log: zap.NewNop(), Now: func() time.Time { return at }})
	got, err := env.ExecuteActivity(contract.ResolveActivity, contract.TaskInput{Key: "k"})
	require.NoError(t, err)
	var resolved contract.Resolved
	require.NoError(t, got.Get(&resolved))
	require.Equal(t, "k", resolved.Hash)
	require.Equal(t, at, r.at)
	_, err = env.ExecuteActivity(contract.ReportActivity, report("task/acme/1"))
	require.NoError(t, err)
	_, err = env.ExecuteActivity(contract.RequestActivity, contract.RequestInput{})
	require.NoError(t, err)
	_, err = env.ExecuteActivity(contract.DeliverActivity, contract.Deliveries{})
	require.NoError(t, err)
	_, err = env.ExecuteActivity(contract.AuditActivity, contract.AuditRequest{})
	require.NoError(t, err)
	require.Len(t, d.signals, 2)
}
