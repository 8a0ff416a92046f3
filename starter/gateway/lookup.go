package gateway

import (
	"context"
	"sync/atomic"

	"headgate/admission"
	"headgate/contract"
)

const (
	// maxLookups is the most look-ups of submissions that are under way: what a
	// server answers best, and few enough to leave it to the work that goes on.
	maxLookups = 64
	// maxUnseen is the most submissions that wait for theirs.
	maxUnseen = 1024
)

// lookups bounds what a flood of submissions does to Temporal.
type lookups struct {
	free    chan struct{} // holds one for each look-up that is under way
	waiting atomic.Int64
}

// lookUp finds the task of a submission's key; nil if there is none.
//
// It comes before every other question, and its answer is never remembered or
// shared: another gateway may have started the task a millisecond ago, and its
// client must not be told that there is no room for it. It reads one row and
// writes nothing.
//
// To ask the budget first, and to look only where it refuses or where the start
// finds the task, would save half a millisecond of processor time of the twenty
// that an accepted task costs (measured; no more tasks a second). For that, each
// repetition of an accepted request would take capacity from others for a
// moment, write events, and end a waiting task where its operation drops the
// oldest.
func (g *Gateway) lookUp(ctx context.Context, in contract.TaskInput) (*sighting, error) {
	if !g.lookups.begin() {
		room := int64(maxUnseen)
		if g.memory.find(g.now(), kindOf(in)) != nil {
			room /= 2 // a flood that will be refused leaves room for the others
		}
		if !g.lookups.wait(ctx, room) {
			return nil, unseen()
		}
	}
	defer g.lookups.end()
	return g.find(ctx, in.Tenant, in.Key)
}

// kindOf is all of a request that the memory looks at.
func kindOf(in contract.TaskInput) admission.Request {
	return admission.Request{Tenant: in.Tenant, Agent: in.Agent, Operation: in.Operation, Priority: in.Priority, Deadline: in.Deadline}
}

// begin takes a place if one is free.
func (l *lookups) begin() bool {
	select {
	case l.free <- struct{}{}:
		return true
	default:
		return false
	}
}

// wait takes the next place, in turn, unless more than most wait already.
func (l *lookups) wait(ctx context.Context, most int64) bool {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > most {
		return false
	}
	select {
	case l.free <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *lookups) end() { <-l.free }

// unseen says that nothing is known about the key, not even that it was refused.
func unseen() error {
	return refuse("gateway_busy", "too many requests wait to be looked at; this one was not: if its key has a task, nothing has changed. The same request is safe to send again").soon()
}
