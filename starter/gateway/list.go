package gateway

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/contract"
)

const (
	defaultPage = 50
	maxPage     = 100
	// lookers read the tasks of one page at the same time.
	lookers = 8
)

// filter is what a listing asks for.
type filter struct {
	tenant, operation, priority string
	phase                       contract.Phase
	approval                    bool // tasks that wait for one, only
	limit                       int
	cursor                      []byte
}

// list is GET /v1/tasks. A page may hold fewer tasks than asked for, or none,
// while a cursor tells that there are more: the phase of an open task is known
// only after it has been read.
func (g *Gateway) list(w http.ResponseWriter, r *http.Request) error {
	f, err := filterOf(r, r.URL.Query(), "phase")
	if err != nil {
		return err
	}
	return g.page(w, r, f)
}

// unknown is GET /v1/unknown: what waits for a person.
func (g *Gateway) unknown(w http.ResponseWriter, r *http.Request) error {
	f, err := filterOf(r, r.URL.Query())
	if err != nil {
		return err
	}
	f.phase = contract.PhaseUnknown
	return g.page(w, r, f)
}

func (g *Gateway) page(w http.ResponseWriter, r *http.Request, f filter) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*readTimeout)
	defer cancel()
	if page, ok, err := g.leased(ctx, f); ok || err != nil {
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, page)
	}
	found, err := g.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(f.limit), NextPageToken: f.cursor, Query: f.query(),
	})
	if err != nil {
		return upstream("temporal_unavailable", err)
	}
	views, err := g.look(ctx, found.GetExecutions())
	if err != nil {
		return err
	}
	page := contract.TaskPage{Tasks: []contract.TaskView{}, Cursor: base64.RawURLEncoding.EncodeToString(found.GetNextPageToken())}
	for _, v := range views {
		if v.Task != "" && (f.tenant == "" || v.Tenant == f.tenant) && (f.phase == "" || v.Phase == f.phase) && (!f.approval || v.Approval != nil) {
			page.Tasks = append(page.Tasks, v)
			if v.Reconciliation != nil && v.Reconciliation.Overdue {
				page.Overdue++
			}
		}
	}
	return reply(w, http.StatusOK, page)
}

// look reads the tasks of a page. A task that has been deleted meanwhile is left
// empty.
func (g *Gateway) look(ctx context.Context, found []*workflowpb.WorkflowExecutionInfo) ([]contract.TaskView, error) {
	views, errs := make([]contract.TaskView, len(found)), make([]error, len(found))
	next := make(chan int)
	var done sync.WaitGroup
	for range min(lookers, len(found)) {
		done.Go(func() {
			for i := range next {
				views[i], errs[i] = g.lookAt(ctx, found[i])
			}
		})
	}
	for i := range found {
		next <- i
	}
	close(next)
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return views, nil
}

// lookAt makes the view of one found task. The index is behind the truth, so an
// open task is described; what ended is told by its last event. Results are left
// out: they are as large as payloads, and a page has many.
func (g *Gateway) lookAt(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) (contract.TaskView, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s := &sighting{task: &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}}
	err := g.readEnd(ctx, s)
	if err == nil && needsPast(s) || s.open() {
		id, run := s.run()
		s.task, err = g.client.DescribeWorkflowExecution(ctx, id, run)
	}
	var v contract.TaskView
	if err == nil {
		v, err = g.read(ctx, s)
	}
	switch {
	case notFound(err):
		return contract.TaskView{}, nil
	case err != nil:
		return contract.TaskView{}, upstream("temporal_unavailable", err)
	}
	v.Result = nil
	for i := range v.Evidence {
		v.Evidence[i].Result = nil
	}
	return v, nil
}

