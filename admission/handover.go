package admission

import "time"

// A lease may be handed over: shortly before an attempt is expected to end, the
// task that is next in the order of service is told to stand by for its place.
// It is scheduled, claimed and prepared meanwhile, and goes as soon as the one
// ahead has ended, in the same worker, without asking anybody. So a slot is not
// empty for the length of a conversation between every two effects.
//
//   - A task on standby still waits, and holds no slot: it gets one when the one
//     ahead gives its own back, never before. No limit is passed at any instant.
//   - It is chosen as grant would choose if the place were free now, and it is
//     charged then. What it reserves of interval resources is taken then, too.
//   - Only the report of the attempt ahead hands over: it names the successor
//     that has gone. Without that word the place is free for whoever is next, and
//     the one on standby is back in the queue, where it was. A report that comes
//     later than that is believed all the same: what has gone holds a slot.
//   - When its tenant is paused, its operation frozen, its provider held or a limit
//     lowered meanwhile, a task on standby is called back: asked to stop, as the
//     holder of a frozen operation is. In the moment before it hears of that it
//     may still go, and counts as running then.
//   - Where attempts are shorter than the way to a worker, a standby has a
//     successor of its own, and so on: a chain, in which one runs at a time.

const (
	// leadSlack joins choices that are due within so long, so that they take one
	// step of the budget.
	leadSlack = 25 * time.Millisecond
	// placesTried bounds one round in which nothing fits.
	placesTried = 16
	// chainMost bounds the standbys of one place.
	chainMost = 2
)

// ending notes when the end of a lease is near, given when it begins.
func (s *State) ending(it *item, begins time.Time) {
	if !s.policy.Handover {
		return
	}
	it.ends = begins.Add(s.soonest(it.req.Operation))
	if it.successor != nil || it.chain() >= chainMost {
		return
	}
	if lead, worth := s.handover.leadFor(s.expected(it.req.Operation)); worth {
		it.over = it.ends.Add(-lead)
		s.endings.fix(it)
	}
}

// chain counts those ahead.
func (it *item) chain() int {
	n := 0
	for ; it.ahead != nil; it = it.ahead {
		n++
	}
	return n
}

// chooseSuccessors finds one for each lease that is expected to end soon.
func (s *State) chooseSuccessors() {
	if s.depth == s.standby || s.endings.len() == 0 {
		return
	}
	type flags struct {
		aside   int64
		blocked bool
	}
	kept := make([]flags, len(s.resources)) // they say why tasks wait
	for i, r := range s.resources {
		kept[i] = flags{r.aside, r.blocked}
	}
	var none []*item
	for len(none) < placesTried && s.depth > s.standby {
		it, ok := s.endings.top()
		if !ok || it.over.After(s.now.Add(leadSlack)) {
			break
		}
		s.endings.remove(it)
		if next := s.nextFor(it); next != nil {
			s.standBy(next, it)
		} else {
			none = append(none, it)
		}
	}
	for _, it := range none { // tried again when anything else happens
		s.endings.fix(it)
	}
	for i := range s.resources {
		s.resources[i].aside, s.resources[i].blocked = kept[i].aside, kept[i].blocked
	}
}

// nextEnding is when a successor is to be chosen next. What is overdue waits for
// something to change.
func (s *State) nextEnding() time.Time {
	var next time.Time
	if s.depth == s.standby {
		return next
	}
	for _, it := range s.endings.items { // a heap's top may be overdue
		if it.over.After(s.now.Add(leadSlack)) && (next.IsZero() || it.over.Before(next)) {
			next = it.over
		}
	}
	return next
}

// nextFor is who would be granted if a lease came back now, as far as its place
// is enough for it.
func (s *State) nextFor(it *item) *item {
	s.lend(it, -1)
	defer s.lend(it, 1)
	for i := range s.resources {
		s.resources[i].aside, s.resources[i].blocked = 0, false
	}
	f := s.nextFlow()
	if f == nil || f.class.gate.Half || !s.fits(f.head) {
		return nil
	}
	for _, c := range f.head.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Per == 0 && c.Amount > amountOf(it.req.Cost, c.Resource) {
			return nil
		}
	}
	s.virtual = max(s.virtual, f.turn())
	return f.head
}

// lend takes what a place and those who stand by for it hold out of the counts,
// and puts it back.
func (s *State) lend(it *item, n int) {
	for ; it != nil; it = it.ahead {
		if it.ahead != nil {
			it.claim(n)
			s.refresh(it.tenant)
			continue
		}
		for _, c := range it.req.Cost {
			if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Per == 0 {
				s.resources[i].used += int64(n) * c.Amount
			}
		}
		it.tenant.inFlight += n
		it.agent.inFlight += n
		s.refresh(it.tenant)
	}
}

// claim counts a standby in another tenant's or agent's place against its own
// caps.
func (it *item) claim(n int) {
	if it.tenant != it.ahead.tenant {
		it.tenant.claims += n
	}
	if it.agent != it.ahead.agent {
		it.agent.claims += n
	}
}

func amountOf(cost []Cost, resource string) int64 {
	for _, c := range cost {
		if c.Resource == resource {
			return c.Amount
		}
	}
	return 0
}
