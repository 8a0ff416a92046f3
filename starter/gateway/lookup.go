package gateway

import (
	"context"
	"sync/atomic"
)

const (
	// maxLookups is the most look-ups of submissions that are under way.
	maxLookups = 128
	// maxUnseen is the most submissions that wait for theirs.
	maxUnseen = 4096
)

// lookups bounds what a flood of submissions does to Temporal.
type lookups struct {
	free    chan struct{} // holds one for each look-up that is under way
	waiting atomic.Int64
}

// lookUp finds the task of a submission's key; nil if there is none.
//
// It comes before every other question and is never saved, remembered or shared:
// a task may have been started by another gateway a millisecond ago, and its
// client must not be told that there is no room for it. A look-up of a key that
// has no task is one read of one row and writes nothing.
//
// To ask the budget first and look only if it refuses, or if the start finds the
// task, would save that read where a task is accepted, which costs some twenty
// times as much. It would make each repetition of an accepted request take
// capacity from others for a moment, write events, and end a waiting task where
// the operation drops its oldest.
func (g *Gateway) lookUp(ctx context.Context, tenant, key string) (*sighting, error) {
	if err := g.lookups.enter(ctx); err != nil {
		return nil, err
	}
	defer g.lookups.leave()
	return g.find(ctx, tenant, key)
}

func (l *lookups) enter(ctx context.Context) error {
	select {
	case l.free <- struct{}{}:
		return nil
	default:
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxUnseen {
		return unseen()
	}
	select {
	case l.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unseen()
	}
}

func (l *lookups) leave() { <-l.free }

// unseen says that nothing is known about the key, not even that it was refused.
func unseen() error {
	return refuse("gateway_busy", "too many requests wait to be looked at; this one was not: if its key has a task, nothing has changed. The same request is safe to send again").soon()
}
