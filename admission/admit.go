package admission

import (
	"fmt"
	"slices"
	"time"
)

// Refusal tells whether a new request would be refused, and how. It changes
// nothing, so that a refusal can be given without writing anything. Order and
// reasons:
//
//	the key is held with another payload   key_reused
//	the cost can never fit                 unknown_resource, cost_above_limit
//	the deadline is past                   expired
//	the tenant's admission is closed       tenant_closed
//	the provider is down, or wants a rest  downstream_unavailable (not for critical)
//	too many of both are in doubt          unknown_ceiling        (not for critical)
//	the tenant or agent queues too much    tenant_limit, agent_limit
//	the oldest eligible task is too old    stale_backlog          (not for critical)
//	it would start after its deadline      deadline_unattainable
//	the queue is at its hard limit         queue_full             (critical: until the reserve is full)
//	at its soft limit, and the tenant has
//	more than its share, or it is low      over_share             (not for critical)
//	no person is free to be asked          approvals_full         (held tasks only)
func (s *State) Refusal(now time.Time, r Request) (Verdict, bool) {
	if now.Before(s.now) {
		now = s.now
	}
	if it := s.items[attempt{r.Task, r.Attempt}]; it != nil && it.stand != ended {
		if it.req.Hash == fingerprint(r.Hash) {
			return Verdict{}, false
		}
		return Verdict{Action: Reject, Reason: KeyReused, Detail: "the key is being admitted with another payload"}, true
	}
	if reason, detail := s.policy.CheckCost(r.Cost); reason != "" {
		return Verdict{Action: Reject, Reason: reason, Detail: detail}, true
	}
	if r.Deadline != nil && !r.Deadline.After(now) {
		return Verdict{Action: Reject, Reason: Expired, Detail: "the deadline is past"}, true
	}
	t := s.tenantOf[r.Tenant]
	if t == nil {
		t = &tenant{TenantPolicy: s.policy.Tenant(r.Tenant)}
	}
	if t.closed(now) {
		v := Verdict{Action: Reject, Reason: TenantClosed, Detail: fmt.Sprintf("%s is closed to new work: %s", r.Tenant, t.pause.Reason)}
		if t.pause.Until != nil {
			v.RetryAfter = atLeast(t.pause.Until.Sub(now), time.Second)
		}
		return v, true
	}
	if v, refused := s.overload(now, r, t); refused {
		return v, true
	}
	return s.holdRefusal(r)
}

// overload is the part of Refusal that looks at what waits.
func (s *State) overload(now time.Time, r Request, t *tenant) (Verdict, bool) {
	refuse := func(reason Reason, after time.Duration, format string, args ...any) (Verdict, bool) {
		return Verdict{Action: Reject, Reason: reason, RetryAfter: s.jitter(r, after), Detail: fmt.Sprintf(format, args...)}, true
	}
	q, critical := s.policy.Queue, r.Priority == Critical
	full := s.policy.operation(r.Operation).WhenFull
	if wait := s.unavailable(now, r); wait > 0 && !critical {
		return refuse(DownstreamUnavailable, wait, "%s takes nothing for another %s", r.Operation, wait.Round(time.Second))
	}
	if n, most := t.doubts(r.Operation), s.policy.ceiling(r.Operation); n >= most && !critical {
		return refuse(UnknownCeiling, UnknownRetry, "%d tasks of %s of %s are in doubt, the ceiling is %d: their outcomes come first", n, r.Tenant, r.Operation, most)
	}
	if full == WhenFullDropOldest && s.oldestOf(t, r.Operation) != nil && s.crowded(t, r) {
		return Verdict{}, false // it takes that one's place
	}
	if t.MaxQueued > 0 && t.queued >= t.MaxQueued {
		return refuse(TenantLimit, s.wait(t, 1), "%d of %d tasks of %s wait", t.queued, t.MaxQueued, r.Tenant)
	}
	if n := queuedBy(t, r.Agent); t.Agents.MaxQueued > 0 && n >= t.Agents.MaxQueued {
		return refuse(AgentLimit, s.wait(t, 1), "%d of %d tasks of agent %q of %s wait", n, t.Agents.MaxQueued, r.Agent, r.Tenant)
	}
	if old := s.eldestEligible(); old != nil && q.MaxAge > 0 && !critical {
		if age := now.Sub(old.arrival); age > q.MaxAge.D() {
			return refuse(StaleBacklog, s.wait(t, 1), "the oldest task has waited for %s, more than %s", age.Round(time.Second), q.MaxAge)
		}
	}
	if r.Deadline != nil && s.depth > 0 {
		wait := s.wait(t, t.queued-t.held+1)
		if start := later(now, r.NotBefore); wait > 0 && now.Add(wait).After(*r.Deadline) && !start.After(*r.Deadline) {
			v, _ := refuse(DeadlineUnattainable, wait-r.Deadline.Sub(now), "the estimated wait is %s, the deadline is in %s", wait.Round(time.Second), r.Deadline.Sub(now).Round(time.Second))
			v.Estimate, v.OwnBacklog = Duration(wait), 2*t.queued > s.depth
			return v, true
		}
	}
	reserve := critical || full == WhenFullDefer
	if s.depth >= q.Hard && (!reserve || s.depth >= q.Hard+q.CriticalReserve) {
		return refuse(QueueFull, s.wait(t, 1), "%d of %d tasks wait; %s holds %d", s.depth, q.Hard, r.Tenant, t.queued)
	}
	if s.depth >= q.Soft && !reserve {
		if share := s.share(t); r.Priority == Low || int64(t.queued) >= share {
			return refuse(OverShare, s.wait(t, 1), "%d tasks wait, the soft limit is %d; %s holds %d, its share is %d", s.depth, q.Soft, r.Tenant, t.queued, share)
		}
	}
	return Verdict{}, false
}

