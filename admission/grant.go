package admission

import (
	"slices"
	"time"
)

// grant serves the queue as far as capacity goes: each time the flow that
// has the least effective virtual time. A head that does not fit
// reserves what it needs: the resources that are short are closed to all
// behind it, and its share of the others is kept aside, so that small tasks
// cannot starve a big one. Start-time fair queueing (Goyal, Vin, Cheng 1996)
// over dominant shares (Ghodsi et al. 2011, 2012), with borrowed virtual time
// (Duda, Cheriton 1999) for priorities.
func (s *State) grant() {
	for i := range s.resources {
		r := &s.resources[i]
		r.refill(s.now)
		r.aside, r.blocked, r.next = 0, false, time.Time{}
	}
	for {
		f := s.nextFlow()
		if f == nil {
			return
		}
		if s.fits(f.head) {
			s.virtual = max(s.virtual, f.turn())
			s.lease(f.head)
			continue
		}
		s.reserve(f.head)
	}
}

func (s *State) nextFlow() *flow {
	var best *flow
	for _, c := range s.classes {
		f, ok := c.flows.top()
		if !ok || s.classBlocked(c) || !s.open(c) {
			continue
		}
		if best == nil || sooner(f, best) {
			best = f
		}
	}
	return best
}

func (s *State) classBlocked(c *class) bool {
	for _, i := range c.resources {
		if s.resources[i].blocked {
			return true
		}
	}
	return false
}

// open tells whether the provider may be called. A closed door holds nothing
// back for its tasks: others pass.
func (s *State) open(c *class) bool {
	if !c.gate.passes(s.now) {
		return false
	}
	for _, i := range c.resources {
		if s.resources[i].held.After(s.now) {
			return false
		}
	}
	return true
}

func (s *State) fits(it *item) bool {
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && !s.resources[i].fits(c.Amount) {
			return false
		}
	}
	return true
}

// reserve keeps for a head what it needs. While it waits for an interval to
// refill it keeps no slots from others: they could only stand empty until then.
func (s *State) reserve(it *item) {
	refilling := false
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Per > 0 && !s.resources[i].fits(c.Amount) {
			refilling = true
		}
	}
	for _, c := range it.req.Cost {
		i, ok := s.indexOf[c.Resource]
		if !ok || refilling && s.resources[i].Per == 0 {
			continue
		}
		r := &s.resources[i]
		if r.fits(c.Amount) {
			r.aside += c.Amount
			continue
		}
		r.blocked = true
		if r.Per > 0 {
			r.next = r.when(c.Amount)
		}
	}
}

// lease gives an item its capacity and has its task told.
func (s *State) lease(it *item) {
	s.spend(it, true)
	it.tenant.inFlight++
	it.agent.inFlight++
	s.inFlight++
	s.expose(it)
	s.leave(it)
	if g := it.class.gate; g.Half {
		g.Probe = attemptID{it.req.Task, it.req.Attempt}
	}
	it.stand = leased
	it.granted = s.now
	it.lease = Lease{ID: s.newID("l"), Granted: s.now}
	if it.confirmed {
		s.audit(it, s.now.Add(it.leaseFor()))
	}
	s.ending(it, s.now)
	s.send(it, s.now)
}

// spend takes what an item is about to use, slots only if it gets them now, and
// charges its tenant and agent with the service.
func (s *State) spend(it *item, slots bool) {
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && (slots || s.resources[i].Per > 0) {
			s.resources[i].take(c.Amount)
		}
	}
	t := it.tenant
	t.served = max(t.served, it.agent.virtual)
	it.charge = max(1, s.service(it.req.Cost, s.expected(it.req.Operation)))
	t.virtual += max(1, it.charge/t.Weight)
	it.agent.virtual += it.charge
	s.drain.granted(s.now, s.depth-s.standby)
	if it.req.Attempt == 1 {
		t.retries.earn()
	}
}

// giveBack settles what was reserved with what was really used, slots only if it
// had them. real nil, or without a resource: as reserved.
func (s *State) giveBack(it *item, real []Cost, slots bool) {
	for _, c := range it.req.Cost {
		i, ok := s.indexOf[c.Resource]
		if !ok || !slots && s.resources[i].Per == 0 {
			continue
		}
		used := c.Amount
		if j := slices.IndexFunc(real, func(r Cost) bool { return r.Resource == c.Resource }); j >= 0 {
			used = min(max(0, real[j].Amount), MaxAmount)
		}
		s.resources[i].refill(s.now)
		s.resources[i].settle(c.Amount, used)
	}
}

