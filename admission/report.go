package admission

import "time"

// Report kinds.
const (
	Released  = "released"  // the attempt is over, the lease comes back
	Declined  = "declined"  // it stood by in vain, and waits again; nothing else is meant by it
	Withdrawn = "withdrawn" // the task no longer wants this attempt, leased or not
	Resolved  = "resolved"  // the task is no longer in doubt, whatever the attempt
)

// Report tells what became of one attempt.
type Report struct {
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	// Ticket, when set, must be the one that the attempt was admitted with: a
	// gateway that lost the race for a key returns its own ticket only.
	Ticket string `json:"ticket,omitempty"`
	Kind   string `json:"kind"`
	Class  Class  `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"`
	// RetryAfter is the provider's wish; zero: none.
	RetryAfter Duration `json:"retry_after,omitempty"`
	Cost       []Cost   `json:"cost,omitempty"` // the real one; empty: as reserved
	// Doubt tells, of class unknown, that the task will say when the doubt is over.
	// Only such doubts count against the ceiling.
	Doubt bool `json:"doubt,omitempty"`
	// Grace holds the lease for so long yet, since the worker may still be alive.
	Grace Duration `json:"grace,omitempty"`
	// Successor is the announced lease that has begun in this one's place, and
	// Waited for how long its attempt had stood by. Empty: none has.
	Successor string   `json:"successor,omitempty"`
	Waited    Duration `json:"waited,omitempty"`
}

// Report takes what became of an attempt. Reports of attempts that are not
// known are ignored: they were settled before.
func (s *State) Report(now time.Time, r Report) {
	s.clock(now)
	if r.Kind == Resolved {
		s.resolve(r.Task)
		return
	}
	it := s.items[attempt{r.Task, r.Attempt}]
	follows := it != nil && it.successor != nil && it.successor.lease.ID == r.Successor
	if it != nil && (r.Ticket == "" || r.Ticket == it.ticket) {
		s.settle(it, r)
	}
	if r.Successor != "" && !follows {
		s.believe(r.Successor)
	}
}

// settle takes a report of an attempt that is known.
func (s *State) settle(it *item, r Report) {
	if r.Kind == Declined {
		s.decline(it)
		return
	}
	if r.Kind == Released && r.Class != NotDispatched && it.stand == queued && it.announced != "" {
		s.believe(it.announced) // it has run, so it had a place
	}
	if r.Kind == Released && it.promised() {
		if !it.grace {
			s.judge(it, r)
			s.pass(it, r)
		}
		switch {
		case r.Class == Unknown && r.Doubt:
			s.doubtAbout(it)
		case r.Class == Succeeded:
			s.resolve(r.Task) // a replay has answered for the attempt in doubt
		}
	}
	if r.Kind == Released && r.Grace > 0 && it.stand == leased {
		s.grace(it, min(r.Grace.D(), time.Hour))
		return
	}
	s.remove(it, r.real(it.req.Cost))
}

// real is the cost that is charged; nil: as reserved.
func (r Report) real(reserved []Cost) []Cost {
	switch {
	case len(r.Cost) > 0:
		return r.Cost
	case r.Kind == Withdrawn, r.Class == NotDispatched:
		return none(reserved)
	}
	return nil
}

// grace holds a lease for so long yet, since the worker may still be alive. Who
// stood by for its place did so in that worker.
func (s *State) grace(it *item, d time.Duration) {
	if it.grace {
		return
	}
	it.grace, it.confirmed = true, true
	s.outbox.remove(it)
	s.endings.remove(it)
	if it.successor != nil {
		s.succeed(it.successor, false)
	}
	s.audit(it, s.now.Add(d))
}

// pass notes whether a report's attempt has handed its place over.
func (s *State) pass(it *item, r Report) {
	next := it.successor
	if next == nil {
		return
	}
	it.handed = it.handed || r.Successor == next.lease.ID
	if it.handed || r.Class == Succeeded {
		s.handover.learn(it.handed, s.now.Sub(next.lease.Granted), r.Waited.D())
	}
}

// none is a cost of nothing, so that all that was reserved comes back.
func none(cost []Cost) []Cost {
	out := make([]Cost, len(cost))
	for i, c := range cost {
		out[i] = Cost{Resource: c.Resource}
	}
	return out
}
