// Package gateway is the HTTP door of Headgate: it admits tasks, tells what
// became of them from Temporal's own records, and hands the operators' words to
// the workflows. It keeps no state: any number of gateways can run side by side.
//
// Contract:
//   - 202 is answered only for a task that is durable. Everything else says what
//     was stored (nothing, or not known) and what to do next.
//   - A known (tenant, request key) is looked up before any limit is asked: a
//     client that repeats an accepted request is never told to come back later.
//   - Reading needs no worker: a view comes from Temporal's description of the
//     task, an explanation from its history.
//   - No payload and no credential is logged, and no error text of Go reaches a
//     client but through problem.go.
//
// A request key is one path segment, percent-escaped: the key "a/b" is
// /v1/tasks/acme/a%2Fb, and the key "a/cancel" is /v1/tasks/acme/a%2Fcancel.
// client.TaskPath does it.
package gateway

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// Temporal is the part of client.Client that the gateway uses.
type Temporal interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	CountWorkflow(ctx context.Context, request *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error)
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	QueryWorkflow(ctx context.Context, workflowID, runID, queryType string, args ...any) (converter.EncodedValue, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
	TerminateWorkflow(ctx context.Context, workflowID, runID, reason string, details ...any) error
	CancelWorkflowWithOptions(ctx context.Context, options client.CancelWorkflowOptions) error
	CheckHealth(ctx context.Context, request *client.CheckHealthRequest) (*client.CheckHealthResponse, error)
}

// Operations is the part of the configuration that the gateway uses.
type Operations interface {
	ResolveE(in contract.TaskInput, now time.Time) (contract.Resolved, *config.ResolveError)
	Operation(name string) (*config.Operation, bool)
	Declared() []contract.Operation
}

// Options of a Gateway. Client and Operations are required.
type Options struct {
	Client     Temporal
	Operations Operations
	Policy     admission.Policy                     // of the same file, normalized; zero: nothing to compare the budget's with
	People     config.People                        // who may decide what; empty: everybody everything
	Keys       *Keys                                // who may do what at all; nil: everybody everything
	ClientRate float64                              // requests a second of each client; zero: no limit
	Log        *zap.Logger                          // nil: no log
	Audit      *zap.Logger                          // of operators' orders; nil: Log
	Budget     string                               // empty: contract.DefaultBudget
	Now        func() time.Time                     // nil: time.Now
	After      func(time.Duration) <-chan time.Time // nil: time.After; paces the long poll
	Env        func(name string) string             // nil: os.Getenv; where the secrets of callbacks are
	Metrics    *prometheus.Registry                 // shown at /metrics, for one gateway; nil: one of its own
	Traces     trace.TracerProvider                 // nil: nothing is traced
}

// Gateway answers the HTTP API.
type Gateway struct {
	client     Temporal
	operations Operations
	policy     admission.Policy
	people     config.People
	keys       *Keys  // nil: the door is open
	digest     string // of policy; empty: none is known
	rates      *rates
	log, audit *zap.Logger
	budget     string
	now        func() time.Time
	after      func(time.Duration) <-chan time.Time
	env        func(name string) string
	admitter   *admitter
	memory     memory
	lookups    lookups
	tally      tally
	looks      looks
	counters   *counters
	scrape     http.Handler
	tracer     trace.Tracer // nil: nothing is traced
}

