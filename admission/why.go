package admission

import (
	"slices"
	"time"
)

// waitsOn says why a waiting item does not run. It is derived from the state,
// never stored, so that it cannot be stale.
func (s *State) waitsOn(it *item) (Reason, string) {
	t := it.tenant
	switch {
	case it.req.Hold:
		return Approval, it.req.HoldOn
	case it.stand == delayed:
		return NotYet, ""
	case t.dispatchPaused(s.now):
		return TenantPaused, ""
	case t.full():
		return TenantInFlight, ""
	case t.agentFull(it.agent):
		return AgentInFlight, ""
	case it.class.gate.Frozen != nil:
		return OperationFrozen, ""
	case t.flow(it.class).atCeiling():
		return UnknownCeiling, ""
	}
	if reason := it.class.gate.reason(s.now); reason != "" && !it.class.gate.passes(s.now) {
		return reason, ""
	}
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].held.After(s.now) {
			return ProviderHold, c.Resource
		}
	}
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && (s.resources[i].blocked || !s.resources[i].fits(c.Amount)) {
			return Capacity, c.Resource
		}
	}
	return TurnWait, ""
}

// Why tells what one task waits on: its newest attempt that the budget knows.
// It changes nothing.
func (s *State) Why(task string) Why {
	var it *item
	for o := s.eldest; o != nil; o = o.younger {
		if o.req.Task == task && (it == nil || o.req.Attempt > it.req.Attempt) {
			it = o
		}
	}
	if it == nil {
		return Why{Stand: StandAbsent}
	}
	w := Why{Attempt: it.req.Attempt}
	switch it.stand {
	case leased:
		lease := it.lease
		w.Stand, w.Lease, w.Since = StandLeased, &lease, &lease.Granted
		return w
	case standby:
		w.Stand, w.Reason, w.Detail = StandStandby, Standby, "after "+it.ahead.req.Task
		w.Since = &it.lease.Granted
		return w
	case ended:
		w.Stand, w.Reason, w.Detail = StandAbsent, it.refuse, it.detail
		return w
	case delayed:
		w.Stand = StandDelayed
	case queued:
		w.Stand = StandQueued
		w.Position = 1
		for o := it.tenant.first; o != nil; o = o.next {
			if o != it && before(o, it) {
				w.Position++
			}
		}
		w.Estimate = Duration(s.wait(it.tenant, w.Position))
	}
	since := it.arrival
	w.Since = &since
	w.Reason, w.Resource = s.waitsOn(it)
	if w.Reason == UnknownCeiling {
		w.Detail = s.ceilingDetail(it.tenant.use(it.req.Operation))
	}
	if f := it.class.gate.Frozen; w.Reason == OperationFrozen {
		w.Since, w.Detail = &f.Since, "frozen by "+f.Actor+": "+f.Reason
	}
	if w.Reason == TenantPaused {
		p := it.tenant.pause
		w.Since, w.Detail = &p.Since, "paused by "+p.Actor+": "+p.Reason
	}
	return w
}

// View shows the whole budget. It changes nothing.
func (s *State) View(now time.Time) View {
	if now.Before(s.now) {
		now = s.now
	}
	v := View{Now: now, Depth: s.depth, Soft: s.policy.Queue.Soft, Hard: s.policy.Queue.Hard,
		InFlight: s.inFlight, Standby: s.standby, Policy: s.policy.Digest(), Interval: s.drain.Interval, Resources: []ResourceView{}, Tenants: []TenantView{}}
	if it := s.eldestEligible(); it != nil {
		v.OldestAge = Duration(now.Sub(it.arrival))
	}
	for _, r := range s.resources { // a copy of each, so that refill stays here
		r.refill(now)
		rv := ResourceView{Resource: r.Resource, Limit: r.limit, Used: r.used, Asked: r.asked, Level: r.level}
		if r.held.After(now) {
			held := r.held
			rv.Held = &held
		}
		if !r.next.IsZero() {
			next := r.next
			rv.Next = &next
		}
		v.Resources = append(v.Resources, rv)
	}
	s.viewReserved(v.Resources)
	for _, t := range s.tenants {
		if tv, ok := s.viewTenant(t, now); ok {
			v.Tenants = append(v.Tenants, tv)
		}
	}
	for _, g := range s.gates {
		if gv, ok := g.view(now); ok {
			gv.Stopping = s.Stopping(g.Name)
			v.Gates = append(v.Gates, gv)
		}
	}
	if s.policy.Handover {
		v.Handover = &HandoverView{Duration(s.handover.lead()), s.handover.Missed * 100 / 256}
	}
	v.Doubts = s.viewDoubts()
	v.Leases = s.viewLeases()
	return v
}

