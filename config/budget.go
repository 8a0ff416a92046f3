package config

import (
	"math"
	"time"

	"headgate/admission"
)

// readBudget reads `budget` and `tenants` into a policy. A resource with errors
// of its own stays in the policy, so that costs that name it are not called
// unknown as well.
func readBudget(s *section) admission.Policy {
	var p admission.Policy
	if f, ok := s.need("budget", "{resources: {calls: {concurrent: 4}}}"); ok {
		b := s.childOf(f)
		if f, ok := b.need("resources", "{calls: {concurrent: 4}}"); ok {
			all := b.childOf(f)
			fields := all.fields("resource")
			if len(fields) == 0 && all.n != nil {
				b.errorAt(f, "there is no resource: name at least one, such as calls: {concurrent: 4}")
			}
			for _, f := range fields {
				p.Resources = append(p.Resources, readResource(f.name, all.childOf(f)))
			}
		}
		if q := b.child("queue"); q != nil {
			p.Queue = readQueue(q)
		}
		p.Handover = b.oneOf("handover", "on", "on", "off") == "on"
		p.UnknownCeiling = int(b.whole("unknown_ceiling", 0, 1, admission.MaxUnknownCeiling))
		b.done()
	}
	if tenants := s.child("tenants"); tenants != nil {
		for _, f := range tenants.fields("tenant") {
			t := readTenant(tenants.childOf(f))
			if f.name == "default" {
				p.Default = t
				continue
			}
			t.Name = f.name
			p.Tenants = append(p.Tenants, t)
		}
	}
	return p.Normalize()
}

func readResource(name string, s *section) admission.Resource {
	defer s.done()
	out := admission.Resource{Name: name}
	concurrent, per, amount, burst := s.has("concurrent"), s.has("per"), s.has("amount"), s.has("burst")
	interval := per || amount || burst
	adapt, adapts := s.field("adapt")
	switch {
	case s.n == nil:
	case concurrent && interval:
		s.add(s.place, s.path, "it is either concurrent or per interval: keep `concurrent`, or `per` and `amount`")
	case concurrent:
		out.Concurrent = s.whole("concurrent", 0, 1, admission.MaxAmount)
		if adapts {
			a := s.childOf(adapt)
			out.Adapt = &admission.Adapt{Min: a.whole("min", 1, 1, max(1, out.Concurrent))}
			a.done()
		}
	case interval:
		if adapts {
			s.add(adapt.place, s.path, "only a concurrent resource adapts: remove adapt")
		}
		if _, ok := s.need("per", "1m"); ok {
			out.Per = s.span("per", 0, time.Millisecond, admission.MaxPer)
		}
		if _, ok := s.need("amount", "100"); ok {
			out.Amount = s.whole("amount", 0, 1, admission.MaxAmount)
		}
		out.Burst = s.whole("burst", 0, 1, admission.MaxAmount)
	default:
		s.add(s.place, s.path, "it has no limit: write `concurrent: 4`, or `per: 1m` and `amount: 100`")
	}
	return out
}

func readQueue(s *section) admission.QueuePolicy {
	q := admission.QueuePolicy{
		Soft:            int(s.whole("soft", 0, 1, admission.MaxQueue)),
		Hard:            int(s.whole("hard", 0, 1, admission.MaxQueue)),
		MaxAge:          s.span("max_age", 0, time.Millisecond, math.MaxInt64),
		CriticalReserve: int(s.whole("critical_reserve", 0, 0, admission.MaxQueue)),
	}
	hard := admission.Policy{Queue: q}.Normalize().Queue.Hard
	if f, ok := s.field("soft"); ok && q.Soft > hard {
		s.errorAt(f, "%d is above the hard limit of %d: write less, or raise `hard`", q.Soft, hard)
	}
	if q.Hard == 1 && q.Soft == 0 {
		q.Soft = 1 // four fifths of one is nothing
	}
	s.done()
	return q
}

// readGate reads what admission does for one operation; nothing, if the file does
// not say: the policy has defaults for operations that are not in it.
func readGate(name string, s *section) (admission.OperationPolicy, bool) {
	p := admission.OperationPolicy{Name: name}
	p.WhenFull = admission.WhenFull(s.oneOf("when_full", "", string(admission.WhenFullReject),
		string(admission.WhenFullDefer), string(admission.WhenFullDropOldest)))
	p.UnknownCeiling = int(s.whole("unknown_ceiling", 0, 1, admission.MaxUnknownCeiling))
	f, ok := s.field("breaker")
	switch {
	case !ok:
	case f.value.kind == text && f.value.text == "off":
		p.Breaker.Failures = -1
	default:
		b := s.childOf(f)
		p.Breaker.Failures = int(b.whole("failures", 0, 1, 1000))
		p.Breaker.Open = b.span("open", 0, time.Millisecond, 24*time.Hour)
		p.Breaker.MaxOpen = b.span("max_open", 0, time.Millisecond, 24*time.Hour)
		all := admission.Policy{Operations: []admission.OperationPolicy{p}}.Normalize().Operations[0].Breaker
		if f, ok := b.field("max_open"); ok && all.Open > all.MaxOpen {
			b.errorAt(f, "open (%s) is above max_open (%s): write open <= max_open", brief(all.Open.D()), brief(all.MaxOpen.D()))
		}
		b.done()
	}
	return p, ok || s.has("when_full") || s.has("unknown_ceiling")
}

func readTenant(s *section) admission.TenantPolicy {
	t := admission.TenantPolicy{
		Weight:      s.whole("weight", 0, 1, admission.MaxWeight),
		MaxInFlight: int(s.whole("max_in_flight", 0, 1, admission.MaxQueue)),
		MaxQueued:   int(s.whole("max_queued", 0, 1, admission.MaxQueue)),
	}
	if a := s.child("agents"); a != nil {
		t.Agents = admission.AgentPolicy{
			MaxInFlight: int(a.whole("max_in_flight", 0, 1, admission.MaxQueue)),
			MaxQueued:   int(a.whole("max_queued", 0, 1, admission.MaxQueue)),
		}
		a.done()
	}
	s.done()
	return t
}
