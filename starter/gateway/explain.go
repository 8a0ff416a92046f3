package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"headgate/contract"
)

// findingsPatience bounds the wait for findings, which a worker answers.
const findingsPatience = 2 * time.Second

// maxRuns bounds how many runs of one reconciliation are read.
const maxRuns = 20

// explain is GET /v1/tasks/{tenant}/{key}/explain: the task's timeline, from its
// history and the histories of its reconciliations alone.
func (g *Gateway) explain(w http.ResponseWriter, r *http.Request) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	s, err := g.find(r.Context(), tenant, key)
	if err != nil {
		return err
	}
	if s == nil {
		return noTask(tenant, key)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 3*readTimeout)
	defer cancel()
	view, err := g.read(ctx, s)
	if err != nil {
		return err
	}
	if err := g.readPast(ctx, s); err != nil {
		return upstream("temporal_unavailable", err)
	}
	if effect := pendingEffect(s.task); effect != nil {
		s.past.withBeat(beatOf(effect)) // so that an attempt that goes on is told too
	}
	events, err := g.timeline(ctx, s.past)
	if err != nil {
		return upstream("temporal_unavailable", err)
	}
	told := contract.Explanation{Task: view, Events: events, Sentence: sentence(view, s.past)}
	told.Findings, told.FindingsUnread = g.against(ctx, view.Operation, view.Task)
	return reply(w, http.StatusOK, told)
}

// against reads what was found wrong about one task. A history can be read without
// any worker, findings cannot: then unread says so, soon.
func (g *Gateway) against(ctx context.Context, operation, task string) (found []contract.Finding, unread bool) {
	ctx, cancel := context.WithTimeout(ctx, findingsPatience)
	defer cancel()
	all, err := g.findingsOf(ctx, operation)
	return slices.DeleteFunc(all.Findings, func(f contract.Finding) bool { return f.Task != task }), err != nil
}

// timeline merges a task's own events with those of its reconciliations.
func (g *Gateway) timeline(ctx context.Context, past *story) ([]contract.Event, error) {
	events := slices.Clone(past.events)
	for _, r := range past.reconcile {
		history, err := g.runs(ctx, r.workflow, r.run)
		if notFound(err) {
			continue // not started yet, or deleted
		}
		if err != nil {
			return nil, err
		}
		events = append(events, reconcileEvents(r.attempt, history)...)
	}
	slices.SortStableFunc(events, func(a, b contract.Event) int { return a.At.Compare(b.At) })
	return events, nil
}

// runs reads a workflow's history from a run on, through every continue-as-new.
func (g *Gateway) runs(ctx context.Context, workflow, run string) ([]*historypb.HistoryEvent, error) {
	var all []*historypb.HistoryEvent
	for range maxRuns {
		events, err := g.history(ctx, workflow, run, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			return nil, errors.New("an empty history was read")
		}
		all = append(all, events...)
		run = events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		if run == "" {
			break
		}
	}
	return all, nil
}
