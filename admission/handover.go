package admission

import "time"

// A lease may be handed over: shortly before an attempt is expected to end, the
// task that is next in the order of service is told to stand by for its place.
// It is scheduled, claimed and prepared meanwhile, and goes as soon as the one
// ahead has ended, in the same worker, without asking anybody. So a slot is not
// empty for the length of a conversation between every two effects.
//
//   - A task on standby still waits, and holds no slot: it gets one when the one ahead gives its
//     own back, never before. No limit is passed at any instant.
//   - It is chosen as grant would choose if the place were free now, and it is
//     charged then. What it reserves of interval resources is taken then, too.
//   - Only the report of the attempt ahead hands over: it names the successor
//     that has gone. Without that word the place is free for whoever is next, and
//     the one on standby is back in the queue, where it was.
//   - When its tenant is paused, its operation frozen, its provider held or a limit
//     lowered meanwhile, a task on standby is called back: asked to stop, as the
//     holder of a frozen operation is. In the moment before it hears of that it
//     may still go, and counts as running then.
//   - Where attempts are shorter than the way to a worker, a standby has a
//     successor of its own, and so on: a chain, in which one runs at a time.
//
// The time ahead at which a successor is chosen is learnt from how long those
// before it took to stand by, as a retransmission timer learns from round trips
// (Jacobson, Karels 1988): a moving mean and twice a moving deviation. So it
// stands by in time, and a task of greater right seldom comes a moment too late.
type handover struct {
	Lag       Duration `json:"lag,omitempty"` // mean; zero: not known
	Deviation Duration `json:"deviation,omitempty"`
	// Missed is how often successors did not go, lately, in 256ths: where the
	// attempts of a budget run in many workers, one place seldom passes to the next.
	Missed int `json:"missed,omitempty"`
	Turn   int `json:"turn,omitempty"` // counts the places for which none was chosen for that
}

const (
	leadFirst = 100 * time.Millisecond
	leadLeast = 10 * time.Millisecond
	leadMost  = time.Second
	// leadSlack joins choices that are due within so long, so that they take one
	// step of the budget.
	leadSlack = 25 * time.Millisecond
	// missedMost of 256 is where choosing successors costs more than it gains;
	// beyond it, one place in missedTry shows whether that is still so.
	missedMost = 64
	missedTry  = 16
	// placesTried bounds one round in which nothing fits.
	placesTried = 16
	// chainMost bounds the standbys of one place.
	chainMost = 2
)

func (h *handover) lead() time.Duration {
	if h.Lag == 0 {
		return leadFirst
	}
	return min(max((h.Lag+2*h.Deviation).D(), leadLeast), leadMost)
}

// learn takes whether a successor went, the time since it was chosen, and how
// much of it it had stood by. One that did not go would have taken longer.
func (h *handover) learn(went bool, since, stood time.Duration) {
	if went {
		h.Missed -= (h.Missed + 15) / 16
	} else {
		h.Missed += (256 - h.Missed) / 16
	}
	lag := Duration(min(max(since-stood, 0), leadMost))
	if !went {
		lag = max(lag, h.Lag) + h.Deviation
	}
	if h.Lag == 0 {
		h.Lag, h.Deviation = max(lag, 1), lag/2
		return
	}
	off := lag - h.Lag
	h.Lag += off / 8
	h.Deviation += (max(off, -off) - h.Deviation) / 4
}

// wanted tells whether a place is worth a successor.
func (h *handover) wanted() bool {
	if h.Missed <= missedMost {
		return true
	}
	h.Turn = (h.Turn + 1) % missedTry
	return h.Turn == 0
}