// filterOf reads a filter; more are the parameters that not every listing has. A caller that is bound to a tenant sees only that one.
func filterOf(r *http.Request, query url.Values, more ...string) (filter, error) {
	f := filter{tenant: query.Get("tenant"), operation: query.Get("operation"), limit: defaultPage}
	known := append([]string{"tenant", "operation", "priority", "limit", "cursor"}, more...)
	for name := range query {
		if !slices.Contains(known, name) {
			return f, refuse("invalid_request", "the parameter %.40q is not known; want %s", name, strings.Join(known, ", "))
		}
	}
	switch c := who(r); {
	case !c.bound():
	case f.tenant == "":
		f.tenant = c.tenant
	case !c.owns(f.tenant):
		return f, foreign()
	}
	for what, name := range map[string]string{"tenant": f.tenant, "operation": f.operation} {
		if name != "" {
			if err := contract.CheckName(what, name); err != nil {
				return f, refuse("invalid_name", "%v", err)
			}
		}
	}
	if text := query.Get("priority"); text != "" {
		var p admission.Priority
		if err := p.UnmarshalText([]byte(text)); err != nil {
			return f, refuse("invalid_request", "%v", err)
		}
		f.priority = p.String()
	}
	if text := query.Get("phase"); text != "" {
		f.phase = contract.Phase(text)
		if !slices.Contains(contract.Phases(), f.phase) {
			return f, refuse("invalid_request", "phase %.40q: want one of %v", text, contract.Phases())
		}
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return f, refuse("invalid_request", "limit %.40q: want a number from 1 to %d", text, maxPage)
		}
		f.limit = n
	}
	cursor, err := base64.RawURLEncoding.DecodeString(query.Get("cursor"))
	if err != nil || len(cursor) > 4096 {
		return f, refuse("invalid_request", "the cursor is not one that a page has given")
	}
	f.cursor = cursor
	return f, nil
}

// query is the filter in the language of Temporal's index. It finds rather too
// much than too little: the index knows only what the workflow itself has noted.
// It notes a lease that came with the start, doubt and refusal; accepted may stand
// for leased, claimed and dispatched, and nothing is noted at first for a task
// that was started without the gateway.
func (f filter) query() string {
	terms := []string{"WorkflowType = " + quote(contract.TaskWorkflow)}
	add := func(attribute, value string) {
		if value != "" {
			terms = append(terms, attribute+" = "+quote(value))
		}
	}
	add(contract.TenantAttribute, f.tenant)
	add(contract.OperationAttribute, f.operation)
	add(contract.PriorityAttribute, f.priority)
	const phase, outside = contract.PhaseAttribute, "ExecutionStatus IN ('Terminated', 'TimedOut')"
	switch f.phase {
	case "":
		if f.approval {
			terms = append(terms, "ExecutionStatus = 'Running'", phase+" = "+quote(contract.WaitsForApproval))
		}
	case contract.PhaseAccepted:
		terms = append(terms, "ExecutionStatus = 'Running'", "("+phase+" IN ('accepted', 'approval') OR "+phase+" IS NULL)")
	case contract.PhaseLeased, contract.PhaseClaimed, contract.PhaseDispatched:
		terms = append(terms, "ExecutionStatus = 'Running'", "("+phase+" IN ('accepted', 'leased') OR "+phase+" IS NULL)")
	case contract.PhaseReconciling:
		terms = append(terms, "ExecutionStatus = 'Running'", phase+" IN ('reconciling', 'unknown')")
	case contract.PhaseUnknown:
		terms = append(terms, "(("+phase+" IN ('reconciling', 'unknown') AND ExecutionStatus = 'Running') OR "+outside+")")
	case contract.PhaseSucceeded:
		terms = append(terms, "ExecutionStatus = 'Completed'")
	case contract.PhaseCancelled:
		terms = append(terms, "ExecutionStatus = 'Canceled'")
	case contract.PhaseFailed:
		terms = append(terms, "ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')")
	default: // expired, rejected
		terms = append(terms, "ExecutionStatus = 'Failed'", phase+" = "+quote(string(f.phase)))
	}
	return strings.Join(terms, " AND ")
}

// quote writes a value as a string of the index's language.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