// share is a tenant's part of the queue at its soft limit.
func (s *State) share(t *tenant) int64 {
	weights := s.active
	if t.queued == 0 {
		weights += t.Weight
	}
	return max(1, mulDiv(int64(s.policy.Queue.Soft), t.Weight, max(1, weights)))
}

// crowded tells whether a queue that the task would join has reached a limit.
func (s *State) crowded(t *tenant, r Request) bool {
	return s.depth >= s.policy.Queue.Hard ||
		s.depth >= s.policy.Queue.Soft && (r.Priority == Low || int64(t.queued) >= s.share(t)) ||
		t.MaxQueued > 0 && t.queued >= t.MaxQueued ||
		t.Agents.MaxQueued > 0 && queuedBy(t, r.Agent) >= t.Agents.MaxQueued
}

// oldestOf is the tenant's longest waiting task of an operation.
func (s *State) oldestOf(t *tenant, operation string) *item {
	for it := t.first; it != nil; it = it.next {
		if it.req.Operation == operation && it.req.Attempt == 1 {
			return it
		}
	}
	return nil
}

// unavailable is the time for which new work of an operation is refused.
func (s *State) unavailable(now time.Time, r Request) time.Duration {
	i, ok := slices.BinarySearchFunc(s.gates, r.Operation, func(g *gate, n string) int { return compare(g.Name, n) })
	if !ok {
		return 0
	}
	g := s.gates[i]
	if wait := g.Open.Sub(now); wait > 0 {
		return wait
	}
	if wait := g.Held.Sub(now); wait > HoldReject {
		return wait
	}
	return 0
}

func queuedBy(t *tenant, name string) int {
	for _, a := range t.agents {
		if a.name == name {
			return a.queued
		}
	}
	return 0
}

func later(now time.Time, t *time.Time) time.Time {
	if t != nil && t.After(now) {
		return *t
	}
	return now
}

func atLeast(d, least time.Duration) Duration { return Duration(max(d, least)) }

// jitter spreads what clients are told by up to a fifth, and clamps it to
// between a second and five minutes. It is drawn from the request, so that a
// replay gives the same answer.
func (s *State) jitter(r Request, d time.Duration) Duration {
	d = min(max(d, time.Second), 5*time.Minute)
	var h uint32 = 2166136261 // FNV-1a
	for i := range len(r.Task) {
		h = (h ^ uint32(r.Task[i])) * 16777619
	}
	return Duration(d + d*time.Duration(h%200)/1000)
}

