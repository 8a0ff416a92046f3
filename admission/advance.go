package admission

import (
	"slices"
	"time"
)

// Decision is what a task is to be told about one attempt.
type Decision struct {
	Task       string
	Attempt    int
	Lease      *Lease // granted; nil: refused
	Reason     Reason
	Detail     string
	RetryAfter Duration
}

// Inspection asks whether the holder of a ticket or a lease is alive, or, with
// attempt zero, whether a task in doubt is.
type Inspection struct {
	Task    string
	Attempt int
}

// Effects is what the budget wants done. Every entry stays under way until
// Delivered, Inspected or Stopped answers it, and comes again if the answer is bad: by
// level, never by edge.
type Effects struct {
	Decisions   []Decision
	Inspections []Inspection
	Stops       []Stop
}

// Empty tells whether there is nothing to do.
func (e Effects) Empty() bool { return len(e.Decisions)+len(e.Inspections)+len(e.Stops) == 0 }

// Advance brings the budget to now: tasks whose time has come enter the queue,
// deadlines and pauses run out, capacity is granted.
func (s *State) Advance(now time.Time) Effects {
	s.clock(now)
	for {
		it, ok := s.waiting.due(s.now, byArrival)
		if !ok {
			break
		}
		s.enter(it)
		s.refresh(it.tenant)
	}
	for {
		it, ok := s.deadlines.due(s.now, byDeadline)
		if !ok {
			break
		}
		s.expire(it)
	}
	for _, t := range slices.Clone(s.paused) {
		if lapsed(t.pause, s.now) {
			s.setPause(t, nil)
		}
	}
	inspections := s.overdue()
	s.callBack()
	s.grant()
	s.chooseSuccessors()
	return Effects{Decisions: s.decisions(), Inspections: inspections, Stops: s.dueStops()}
}

// expire ends a waiting task whose deadline has passed. It held nothing and
// costs nothing.
func (s *State) expire(it *item) {
	s.leave(it)
	it.stand, it.refuse, it.detail = ended, Expired, "the deadline passed while the task waited"
	s.send(it, s.now)
}

func (s *State) overdue() []Inspection {
	var out []Inspection
	for len(out) < MaxEffects {
		d, ok := s.doubtAudits.due(s.now, func(d *doubt) time.Time { return d.due })
		if !ok {
			break
		}
		out = append(out, Inspection{Task: d.task})
	}
	for len(out) < MaxEffects {
		it, ok := s.audits.due(s.now, byDue)
		if !ok {
			break
		}
		if it.grace {
			s.free(it, nil)
			continue
		}
		it.due = time.Time{}
		out = append(out, Inspection{it.req.Task, it.req.Attempt})
	}
	return out
}

func (s *State) decisions() []Decision {
	var out []Decision
	for len(out) < MaxEffects {
		it, ok := s.outbox.due(s.now, byDelivery)
		if !ok {
			break
		}
		it.asked, it.askedAt = true, s.now
		d := Decision{Task: it.req.Task, Attempt: it.req.Attempt, Reason: it.refuse, Detail: it.detail, RetryAfter: it.retry}
		if it.promised() {
			lease := it.lease
			d.Lease = &lease
		}
		out = append(out, d)
	}
	return out
}

// Next is the time at which Advance should be called again without any other
// cause; the zero time means never. A result in the past means now.
func (s *State) Next() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if it, ok := s.waiting.top(); ok {
		sooner(it.arrival)
	}
	if it, ok := s.deadlines.top(); ok {
		sooner(*it.req.Deadline)
	}
	if it, ok := s.audits.top(); ok {
		sooner(it.due)
	}
	if it, ok := s.outbox.top(); ok {
		sooner(it.deliverAt)
	}
	sooner(s.nextEnding())
	if it, ok := s.stops.top(); ok {
		sooner(it.stopAt)
	}
	if d, ok := s.doubtAudits.top(); ok {
		sooner(d.due)
	}
	for i := range s.resources {
		sooner(s.resources[i].next)
		if s.resources[i].held.After(s.now) {
			sooner(s.resources[i].held)
		}
	}
	for _, g := range s.gates {
		if u := g.until(); u.After(s.now) {
			sooner(u)
		}
	}
	for _, t := range s.paused {
		if t.pause.Until != nil {
			sooner(*t.pause.Until)
		}
	}
	return next
}

