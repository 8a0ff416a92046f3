package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/config"
	"headgate/contract"
)

// sighting is what Temporal shows of one task; view makes the answer of it.
type sighting struct {
	task  *workflowservice.DescribeWorkflowExecutionResponse
	end   *historypb.HistoryEvent                            // closed: how
	child *workflowservice.DescribeWorkflowExecutionResponse // open: its reconciliation, if one is open
	// past is the story in the history. It is read only where the description
	// does not tell enough: a task that was started without the gateway, ended
	// from outside, or waits for a worker to take notice of an ended attempt.
	past *story
}

func (s *sighting) ticket() string {
	return memo[string](s.task.GetWorkflowExecutionInfo().GetMemo(), contract.TicketMemo)
}

func (s *sighting) hash() string {
	return memo[string](s.task.GetWorkflowExecutionInfo().GetMemo(), contract.HashMemo)
}

// operation is empty for a task that was started without the gateway, and for none.
func (s *sighting) operation() string {
	if s == nil {
		return ""
	}
	return attribute(s.task.GetWorkflowExecutionInfo().GetSearchAttributes(), contract.OperationAttribute)
}

func (s *sighting) run() (workflowID, runID string) {
	e := s.task.GetWorkflowExecutionInfo().GetExecution()
	return e.GetWorkflowId(), e.GetRunId()
}

func (s *sighting) open() bool {
	status := s.task.GetWorkflowExecutionInfo().GetStatus()
	return status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
}

// find looks a task up: nil if there is none.
func (g *Gateway) find(ctx context.Context, tenant, key string) (*sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	task, err := g.client.DescribeWorkflowExecution(ctx, contract.TaskID(tenant, key), "")
	switch {
	case notFound(err):
		return nil, nil
	case err != nil:
		return nil, upstream("temporal_unavailable", err)
	}
	return &sighting{task: task}, nil
}

// readTimeout bounds one look at Temporal.
const readTimeout = 5 * time.Second

// read completes a sighting and makes the view.
func (g *Gateway) read(ctx context.Context, s *sighting) (contract.TaskView, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := g.complete(ctx, s); err != nil {
		return contract.TaskView{}, upstream("temporal_unavailable", err)
	}
	v := view(s)
	g.hold(&v)
	return v, nil
}

