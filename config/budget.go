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
	before := len(s.errors)
	at, ok := s.need("budget", "{resources: {calls: {concurrent: 4}}}")
	if ok {
		b := s.childOf(at)
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
	p = p.Normalize()
	if err := p.Validate(); err != nil && len(s.errors) == before {
		s.add(at.place, "budget", "%v", err) // a rule that this package does not know
	}
	return p
}

func readResource(name string, s *section) admission.Resource {
	defer s.done()
	out := admission.Resource{Name: name}
	concurrent, per, amount, burst := s.has("concurrent"), s.has("per"), s.has("amount"), s.has("burst")
	interval := per || amount || burst
	switch {
	case s.n == nil:
	case concurrent && interval:
		s.add(s.place, s.path, "it is either concurrent or per interval: keep `concurrent`, or `per` and `amount`")
	case concurrent:
		out.Concurrent = s.whole("concurrent", 0, 1, admission.MaxAmount)
	case interval:
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