// Answer to a delivery.
type Delivery string

// Deliveries.
const (
	DeliveryDone   Delivery = "done"   // the task's history holds the decision
	DeliveryGone   Delivery = "gone"   // no open task has this ID
	DeliveryFailed Delivery = "failed" // not known: it is sent again
)

// Delivered answers one Decision. A task that is gone gives its capacity back,
// unless it could still start when it was looked for: the answer may come much
// later than the look.
func (s *State) Delivered(now time.Time, d Decision, how Delivery) {
	s.clock(now)
	it := s.items[attempt{d.Task, d.Attempt}]
	if it == nil || !it.asked || it.promised() && (d.Lease == nil || d.Lease.ID != it.lease.ID) {
		return
	}
	it.asked = false
	switch how {
	case DeliveryDone:
		it.confirmed, it.deliver, it.tries = true, false, 0
		if it.stand == ended {
			s.forget(it)
		} else if it.stand == leased && !it.grace {
			s.audit(it, it.granted.Add(it.leaseFor()))
		}
	case DeliveryGone:
		if !it.confirmed && it.startBy.Add(TicketMargin).After(it.askedAt) {
			s.again(it)
			return
		}
		s.remove(it, none(it.req.Cost))
	default:
		s.again(it)
	}
}

// again sends a decision once more, after a wait that doubles.
func (s *State) again(it *item) {
	wait := min(Redeliver<<min(it.tries, 10), RedeliverMax)
	it.tries++
	s.send(it, s.now.Add(wait))
}

// Holder is what an inspection showed.
type Holder string

// Holders.
const (
	HolderOpen    Holder = "open"
	HolderClosed  Holder = "closed"
	HolderMissing Holder = "missing"
	HolderUnclear Holder = "unclear" // it could not be looked at
)

// Inspected answers one Inspection. ticket is the one that the task was started
// with. A lease is never taken back on a clock alone: only a holder that is
// closed, missing, or was started with another ticket, gives it back.
func (s *State) Inspected(now time.Time, in Inspection, holder Holder, ticket string) {
	s.clock(now)
	if in.Attempt == 0 {
		s.inspectedDoubt(in.Task, holder)
		return
	}
	it := s.items[attempt{in.Task, in.Attempt}]
	if it == nil || it.grace {
		return
	}
	switch {
	case holder == HolderUnclear:
		s.audit(it, s.now.Add(AuditAgain/6))
	case holder == HolderOpen && !it.confirmed && ticket == it.ticket:
		it.confirmed = true
		if it.stand == leased {
			s.audit(it, it.granted.Add(it.leaseFor()))
		} else if it.req.Hold {
			s.audit(it, s.now.Add(HoldAudit))
		}
	case holder == HolderOpen && it.confirmed:
		if it.stand == leased {
			s.audit(it, s.now.Add(AuditAgain))
		} else if it.req.Hold {
			s.audit(it, s.now.Add(HoldAudit))
		}
	default:
		s.remove(it, nil)
	}
}

// Pause replaces a tenant's pause; one with neither dispatch nor admission
// ends it. It is in force from now on: no lease is granted after the call.
func (s *State) Pause(now time.Time, tenant string, p Pause) {
	s.clock(now)
	if !p.Dispatch && !p.Admission {
		s.setPause(s.tenant(tenant), nil)
		return
	}
	p.Since = s.now
	s.setPause(s.tenant(tenant), &p)
}

func (s *State) setPause(t *tenant, p *Pause) {
	i, listed := slices.BinarySearchFunc(s.paused, t.Name, func(t *tenant, n string) int { return compare(t.Name, n) })
	t.pause = p
	s.recheck = true
	switch {
	case p == nil && listed:
		s.paused = slices.Delete(s.paused, i, i+1)
	case p != nil && !listed:
		s.paused = slices.Insert(s.paused, i, t)
	}
	s.refresh(t)
}