// viewReserved sums up what leases hold, announced ones not: they take the place of
// one that is counted.
func (s *State) viewReserved(resources []ResourceView) {
	for it := s.eldest; it != nil; it = it.younger {
		if it.stand != leased {
			continue
		}
		for _, c := range it.req.Cost {
			if i, ok := s.indexOf[c.Resource]; ok {
				resources[i].Reserved += c.Amount
			}
		}
	}
}

func (s *State) viewTenant(t *tenant, now time.Time) (TenantView, bool) {
	tv := TenantView{TenantPolicy: t.TenantPolicy, Queued: t.queued, InFlight: t.inFlight, Standby: t.standby}
	if t.pause != nil && !lapsed(t.pause, now) {
		p := *t.pause
		tv.Pause = &p
	}
	if t.queued+t.inFlight == 0 && tv.Pause == nil {
		return tv, false
	}
	for _, p := range Priorities() {
		if n := t.depth[p-Low]; n > 0 {
			tv.ByPriority = append(tv.ByPriority, PriorityDepth{p, n})
		}
	}
	if t.first != nil {
		tv.OldestAge = Duration(now.Sub(t.first.arrival))
		it := t.first
		for _, f := range t.flows {
			if f != nil && f.head != nil && before(f.head, it) {
				it = f.head
			}
		}
		tv.WaitingOn, tv.Resource = s.waitsOn(it)
	} else if t.standby > 0 {
		tv.WaitingOn = Standby
	} else if t.queued > 0 {
		if tv.WaitingOn = NotYet; t.held == t.queued {
			tv.WaitingOn = Approval
		}
	}
	return tv, true
}

// Leases lists leases, also announced ones, by the IDs of their tasks.
func (s *State) Leases(after string, limit int) []LeaseView {
	var found []*item
	for _, it := range s.ordered() {
		if it.promised() && it.req.Task > after {
			found = append(found, it)
		}
	}
	slices.SortFunc(found, func(a, b *item) int { return compare(a.req.Task, b.req.Task) })
	out := []LeaseView{}
	for _, it := range found[:max(0, min(len(found), limit))] {
		out = append(out, it.view())
	}
	return out
}

func (s *State) viewLeases() []LeaseView {
	held := s.leases()
	slices.SortFunc(held, func(a, b *item) int {
		if c := a.granted.Compare(b.granted); c != 0 {
			return c
		}
		return int(a.seq) - int(b.seq)
	})
	out := make([]LeaseView, 0, min(len(held), MaxLeasesShown))
	for _, it := range held[:min(len(held), MaxLeasesShown)] {
		out = append(out, it.view())
	}
	return out
}

func (it *item) view() LeaseView {
	due := it.due
	if due.IsZero() {
		due = it.lease.Granted.Add(it.leaseFor())
	}
	return LeaseView{Lease: it.lease, Task: it.req.Task, Attempt: it.req.Attempt, Tenant: it.req.Tenant,
		Agent: it.req.Agent, Operation: it.req.Operation, Cost: it.req.Cost, Due: due, Grace: it.grace}
}

func (s *State) leases() []*item {
	var held []*item
	for _, it := range s.ordered() {
		if it.stand == leased {
			held = append(held, it)
		}
	}
	return held
}

// ordered lists all items by age.
func (s *State) ordered() []*item {
	all := make([]*item, 0, len(s.items))
	for it := s.eldest; it != nil; it = it.younger {
		all = append(all, it)
	}
	return all
}

// keep adds an item to the table; it is younger than all that are there.
func (s *State) keep(it *item) {
	s.items[it.key()] = it
	it.elder = s.youngest
	if s.youngest != nil {
		s.youngest.younger = it
	} else {
		s.eldest = it
	}
	s.youngest = it
}

// lose takes an item out of the table.
func (s *State) lose(it *item) {
	delete(s.items, it.key())
	if it.elder != nil {
		it.elder.younger = it.younger
	} else {
		s.eldest = it.younger
	}
	if it.younger != nil {
		it.younger.elder = it.elder
	} else {
		s.youngest = it.elder
	}
	it.elder, it.younger = nil, nil
}
