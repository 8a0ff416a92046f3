package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

var start = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// fake is a Temporal of the calls that the gateway makes. Each hook may be left
// nil; what it does then is said beside it.
type fake struct {
	mu        sync.Mutex
	tasks     map[string]*workflowservice.DescribeWorkflowExecutionResponse // by workflow ID
	histories map[string][]*historypb.HistoryEvent                          // by workflow ID
	describe  func(id string) error                                         // nil: no error

	start    func(in contract.TaskInput) error // nil: it is stored, or already started
	started  []client.StartWorkflowOptions
	inputs   []contract.TaskInput
	audits   []contract.AuditInput
	against  []contract.ClosedEvidence // told to findings
	startErr error                     // of the last start's context, when it came

	update  func(o client.UpdateWorkflowOptions) (any, error) // nil: every request is queued
	updates []client.UpdateWorkflowOptions
	query   func(name string, args []any) (any, error)
	list    func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	count   func(query string) (*workflowservice.CountWorkflowExecutionsResponse, error)

	intents    []contract.IntentInput
	terminated []string

	reports   []admission.Report
	cancelled []string
	cancelErr error
	signals   []any // but reports
	signalErr error
	healthErr error
	closing   chan struct{} // closed when the watched task is; nil: never
}

func (f *fake) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if order, ok := args[0].(contract.AuditInput); ok {
		f.audits, f.started = append(f.audits, order), append(f.started, o)
		return audited{}, nil
	}
	if in, ok := args[0].(contract.IntentInput); ok {
		return nil, f.claim(o, in)
	}
	in := args[0].(contract.TaskInput)
	f.startErr = ctx.Err()
	f.started, f.inputs = append(f.started, o), append(f.inputs, in)
	if f.start != nil {
		return nil, f.start(in)
	}
	if f.tasks[o.ID] != nil {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "")
	}
	f.put(openTask(in))
	return nil, nil
}

// audited is the run of an audit.
type audited struct{ client.WorkflowRun }

func (audited) GetRunID() string { return "run-1" }

// claim is the start of an Intent workflow: one may be open at a time.
func (f *fake) claim(o client.StartWorkflowOptions, in contract.IntentInput) error {
	if d := f.tasks[o.ID]; d != nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "")
	}
	f.intents = append(f.intents, in)
	f.put(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: o.ID, RunId: "intent-" + strconv.Itoa(len(f.intents))},
		Status:    enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		Memo:      &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.ClaimMemo: payload(o.Memo[contract.ClaimMemo])}},
	}})
	return nil
}

func (f *fake) TerminateWorkflow(_ context.Context, id, run, _ string, _ ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.tasks[id]
	if d == nil || d.GetWorkflowExecutionInfo().GetExecution().GetRunId() != run {
		return serviceerror.NewNotFound("no such run is open")
	}
	f.terminated = append(f.terminated, id+" "+run)
	d.WorkflowExecutionInfo.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	return nil
}

func (f *fake) put(d *workflowservice.DescribeWorkflowExecutionResponse) {
	if f.tasks == nil {
		f.tasks = map[string]*workflowservice.DescribeWorkflowExecutionResponse{}
	}
	f.tasks[d.GetWorkflowExecutionInfo().GetExecution().GetWorkflowId()] = d
}

func (f *fake) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.describe != nil {
		if err := f.describe(id); err != nil {
			return nil, err
		}
	}
	if d := f.tasks[id]; d != nil {
		return d, nil
	}
	return nil, serviceerror.NewNotFound("workflow not found")
}

func (f *fake) GetWorkflowHistory(ctx context.Context, id, _ string, longPoll bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.tasks[id]; longPoll && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return &watcher{ctx: ctx, closing: f.closing}
	}
	events := f.histories[id]
	if filter == enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT && len(events) > 0 {
		events = events[len(events)-1:]
	}
	return &iterator{events: events}
}

type iterator struct{ events []*historypb.HistoryEvent }

func (i *iterator) HasNext() bool { return len(i.events) > 0 }
func (i *iterator) Next() (*historypb.HistoryEvent, error) {
	e := i.events[0]
	i.events = i.events[1:]
	return e, nil
}

// watcher waits for the end of a task.
type watcher struct {
	iterator
	ctx     context.Context
	closing chan struct{}
}

func (w *watcher) HasNext() bool {
	select {
	case <-w.closing:
		return true
	case <-w.ctx.Done():
		return false
	}
}

func (f *fake) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return f.list(r)
}

func (f *fake) CountWorkflow(_ context.Context, r *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return f.count(r.GetQuery())
}

func (f *fake) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	f.mu.Lock()
	f.updates = append(f.updates, o)
	update := f.update
	f.mu.Unlock()
	if update == nil {
		update = queueAll
	}
	answer, err := update(o)
	return &handle{answer: answer, err: err}, nil
}