// readEnd reads how a closed task ended.
func (g *Gateway) readEnd(ctx context.Context, s *sighting) error {
	if s.open() || s.end != nil {
		return nil
	}
	id, run := s.run()
	events, err := g.history(ctx, id, run, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	if n := len(events); err == nil && n > 0 {
		s.end = events[n-1]
	}
	return err
}

// complete reads what the description leaves open. The history is read after the
// description and may know more than it: then the task is described anew.
func (g *Gateway) complete(ctx context.Context, s *sighting) error {
	for try := 1; ; try++ {
		if err := g.fill(ctx, s); err != nil || try == 3 || !s.stale() {
			return err
		}
		id, run := s.run()
		task, err := g.client.DescribeWorkflowExecution(ctx, id, run)
		if err != nil {
			return err
		}
		*s = sighting{task: task}
	}
}

// stale tells whether the history has gone on since the description.
func (s *sighting) stale() bool {
	return s.past != nil && s.open() && s.past.length > s.task.GetWorkflowExecutionInfo().GetHistoryLength()
}

func (g *Gateway) fill(ctx context.Context, s *sighting) error {
	if err := g.readEnd(ctx, s); err != nil {
		return err
	}
	if child := reconciliation(s.task); child != nil && s.open() && s.child == nil {
		described, err := g.client.DescribeWorkflowExecution(ctx, child.GetWorkflowId(), "") // the latest run: it may have continued as new
		switch {
		case notFound(err): // it is being started
		case err != nil:
			return err
		default:
			s.child = described
		}
	}
	if needsPast(s) {
		return g.readPast(ctx, s)
	}
	return nil
}

// readPast reads the story of a task.
func (g *Gateway) readPast(ctx context.Context, s *sighting) error {
	if s.past != nil {
		return nil
	}
	id, run := s.run()
	events, err := g.history(ctx, id, run, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if err != nil {
		return err
	}
	s.past = tell(events)
	return nil
}

// history reads events of one run.
func (g *Gateway) history(ctx context.Context, workflow, run string, filter enumspb.HistoryEventFilterType) ([]*historypb.HistoryEvent, error) {
	var events []*historypb.HistoryEvent
	for it := g.client.GetWorkflowHistory(ctx, workflow, run, false, filter); it.HasNext(); {
		event, err := it.Next()
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

// sameRequest tells whether a request is the one that a task was made from. A
// task that was started without the gateway has no hash in its memo: it is what
// its worker computed, or what its start input gives by the same rules.
func (g *Gateway) sameRequest(ctx context.Context, in contract.TaskInput, known *sighting) (first string, same bool, err error) {
	if first = known.hash(); first == "" {
		if err := g.readPast(ctx, known); err != nil {
			return "", false, upstream("temporal_unavailable", err)
		}
		if first = known.past.input.Hash; known.past.input.Pinned == nil || first == "" {
			first = hashOf(known.past.input)
		}
	}
	return first, first != "" && first == in.Hash, nil
}

// hashOf is the hash of what a start input asks for; empty, and so equal to
// none, if its payload is not valid.
func hashOf(in contract.TaskInput) string {
	canonical, err := config.Canonical(in.Payload)
	if err != nil {
		return ""
	}
	return config.Hash(in.Operation, canonical)
}

// status is GET /v1/tasks/{tenant}/{key}, with ?wait= a long poll to an end phase.
func (g *Gateway) status(w http.ResponseWriter, r *http.Request) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	wait, err := waitOf(r)
	if err != nil {
		return err
	}
	view, err := g.await(r.Context(), tenant, key, wait)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, view)
}

const (
	// maxWait bounds ?wait=; longer ones are cut to it.
	maxWait = 60 * time.Second
	// The long poll is told when the task closes. UNKNOWN is an end phase of an
	// open task, and is looked for: after firstLook, then ever later up to lastLook.
	firstLook = 50 * time.Millisecond
	lastLook  = 4 * time.Second
)

func waitOf(r *http.Request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, refuse("invalid_request", "wait=%.40q: want a duration such as 20s", text)
	}
	return min(d, maxWait), nil
}

// await reads a task until it is in an end phase or the time is up; then it
// tells how the task stands.
func (g *Gateway) await(ctx context.Context, tenant, key string, wait time.Duration) (contract.TaskView, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	until := g.now().Add(wait)
	closed := g.closed(ctx, contract.TaskID(tenant, key), wait)
	var view contract.TaskView
	for pause := firstLook; ; pause = min(pause*3, lastLook) {
		if left := until.Sub(g.now()); left > 0 {
			select {
			case <-ctx.Done():
				return view, nil // nobody reads it
			case <-closed:
				closed = nil // the look shows how; if it does not, looking goes on
			case <-g.after(min(pause, left)):
			}
		}
		s, err := g.find(ctx, tenant, key)
		if err != nil {
			return contract.TaskView{}, err
		}
		if s == nil {
			return contract.TaskView{}, noTask(tenant, key)
		}
		if view, err = g.read(ctx, s); err != nil || view.Phase.End() || !until.After(g.now()) {
			return view, err
		}
	}
}

// closed tells when a task is closed, or cannot be watched: at once for one that
// is not there. It ends with ctx. Without a wait there is nothing to watch.
func (g *Gateway) closed(ctx context.Context, id string, wait time.Duration) <-chan struct{} {
	if wait <= 0 {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The server holds the call until there is a close event.
		g.client.GetWorkflowHistory(ctx, id, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).HasNext()
	}()
	return done
}

func noTask(tenant, key string) error {
	return refuse("task_not_found", "tenant %s has no task with the key %q; it was never accepted, or its retention is over", tenant, key)
}

func (g *Gateway) mustFind(ctx context.Context, tenant, key string) (*sighting, contract.TaskView, error) {
	s, err := g.find(ctx, tenant, key)
	if err != nil {
		return nil, contract.TaskView{}, err
	}
	if s == nil {
		return nil, contract.TaskView{}, noTask(tenant, key)
	}
	view, err := g.read(ctx, s)
	if err != nil {
		return nil, contract.TaskView{}, fmt.Errorf("reading task %s: %w", contract.TaskID(tenant, key), err)
	}
	return s, view, nil
}