// ending notes when the end of a lease is near, given when it begins.
func (s *State) ending(it *item, begins time.Time) {
	if !s.policy.Handover {
		return
	}
	it.ends = begins.Add(s.soonest(it.req.Operation))
	if it.successor != nil || it.chain() >= chainMost || !s.handover.wanted() {
		return
	}
	// Half an effect at most, so that half the places are open to who comes now.
	lead := min(s.handover.lead(), max(leadFirst, s.expected(it.req.Operation)/2))
	it.over = it.ends.Add(-lead)
	s.endings.fix(it)
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

// standBy makes a waiting item the successor of a lease, and has its task told.
func (s *State) standBy(it, ahead *item) {
	s.spend(it, false)
	s.expose(it)
	s.leave(it)
	it.stand = standby
	it.lease = Lease{ID: s.newID("l"), Granted: s.now, After: ahead.lease.ID}
	s.follow(it, ahead)
	s.refresh(it.tenant)
	s.ending(it, later(s.now, &ahead.ends))
	s.send(it, s.now)
}

// follow ties a successor to the one ahead.
func (s *State) follow(it, ahead *item) {
	it.ahead, ahead.successor = ahead, it
	s.count(it, 1)
	s.standby++
	it.tenant.standby++
	it.claim(1)
}

func (s *State) unfollow(it *item) {
	s.count(it, -1)
	it.claim(-1)
	s.standby--
	it.tenant.standby--
	it.ahead.successor, it.ahead = nil, nil
}

// takeOver makes a lease of a standby: its task has gone.
func (s *State) takeOver(it *item) {
	it.stand, it.granted = leased, s.now
	it.lease = Lease{ID: it.lease.ID, Granted: s.now}
	it.confirmed, it.deliver, it.asked, it.tries = true, false, false, 0
	s.outbox.remove(it)
	s.cover(it)
	s.occupy(it)
	s.audit(it, s.now.Add(it.leaseFor()))
	s.ending(it, s.now)
}

// stepBack puts a standby into the queue again, as if it had not been chosen.
func (s *State) stepBack(it *item) {
	s.endings.remove(it)
	if next := it.successor; next != nil {
		s.succeed(next, false) // it followed a lease that will not begin
	}
	s.refund(it, nil)
	s.cover(it)
	s.stops.remove(it)
	it.stopping, it.stopped = false, false
	it.stand, it.lease, it.handed = queued, Lease{}, false
	it.deliver, it.asked, it.tries = false, false, 0
	s.outbox.remove(it)
	s.await(it)
	if it.req.Deadline != nil && !it.req.Deadline.After(s.now) {
		s.expire(it)
	}
}

// withdraw takes a standby out. If its report has overtaken the one of the lease
// ahead, it may have handed on a place that the budget has yet to hear of: then
// its successor follows the lease ahead, and has it as soon as that is reported.
func (s *State) withdraw(it *item, real []Cost) {
	ahead, next := it.ahead, it.successor
	s.endings.remove(it)
	if next != nil && it.handed {
		s.unfollow(next)
		s.unfollow(it)
		s.follow(next, ahead)
		ahead.handed = true
	} else {
		if next != nil {
			s.succeed(next, false)
		}
		s.unfollow(it)
	}
	if real == nil {
		real = it.req.Cost
	}
	s.refund(it, real)
	s.cover(it)
	s.forget(it)
	s.refresh(it.tenant)
}

// refund gives back what a standby has reserved, but for what was really used.
func (s *State) refund(it *item, real []Cost) {
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Per > 0 {
			s.resources[i].refill(s.now)
			s.resources[i].settle(c.Amount, min(amountOf(real, c.Resource), MaxAmount))
		}
	}
	it.tenant.virtual -= max(1, it.charge/it.tenant.Weight)
	it.agent.virtual -= it.charge
	it.charge = 0
}

// decline puts a standby back whose attempt has given up while the one ahead goes
// on: others need not wait for that one, nor does it.
func (s *State) decline(it *item) {
	if it.stand != standby {
		return
	}
	s.handover.learn(false, s.now.Sub(it.lease.Granted), 0)
	s.unfollow(it)
	s.stepBack(it)
	s.refresh(it.tenant)
}

// callBack stops what may not follow any more, after something was closed.
func (s *State) callBack() {
	if !s.recheck {
		return
	}
	s.recheck = false
	for it := s.eldest; it != nil; it = it.younger {
		switch {
		case it.stand != standby || it.stopping || it.stopped || s.mayFollow(it):
		case it.deliver && !it.asked: // its task was not told yet
			next := it
			s.unfollow(next)
			s.stepBack(next)
			s.refresh(next.tenant)
		default:
			s.stop(it, s.now)
		}
	}
}

func (s *State) mayFollow(it *item) bool {
	if it.tenant.dispatchPaused(s.now) || it.class.gate.Half || !s.open(it.class) {
		return false
	}
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Per == 0 && s.resources[i].used > s.resources[i].limit {
			return false
		}
	}
	return true
}

// succeed settles the place of a lease that has come back: with the successor
// that has gone, or with none.
func (s *State) succeed(next *item, went bool) {
	s.unfollow(next)
	if went {
		s.takeOver(next)
	} else {
		s.stepBack(next)
	}
	s.refresh(next.tenant)
}
