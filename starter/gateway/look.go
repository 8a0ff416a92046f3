package gateway

import (
	"context"
	"sync"
	"time"

	"headgate/admission"
	"headgate/contract"
)

const (
	// lookEvery is the least time between two looks of a scrape at the budget, also
	// between two that found nothing.
	lookEvery = 5 * time.Second
	// lookTimeout is short, so that a scrape has its answer in time.
	lookTimeout = 2 * time.Second
)

// looks is the one look at the budget that all scrapes share: a budget is asked
// only when somebody scrapes, and at most once in lookEvery. The zero value has
// seen nothing.
type looks struct {
	mu    sync.Mutex
	tried time.Time
	last  look
}

// look is what was seen of the budget at a time.
type look struct {
	admission.View
	at time.Time // of this process's clock; zero: never
	up bool      // the last try had an answer; else this is what was seen before
}

func (l *looks) take(now func() time.Time, ask func(context.Context, *admission.View) error) look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := now(); l.tried.IsZero() || at.Sub(l.tried) >= lookEvery {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		l.tried = at
		var seen admission.View
		if err := ask(ctx, &seen); err != nil {
			l.last.up = false
		} else {
			l.last = look{View: seen, at: now(), up: true}
		}
	}
	return l.last
}

func (g *Gateway) askView(ctx context.Context, view *admission.View) error {
	return g.ask(ctx, view, contract.SnapshotQuery)
}

// grown is how much older everything is than it was seen: nothing tells that
// anything has moved since.
func (l look) grown(now time.Time) time.Duration { return max(0, now.Sub(l.at)) }
