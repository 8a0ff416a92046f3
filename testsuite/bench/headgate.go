package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"headgate/contract"
)

// lane is the resource that a task needs, and the name of the operation.
type lane string

const (
	plenty lane = "plenty" // more than anybody takes
	eight  lane = "eight"
	one    lane = "one"
	// The same two, for effects that keep their resource until they are let go.
	holdEight lane = "hold-eight"
	holdOne   lane = "hold-one"
)

// order is one task, for either side.
type order struct {
	tenant, key string
	lane        lane
	weight      int // of the tenant; Headgate knows it from its configuration
}

// system is one of the two sides.
type system interface {
	name() string
	// start asks for a task. wait returns once the caller knows that it has
	// succeeded; anything else is an error.
	start(ctx context.Context, o order) (wait func(ctx context.Context) error, err error)
	// witness is the key under which the provider counts the task's effects.
	witness(o order) string
	// waiting tells whether all work has been done for the task that can be done
	// before it has capacity.
	waiting(ctx context.Context, o order) (bool, error)
	// events is the length of the task's history.
	events(ctx context.Context, o order) (int64, error)
}

// run runs one task to its end.
func run(ctx context.Context, s system, o order) error {
	wait, err := s.start(ctx, o)
	if err != nil {
		return err
	}
	return wait(ctx)
}

// payload is the same for both sides but for the key.
func payload(tenant, key string) json.RawMessage {
	return fmt.Appendf(nil, `{"amount":1200,"currency":"EUR","key":%q,"tenant":%q}`, key, tenant)
}

// headgate asks the gateway.
type headgate struct{ *world }

func (s headgate) name() string { return "headgate" }

func (s headgate) witness(o order) string { return contract.ProviderKey(o.tenant, o.key) }

// tries are how often a client asks that is told to come back.
const tries = 10

func (s headgate) start(ctx context.Context, o order) (func(ctx context.Context) error, error) {
	for try := 1; ; try++ {
		answer, err := s.door.Submit(ctx, o.key, contract.SubmitRequest{
			Tenant: o.tenant, Operation: string(o.lane), Payload: payload(o.tenant, s.witness(o))})
		switch {
		case err != nil:
			return nil, err
		case answer.Status == http.StatusAccepted:
			return func(ctx context.Context) error { return s.await(ctx, o) }, nil
		case answer.Status != http.StatusServiceUnavailable || try == tries:
			return nil, fmt.Errorf("submit %s/%s: %d %s: %s", o.tenant, o.key, answer.Status, answer.Problem.Reason, answer.Problem.Detail)
		}
		s.sentBack.Add(1)
		select {
		case <-time.After(time.Duration(max(1, answer.Problem.RetryAfter)) * time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// await is the long poll that clients are told to use.
func (s headgate) await(ctx context.Context, o order) error {
	path := "/v1/tasks/" + url.PathEscape(o.tenant) + "/" + url.PathEscape(o.key) + "?wait=30s"
	for {
		var view contract.TaskView
		switch err := s.get(ctx, path, &view); {
		case err != nil:
			return err
		case view.Phase == contract.PhaseSucceeded:
			return nil
		case view.Phase.End():
			return fmt.Errorf("%s ended %s: %s %s", view.Task, view.Phase, view.ErrorClass, view.Detail)
		}
	}
}

// get reads a document from the gateway (into nil: only whether there is one).
func (w *world) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.door.URL+path, nil)
	if err != nil {
		return err
	}
	answer, err := w.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return fmt.Errorf("GET %s: %w", path, err)
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("GET %s: %d %s", path, answer.StatusCode, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// waiting tells whether the task's workflow has come to its first halt.
func (s headgate) waiting(ctx context.Context, o order) (bool, error) {
	n, err := s.events(ctx, o)
	return n >= 4, err // started; workflow task scheduled, started, completed
}

func (s headgate) events(ctx context.Context, o order) (int64, error) {
	return s.length(ctx, contract.TaskID(o.tenant, o.key), "")
}

// length is how many events a history has.
func (w *world) length(ctx context.Context, workflow, run string) (int64, error) {
	seen, err := w.describe(ctx, workflow, run)
	return seen.GetWorkflowExecutionInfo().GetHistoryLength(), err
}

func (w *world) describe(ctx context.Context, workflow, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	seen, err := w.temporal.DescribeWorkflow(ctx, workflow, run)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", workflow, err)
	}
	return seen.RawResponse, nil
}

// mark is a place in the budget's history.
type mark struct {
	run    string
	events int64
}

// mark is where the budget's history ends now.
func (w *world) mark(ctx context.Context) (mark, error) {
	seen, err := w.describe(ctx, contract.BudgetID(contract.DefaultBudget), "")
	info := seen.GetWorkflowExecutionInfo()
	return mark{info.GetExecution().GetRunId(), info.GetHistoryLength()}, err
}

// since counts the budget's events after a mark, over any number of runs.
func (w *world) since(ctx context.Context, m mark) (int64, error) {
	id := contract.BudgetID(contract.DefaultBudget)
	now, err := w.mark(ctx)
	if err != nil {
		return 0, err
	}
	sum := now.events - m.events
	for run := m.run; run != now.run; {
		closed, err := w.length(ctx, id, run)
		if err != nil {
			return 0, err
		}
		last, err := w.temporal.GetWorkflowHistory(ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).Next()
		if err != nil {
			return 0, fmt.Errorf("the budget's run %s: %w", run, err)
		}
		if run = last.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(); run == "" {
			return 0, fmt.Errorf("the budget has ended: %s", last.GetEventType())
		}
		sum += closed
	}
	return sum, nil
}

// configure puts a policy in force.
func (w *world) configure(ctx context.Context, in contract.ConfigureRequest) error {
	handle, err := w.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: contract.BudgetID(contract.DefaultBudget), UpdateName: contract.ConfigureUpdate,
		Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("configure the budget: %w", err)
	}
	return nil
}