func queueAll(o client.UpdateWorkflowOptions) (any, error) {
	var reply contract.AdmitReply
	for i := range o.Args[0].(contract.AdmitRequest).Requests {
		reply.Verdicts = append(reply.Verdicts, admission.Verdict{Action: admission.Queue, Reason: admission.Capacity, Resource: "psp_calls",
			Ticket: "ticket-1", StartBy: start.Add(30 * time.Second), Position: i + 1, Estimate: admission.Duration(4 * time.Second)})
	}
	return reply, nil
}

type handle struct {
	client.WorkflowUpdateHandle
	answer any
	err    error
}

func (h *handle) Get(_ context.Context, into any) error {
	if h.err != nil {
		return h.err
	}
	text, err := json.Marshal(h.answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (f *fake) QueryWorkflow(_ context.Context, _, _, name string, args ...any) (converter.EncodedValue, error) {
	if f.query == nil {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	answer, err := f.query(name, args)
	if err != nil {
		return nil, err
	}
	// The value that it makes does not know of the codec.
	plain, err := converter.GetDefaultDataConverter().ToPayloads(answer)
	return client.NewValue(plain), err
}

func (f *fake) SignalWorkflow(_ context.Context, _, _, name string, arg any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name == contract.ReportSignal {
		f.reports = append(f.reports, arg.(contract.ReportBatch).Reports...)
		return nil
	}
	f.signals = append(f.signals, arg)
	return f.signalErr
}

func (f *fake) SignalWithStartWorkflow(_ context.Context, id, _ string, arg any, _ client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.against = append(f.against, arg.(contract.ClosedEvidence))
	return nil, nil
}

func (f *fake) CancelWorkflowWithOptions(_ context.Context, o client.CancelWorkflowOptions) error {
	f.cancelled = append(f.cancelled, o.WorkflowID+" "+o.Reason)
	return f.cancelErr
}

func (f *fake) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, f.healthErr
}

// operations is a configuration with one operation, charge_card.
type operations struct{}

func (operations) ResolveE(in contract.TaskInput, _ time.Time) (contract.Resolved, *config.ResolveError) {
	if in.Operation != "charge_card" {
		return contract.Resolved{}, &config.ResolveError{Code: config.UnknownOperation, Detail: "there is no operation " + in.Operation}
	}
	op := &contract.Operation{Name: in.Operation, Type: "http"}
	if in.Intent != "" {
		op.Intent = &contract.Intent{Same: contract.SameRefuse, Window: contract.DefaultIntentWindow}
		if in.SameIntent != "" {
			op.Intent.Same = in.SameIntent
		}
	}
	return contract.Resolved{Operation: op, Payload: in.Payload, Hash: config.Hash(in.Operation, in.Payload)}, nil
}

func (operations) Operation(name string) (*config.Operation, bool) {
	op := &config.Operation{Declared: contract.Operation{Name: name, Type: "http"}}
	switch name {
	case "charge_card":
		op.Declared.Probe = &contract.Probe{Callback: &contract.Callback{Secret: "PSP_SECRET", Tenant: "body.tenant", RequestKey: "body.key",
			Happened: "body.type == 'captured'", DidNotHappen: "body.type == 'failed'", Reference: "body.id"}}
	case "charge_by_key":
		op.Declared.Probe = &contract.Probe{Callback: &contract.Callback{Secret: "PSP_SECRET", Key: "body.key", Happened: "body.type == 'captured'"}}
	case "silent":
	default:
		return nil, false
	}
	return op, true
}

func (operations) Declared() []contract.Operation {
	return []contract.Operation{
		{Name: "charge_card", Type: "http", Replay: contract.Replay{Class: "keyed"}, Approval: &contract.Approval{Rule: "payload.amount > 1"},
			Request: &contract.HTTPRequest{URL: "http://psp.example/secret-path"}},
		{Name: "silent", Type: "sms", Intent: &contract.Intent{Same: contract.SameReturn}},
	}
}

func newGateway(f *fake) *Gateway {
	return New(Options{Client: f, Operations: operations{}, Now: func() time.Time { return start }})
}

func do(t *testing.T, g *Gateway, method, path, body string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:7280"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	documented(t, r, w)
	return w.Result()
}

func decodeBody[T any](t *testing.T, r *http.Response) T {
	t.Helper()
	var v T
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &v), "%s", text)
	return v
}

func payloads(values ...any) *commonpb.Payloads {
	p, err := stored.ToPayloads(values...)
	if err != nil {
		panic(err)
	}
	return p
}

func payload(v any) *commonpb.Payload { return payloads(v).GetPayloads()[0] }

// doRaw submits with a content type of its own.
func doRaw(t *testing.T, g *Gateway, kind, body string) *http.Response {
	r := httptest.NewRequest("POST", "http://127.0.0.1:7280/v1/tasks", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", "inv-42")
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	documented(t, r, w)
	return w.Result()
}
