package gateway

import (
	"cmp"
	"slices"
	"strings"

	"headgate/admission"
	"headgate/contract"
)

// operation is the label of an operation: probes count with theirs, and what the
// file does not know, any more, is other.
func (s *sheet) operation(name string) string {
	name = strings.TrimSuffix(name, contract.ProbeOperation(""))
	if s.known(name) {
		return name
	}
	return contract.OtherLabel
}

// leases counts all; by operation it shows the oldest of those that the view
// lists, which are the oldest of all.
func (s *sheet) leases() {
	overdue, grace := 0, 0
	var names []string
	for _, l := range s.Leases {
		if l.Grace {
			grace++
		}
		if s.overdue(l) {
			overdue++
		}
		if name := s.operation(l.Operation); !slices.Contains(names, name) {
			names = append(names, name)
			s.put(leaseGauge, s.since(l.Granted), name)
		}
	}
	s.put(leasesGauge, float64(s.InFlight))
	s.put(overdueGauge, float64(overdue))
	s.put(graceGauge, float64(grace))
}

// overdue tells of a lease whose time was over before now. While the budget can be
// seen it looks at such a holder at once.
func (s *sheet) overdue(l admission.LeaseView) bool { return l.Due.Before(s.later()) }

func (s *sheet) resources() {
	for _, r := range s.Resources {
		declared := cmp.Or(r.Concurrent, r.Amount)
		s.put(declaredGauge, float64(declared), r.Name)
		hold := 0.0
		if r.Held != nil {
			hold = max(0, r.Held.Sub(s.later()).Seconds())
		}
		s.put(holdGauge, hold, r.Name)
		s.put(reservedGauge, float64(r.Reserved), r.Name)
		var free int64
		if r.Per > 0 {
			s.put(limitGauge, float64(r.Amount), r.Name)
			s.put(levelGauge, float64(r.Level), r.Name)
			if free = r.Level; r.Next != nil && r.Next.After(s.later()) {
				free = 0 // kept for the first one, which needs more
			}
		} else {
			s.put(limitGauge, float64(r.Limit), r.Name)
			s.put(usedGauge, float64(r.Used), r.Name)
			s.put(askedGauge, float64(r.Asked), r.Name)
			free = r.Limit - r.Used + s.overrun(r.Name)
		}
		if hold > 0 {
			free = 0
		}
		s.put(availableGauge, float64(max(0, free)), r.Name)
	}
}

// overrun is what overdue leases hold of a resource.
func (s *sheet) overrun(resource string) (sum int64) {
	for _, l := range s.Leases {
		if !s.overdue(l) {
			continue
		}
		for _, c := range l.Cost {
			if c.Resource == resource {
				sum += c.Amount
			}
		}
	}
	return sum
}

// open is the state of a door that the budget has nothing to say about.
const open = "open"

var gateStates = []string{open, string(admission.ProviderHold), string(admission.BreakerOpen), string(admission.BreakerProbe), string(admission.OperationFrozen)}

// gates shows the operations that this gateway's file gives a policy of their own,
// and every other whose door is not plainly open.
func (s *sheet) gates(file admission.Policy) {
	var names []string
	for _, op := range file.Operations {
		names = append(names, op.Name)
	}
	for _, g := range s.Gates {
		names = append(names, g.Operation)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !s.known(name) { // a probe's own, or one that has left the file
			continue
		}
		now := open
		if i := slices.IndexFunc(s.Gates, func(g admission.GateView) bool { return g.Operation == name }); i >= 0 {
			now = string(s.Gates[i].State)
		}
		for _, state := range gateStates {
			s.put(gateGauge, truth(state == now), name, state)
		}
	}
}

func (s *sheet) doubts() {
	type series struct {
		operation   string
		tasks, full int
		oldest      float64
	}
	var all []series
	var held []admission.Cost
	for _, d := range s.Doubts {
		name := s.operation(d.Operation)
		at := slices.IndexFunc(all, func(o series) bool { return o.operation == name })
		if at < 0 {
			at, all = len(all), append(all, series{operation: name})
		}
		all[at].tasks += d.Tasks
		all[at].full += int(truth(d.Tasks >= d.Ceiling))
		all[at].oldest = max(all[at].oldest, s.since(d.Since))
		for _, c := range d.Held {
			if i := slices.IndexFunc(held, func(h admission.Cost) bool { return h.Resource == c.Resource }); i >= 0 {
				held[i].Amount += c.Amount
			} else {
				held = append(held, c)
			}
		}
	}
	for _, d := range all {
		s.put(doubtGauge, float64(d.tasks), d.operation)
		s.put(doubtOldestGauge, d.oldest, d.operation)
		s.put(doubtFullGauge, float64(d.full), d.operation)
	}
	for _, h := range held {
		s.put(doubtHeldGauge, float64(h.Amount), h.Resource)
	}
}