// free takes a lease back. real is what was really used; nil: as reserved.
func (s *State) free(it *item, real []Cost) {
	t := it.tenant
	s.giveBack(it, real, true)
	held := s.now.Sub(it.granted)
	s.observe(it.req.Operation, held)
	delta := max(1, s.service(it.req.Cost, held)) - it.charge
	t.virtual += delta / t.Weight
	it.agent.virtual += delta
	t.inFlight--
	it.agent.inFlight--
	s.inFlight--
	s.endings.remove(it)
	next := it.successor
	s.cover(it)
	s.forget(it)
	if next != nil {
		s.succeed(next, it.handed)
	}
	s.refresh(t)
}

// forget removes an item that holds nothing and waits for nothing.
func (s *State) forget(it *item) {
	if g := it.class.gate; g.Probe == (attemptID{it.req.Task, it.req.Attempt}) {
		g.Probe = attemptID{} // it ended without a word about the provider
	}
	s.audits.remove(it)
	s.outbox.remove(it)
	s.stops.remove(it)
	s.lose(it)
}

func (s *State) audit(it *item, at time.Time) {
	it.due = at
	s.audits.fix(it)
}

func (s *State) send(it *item, at time.Time) {
	it.deliver, it.deliverAt, it.asked = true, at, false
	s.outbox.fix(it)
}

// service is the dominant share of a cost held for so long, in nanoseconds of
// the whole resource.
func (s *State) service(cost []Cost, held time.Duration) int64 {
	var most int64
	for _, c := range cost {
		i, ok := s.indexOf[c.Resource]
		if !ok {
			continue
		}
		r := &s.resources[i]
		if r.Per > 0 {
			most = max(most, mulDiv(int64(r.Per), c.Amount, r.Amount))
		} else {
			most = max(most, mulDiv(int64(held), c.Amount, r.Concurrent))
		}
	}
	return min(most, int64(MaxPer))
}

// operationStat is a moving mean of how long an operation holds its lease.
type operationStat struct {
	Name string   `json:"name"`
	Held Duration `json:"held"`
	// Spread is a moving mean of how far it was from that.
	Spread Duration `json:"spread,omitempty"`
}

func (s *State) stat(name string) (int, bool) {
	return slices.BinarySearchFunc(s.operations, name, func(o operationStat, n string) int { return compare(o.Name, n) })
}

func (s *State) expected(operation string) time.Duration {
	if i, ok := s.stat(operation); ok {
		return s.operations[i].Held.D()
	}
	return firstEstimate
}

// soonest is a time after which a lease of an operation may well end.
func (s *State) soonest(operation string) time.Duration {
	if i, ok := s.stat(operation); ok {
		return max(0, (s.operations[i].Held - 2*s.operations[i].Spread).D())
	}
	return 0
}

// firstEstimate is what an operation is charged before one has ended. It is
// short on purpose: too much would set back everybody who comes meanwhile, too
// little is made good when the lease ends.
const firstEstimate = 10 * time.Millisecond

func (s *State) observe(operation string, held time.Duration) {
	i, ok := s.stat(operation)
	if !ok {
		s.operations = slices.Insert(s.operations, i, operationStat{Name: operation, Held: Duration(held)})
		return
	}
	o := &s.operations[i]
	off := Duration(held) - o.Held
	o.Held += off / 8
	if s.policy.Handover {
		o.Spread += (max(off, -off) - o.Spread) / 4
	}
}

// drain measures how fast the queue is served while there is one.
type drain struct {
	Last     time.Time `json:"last,omitzero"`
	Interval Duration  `json:"interval,omitempty"` // moving mean between grants; zero: not known
	Samples  int       `json:"samples,omitempty"`
}

func (d *drain) granted(now time.Time, depth int) {
	if depth > 1 && !d.Last.IsZero() {
		gap := Duration(now.Sub(d.Last))
		if d.Samples < 8 {
			d.Interval = (d.Interval*Duration(d.Samples) + gap) / Duration(d.Samples+1)
		} else {
			d.Interval += (gap - d.Interval) / 8
		}
		d.Samples++
	}
	d.Last = now
}

// wait estimates the time until a position of a tenant's own queue is served:
// at most the whole queue is ahead of it, at best its weighted share is.
func (s *State) wait(t *tenant, position int) time.Duration {
	if s.drain.Samples < 8 {
		return 0
	}
	weights := max(s.active, t.Weight)
	ahead := min(mulDiv(int64(position), weights, t.Weight), int64(s.depth-s.held+1))
	return time.Duration(mulDiv(ahead, int64(s.drain.Interval), 1))
}