// Admit decides about a new task. The verdict holds a ticket, and a lease if
// capacity was free and nothing was ahead. The same request again gives the
// same ticket.
func (s *State) Admit(now time.Time, r Request) Verdict {
	s.clock(now)
	if v, refused := s.Refusal(s.now, r); refused {
		return v
	}
	if it := s.items[attempt{r.Task, r.Attempt}]; it != nil {
		if it.stand != ended {
			return s.verdict(it)
		}
		s.forget(it) // an older admission ran out before its task was started
	}
	s.makeRoom(r)
	it := s.add(r)
	it.ticket = s.newID("t")
	it.startBy = s.now.Add(TicketFor)
	s.audit(it, it.startBy.Add(TicketMargin))
	s.grant()
	if it.stand == leased {
		s.outbox.remove(it) // the lease travels in the start input
		it.deliver = false
	}
	return s.verdict(it)
}

func (s *State) verdict(it *item) Verdict {
	v := Verdict{Action: Queue, Ticket: it.ticket, StartBy: it.startBy}
	if it.stand == leased {
		lease := it.lease
		v.Action, v.Lease = Run, &lease
		return v
	}
	t := it.tenant
	v.Reason, v.Resource = s.waitsOn(it)
	if v.Reason == Approval {
		v.Action = Defer
		return v
	}
	v.Position, v.Estimate = t.queued-t.held, Duration(s.wait(t, t.queued-t.held))
	held := v.Reason == TenantPaused || v.Reason == NotYet || v.Reason == BreakerOpen || v.Reason == ProviderHold || v.Reason == UnknownCeiling || v.Reason == OperationFrozen
	if held || s.depth > s.policy.Queue.Hard {
		v.Action = Defer
	}
	return v
}

// Ask is a request of a running task: a direct start (admit) that may be
// refused, or a further attempt, which is always taken. The answer is a
// decision that is delivered to the task.
func (s *State) Ask(now time.Time, r Request, admit bool) {
	s.clock(now)
	key := attempt{r.Task, r.Attempt}
	if it := s.items[key]; it != nil {
		it.confirmed = true
		if it.req.Hold && !r.Hold && it.stand == delayed {
			s.approve(it, r)
		}
		if it.promised() || it.stand == ended {
			s.send(it, s.now) // it asks, so it has not heard
		}
		return
	}
	if old := s.items[attempt{r.Task, r.Attempt - 1}]; old != nil && !old.grace {
		s.remove(old, nil) // superseded: its report was lost
	}
	if admit {
		if v, refused := s.Refusal(s.now, r); refused {
			s.end(r, v)
			return
		}
	} else if reason, detail := s.policy.CheckCost(r.Cost); reason != "" {
		s.end(r, Verdict{Reason: reason, Detail: detail})
		return
	}
	if r.Attempt > 1 {
		if from := s.tenant(r.Tenant).retries.spend(s.now); r.NotBefore == nil || from.After(*r.NotBefore) {
			r.NotBefore = &from
		}
	}
	if admit {
		s.makeRoom(r)
	}
	s.add(r).confirmed = true
}

// makeRoom ends the task whose place a new one takes, if that is what its
// operation wants.
func (s *State) makeRoom(r Request) {
	t := s.tenantOf[r.Tenant]
	if t == nil || s.policy.operation(r.Operation).WhenFull != WhenFullDropOldest || !s.crowded(t, r) {
		return
	}
	if old := s.oldestOf(t, r.Operation); old != nil {
		s.leave(old)
		old.stand, old.refuse, old.detail = ended, Superseded, "a newer task of its kind took its place in a full queue"
		s.send(old, s.now)
	}
}

// end keeps a refusal until its task has heard it.
func (s *State) end(r Request, v Verdict) {
	s.seq++
	t := s.tenant(r.Tenant)
	r.Hash = fingerprint(r.Hash)
	it := &item{req: r, seq: s.seq, arrival: s.now, stand: ended, tenant: t, agent: t.agent(r.Agent), class: s.classFor(r.Operation, r.Cost, false),
		refuse: v.Reason, detail: v.Detail, retry: v.RetryAfter, confirmed: true}
	s.keep(it)
	s.send(it, s.now)
}

// remove takes an attempt out wherever it stands. real is the cost that was
// really used by a leased one; nil: as reserved.
func (s *State) remove(it *item, real []Cost) {
	switch it.stand {
	case leased:
		s.free(it, real)
	case standby:
		s.withdraw(it, real)
	case ended:
		s.forget(it)
	default:
		s.leave(it)
		s.forget(it)
	}
}
