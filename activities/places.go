package activities

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"headgate/contract"
)

const (
	// standFor bounds how long an attempt stands by for a place that this worker
	// holds, and arriveFor for one that it may be about to hold. Whoever stands by
	// longer keeps the task from hearing another decision.
	standFor  = 5 * time.Second
	arriveFor = 500 * time.Millisecond
	// closedFor is how long nobody follows after a refusal without a wish of the
	// provider's: until the budget has heard of it.
	closedFor = time.Second
	// keepFor is how long it is known that a place is over.
	keepFor = time.Minute
)

// places are the leases that attempts of this process hold. An attempt whose
// lease is announced stands by for the one ahead, and begins when that one has
// ended here with success: its slot is free, and the two never overlap.
//
// A provider that has refused, or is in doubt, gets nothing without the budget's
// word: what a refusal closes, by operation and by resource, is not handed on.
type places struct {
	now func() time.Time

	mu     sync.Mutex
	places map[string]*place    // by lease
	closed map[string]time.Time // operations and resources, until then
	swept  time.Time
}

type place struct {
	held, over bool
	ended      time.Time
	next       *standby
}

type standby struct {
	lease string
	since time.Time
	needs []string
	here  chan struct{} // closed when the one ahead has begun
	told  chan bool     // whether it may go
}

// needs names what an operation depends on.
func needs(op contract.Operation) []string {
	names := []string{"operation/" + op.Name}
	for _, c := range op.Cost {
		names = append(names, "resource/"+c.Resource)
	}
	return names
}

func newPlaces(now func() time.Time) *places {
	return &places{now: now, places: map[string]*place{}, closed: map[string]time.Time{}}
}

func (p *places) at(lease string) *place {
	at := p.places[lease]
	if at == nil {
		at = &place{}
		p.places[lease] = at
	}
	return at
}

// hold notes that an attempt of this process has a lease.
func (p *places) hold(lease string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at(lease)
	if at.next != nil && !at.held {
		close(at.next.here)
	}
	at.held = true
	p.sweep()
}

// end notes that an attempt is over, and hands its place to the one that stands
// by for it if it may pass. It tells which lease has begun, and for how long its
// attempt had stood by. Only the first call counts.
func (p *places) end(lease string, pass bool) (successor string, waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at(lease)
	if at.over {
		return "", 0
	}
	at.held, at.over, at.ended = false, true, p.now()
	next := at.next
	at.next = nil
	if next == nil {
		return "", 0
	}
	pass = pass && !slices.ContainsFunc(next.needs, func(name string) bool { return p.closed[name].After(at.ended) })
	next.told <- pass
	if !pass {
		return "", 0
	}
	return next.lease, at.ended.Sub(next.since)
}

// close lets nobody follow on what an operation needs, for so long.
func (p *places) close(op contract.Operation, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := p.now().Add(max(d, closedFor))
	for _, name := range needs(op) {
		if until.After(p.closed[name]) {
			p.closed[name] = until
		}
	}
}

// stand waits for the place of the lease ahead. nil: it is free, and whoever
// ended it has reported this lease as its successor.
func (p *places) stand(ctx context.Context, ahead, lease string, op contract.Operation) error {
	me := &standby{lease: lease, since: p.now(), needs: needs(op), here: make(chan struct{}), told: make(chan bool, 1)}
	p.mu.Lock()
	at := p.at(ahead)
	if at.over || at.next != nil {
		p.mu.Unlock()
		return errMissed
	}
	at.next = me
	held := at.held
	p.mu.Unlock()

	arrive := time.NewTimer(arriveFor)
	defer arrive.Stop()
	most := time.NewTimer(standFor)
	defer most.Stop()
	here, late := me.here, arrive.C
	if held {
		here, late = nil, nil
	}
	for {
		select {
		case pass := <-me.told:
			if pass {
				return nil
			}
			return errMissed
		case <-here:
			here, late = nil, nil
		case <-late:
			return p.leave(at, me, errLate)
		case <-most.C:
			return p.leave(at, me, errLate)
		case <-ctx.Done():
			return p.leave(at, me, whyDone(ctx))
		}
	}
}

// leave gives up, unless the place has been handed over in the same moment: then
// its successor is known to the budget, and it is this attempt's to give back.
func (p *places) leave(at *place, me *standby, why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.next == me {
		at.next = nil
	}
	select {
	case pass := <-me.told:
		if pass && errors.Is(why, errLate) {
			return nil
		}
	default:
	}
	return why
}

// sweep forgets places that are long over, or that never began here.
func (p *places) sweep() {
	now := p.now()
	if now.Sub(p.swept) < keepFor {
		return
	}
	p.swept = now
	for lease, at := range p.places {
		if at.over && now.Sub(at.ended) > keepFor || !at.over && !at.held && at.next == nil {
			delete(p.places, lease)
		}
	}
	for name, until := range p.closed {
		if now.After(until) {
			delete(p.closed, name)
		}
	}
}