// New makes a gateway; it starts nothing.
func New(o Options) *Gateway {
	g := &Gateway{client: o.Client, operations: o.Operations, policy: o.Policy, people: o.People, keys: o.Keys, rates: newRates(o.ClientRate), log: o.Log, audit: o.Audit, budget: o.Budget, now: o.Now, after: o.After, env: o.Env}
	if g.log == nil {
		g.log = zap.NewNop()
	}
	if g.audit == nil {
		g.audit = g.log
	}
	g.audit = g.audit.Named("audit")
	if g.budget == "" {
		g.budget = contract.DefaultBudget
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.after == nil {
		g.after = time.After
	}
	if g.env == nil {
		g.env = os.Getenv
	}
	if len(o.Policy.Resources) > 0 {
		g.digest = o.Policy.Digest()
	}
	g.admitter = &admitter{send: g.sendBatch}
	g.lookups.free = make(chan struct{}, maxLookups)
	g.measure(o.Metrics)
	if o.Traces != nil {
		g.tracer = o.Traces.Tracer("headgate")
	}
	return g
}

// handler answers a request, or returns an error that problem.go words.
type handler func(w http.ResponseWriter, r *http.Request) error

type route struct {
	method, path string
	needs        needs
	handle       handler
}

func (g *Gateway) routes() []route {
	return []route{
		{"POST", "/v1/tasks", submits(), g.traced(g.counted(g.submit))},
		{"GET", "/v1/tasks", views(), g.list},
		{"GET", "/v1/tasks/{tenant}/{key}", views(), g.status},
		{"GET", "/v1/tasks/{tenant}/{key}/explain", views(), g.explain},
		{"GET", "/v1/tasks/{tenant}/{key}/why", views(), g.why},
		{"POST", "/v1/tasks/{tenant}/{key}/cancel", orders("cancel"), g.cancel},
		{"POST", "/v1/tasks/{tenant}/{key}/resolve", orders("resolve"), g.resolve},
		{"GET", "/v1/tasks/{tenant}/{key}/approval", views(), g.approval},
		{"POST", "/v1/tasks/{tenant}/{key}/approve", orders("approve"), g.approve},
		{"POST", "/v1/tasks/{tenant}/{key}/decline", orders("decline"), g.decline},
		{"POST", "/v1/evidence", nothing, g.evidence},
		{"POST", "/v1/tenants/{tenant}/pause", orders("pause"), g.pause},
		{"POST", "/v1/tenants/{tenant}/resume", orders("resume"), g.resume},
		{"GET", "/v1/operations", views(), g.declarations},
		{"PUT", "/v1/operations/{operation}/freeze", ordersAll("freeze"), g.freeze},
		{"PUT", "/v1/operations/{operation}/unfreeze", ordersAll("unfreeze"), g.unfreeze},
		{"POST", "/v1/operations/{operation}/audit", ordersAll("audit"), g.startAudit},
		{"GET", "/v1/operations/{operation}/audit", viewsAll(), g.lastAudit},
		{"GET", "/v1/operations/{operation}/findings", viewsAll(), g.findings},
		{"GET", "/v1/queue", views(), g.queue},
		{"GET", "/v1/phases", views(), g.phases},
		{"GET", "/v1/caller", views(), g.caller},
		{"GET", "/v1/budget", viewsAll(), g.budgetView},
		{"PUT", "/v1/budget", ordersAll("configure"), g.configure},
		{"GET", "/v1/unknown", views(), g.unknown},
		{"GET", "/v1/approvals", views(), g.approvals},
		{"GET", "/healthz", nothing, g.healthz},
		{"GET", "/readyz", nothing, g.readyz},
		{"GET", metricsRoute, viewsAll(), g.metrics},
		{"GET", "/openapi.json", nothing, g.document},
	}
}

// Handler is the whole API with its guards.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range g.routes() {
		mux.Handle(rt.method+" "+rt.path, g.serve(rt.needs, rt.handle))
		allowed[rt.path] = append(allowed[rt.path], rt.method)
	}
	for path, methods := range allowed {
		allow := strings.Join(slices.Sorted(slices.Values(methods)), ", ")
		mux.Handle(path, g.serve(views(), func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", allow)
			return refuse("method_not_allowed", "%s is not allowed here; allowed: %s", r.Method, allow)
		}))
	}
	mux.Handle("/", g.serve(views(), func(_ http.ResponseWriter, r *http.Request) error {
		return refuse("no_such_route", "nothing is at %s; a request key is one path segment, with each '/' in it written as %%2F", r.URL.EscapedPath())
	}))
	return g.guard(mux)
}

// taskOf reads the task's names from the path.
func taskOf(r *http.Request) (tenant, key string, err error) {
	tenant, key = r.PathValue("tenant"), r.PathValue("key")
	if err := contract.CheckName("tenant", tenant); err != nil {
		return "", "", refuse("invalid_name", "%v", err)
	}
	if err := contract.CheckKey(key); err != nil {
		return "", "", refuse("invalid_key", "%v", err)
	}
	return tenant, key, nil
}
