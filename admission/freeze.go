package admission

import (
	"slices"
	"time"
)

// StopAgain is the wait before a holder that could not be asked to stop is asked
// again.
const StopAgain = time.Second

// Freeze says who froze an operation, when and why. It lasts until a person ends
// it: no attempt of the operation gets a lease, and those that have one are asked
// to stop. What was dispatched before is decided by its outcome.
type Freeze struct {
	Reason string    `json:"reason,omitempty"`
	Actor  string    `json:"actor,omitempty"`
	Since  time.Time `json:"since"`
}

// Freeze freezes an operation, or, with nil, ends its freeze. It is in force from
// now on. A freeze that is in force keeps its first reason: it is the cause of
// what was stopped.
func (s *State) Freeze(now time.Time, operation string, f *Freeze) {
	s.clock(now)
	g := s.gate(operation)
	switch {
	case f == nil:
		g.Frozen = nil
	case g.Frozen == nil:
		frozen := *f
		frozen.Since = s.now
		g.Frozen = &frozen
	}
	for it := s.eldest; it != nil; it = it.younger {
		if it.class.gate != g || !it.promised() {
			continue
		}
		if f == nil {
			s.stops.remove(it)
			it.stopped, it.stopping = false, false
		} else if !it.stopped && !it.stopping {
			s.stop(it, s.now)
		}
	}
	for _, t := range s.tenants {
		s.refresh(t)
	}
}

// Frozen gives the freeze of an operation; nil: it is not frozen.
func (s *State) Frozen(operation string) *Freeze {
	i, ok := slices.BinarySearchFunc(s.gates, operation, func(g *gate, n string) int { return compare(g.Name, n) })
	if !ok {
		return nil
	}
	return s.gates[i].Frozen
}

// Stopping counts the leases of a frozen operation whose holders are not known to
// have been asked to stop. At zero no checkpoint of it is acknowledged any more.
func (s *State) Stopping(operation string) (n int) {
	if s.Frozen(operation) == nil {
		return 0
	}
	for it := s.eldest; it != nil; it = it.younger {
		if it.req.Operation == operation && it.promised() && !it.grace && !it.stopped {
			n++
		}
	}
	return n
}

// Stop asks the holder of a lease not to dispatch. It is about that lease only: the
// same attempt may get another one later.
type Stop struct {
	Task      string
	Attempt   int
	Lease     string
	Operation string
	Reason    string
}

func (s *State) stop(it *item, at time.Time) {
	if it.grace {
		return // it is over
	}
	it.stopAt = at
	s.stops.fix(it)
}

func (s *State) dueStops() []Stop {
	var out []Stop
	for len(out) < MaxEffects {
		it, ok := s.stops.due(s.now, byStop)
		if !ok {
			break
		}
		it.stopping = true
		out = append(out, Stop{Task: it.req.Task, Attempt: it.req.Attempt, Lease: it.lease.ID, Operation: it.req.Operation, Reason: it.whyStopped()})
	}
	return out
}

func (it *item) whyStopped() string {
	if f := it.class.gate.Frozen; f != nil {
		return f.Reason
	}
	return string(Standby)
}

// Stopped answers one Stop: done once the server would answer the attempt's
// checkpoint with the request to stop, or the attempt is over. It is asked again
// else, also while its task is not there yet: a ticket may still start one.
func (s *State) Stopped(now time.Time, stop Stop, how Delivery) {
	s.clock(now)
	it := s.items[attempt{stop.Task, stop.Attempt}]
	if it == nil || !it.stopping {
		return
	}
	it.stopping = false
	if how == DeliveryDone {
		it.stopped = true
		return
	}
	s.stop(it, s.now.Add(StopAgain))
}

// barred tells that a flow waits on what only people or evidence can change.
func (f *flow) barred() bool { return f.class.gate.Frozen != nil || f.atCeiling() }

// eldestEligible is the oldest task among those that could run as far as their
// own tenant, a freeze and the ceilings are concerned; nil: there is none.
func (s *State) eldestEligible() *item {
	t, ok := s.oldest.top()
	if !ok {
		return nil
	}
	if !t.flow(t.first.class).barred() {
		return t.first
	}
	var eldest *item
	for _, t := range s.tenants {
		if !t.runnable() {
			continue
		}
		for it := t.first; it != nil; it = it.next {
			if t.flow(it.class).barred() {
				continue
			}
			if eldest == nil || it.arrival.Before(eldest.arrival) {
				eldest = it
			}
			break
		}
	}
	return eldest
}
