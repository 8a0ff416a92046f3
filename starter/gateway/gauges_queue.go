package gateway

import (
	"cmp"
	"slices"

	"headgate/admission"
	"headgate/contract"
)

// shownTenants is how many tenants have series of their own. A tenant that is
// called other shares that series.
const shownTenants = 20

func (s *sheet) queue() {
	s.put(softGauge, float64(s.Soft))
	s.put(hardGauge, float64(s.Hard))
	s.put(standbyGauge, float64(s.Standby))
	oldest := 0.0
	if s.OldestAge > 0 {
		oldest = s.age(s.OldestAge)
	}
	s.put(oldestGauge, oldest)
}

// tenantSeries is one tenant, or all that are not shown.
type tenantSeries struct {
	name     string
	depth    []int // by admission.Priorities
	oldest   float64
	inFlight int
}

// tenants shows the deepest ones; of those as deep, the ones with more leases, then
// by name.
func (s *sheet) tenants() {
	all := slices.Clone(s.Tenants)
	slices.SortFunc(all, func(a, b admission.TenantView) int {
		return cmp.Or(b.Queued-a.Queued, b.InFlight-a.InFlight, cmp.Compare(a.Name, b.Name))
	})
	var shown []tenantSeries
	dispatch, closed := 0, 0
	for i, t := range all {
		name := t.Name
		if i >= shownTenants {
			name = contract.OtherLabel
		}
		at := slices.IndexFunc(shown, func(s tenantSeries) bool { return s.name == name })
		if at < 0 {
			at, shown = len(shown), append(shown, tenantSeries{name: name, depth: make([]int, len(admission.Priorities()))})
		}
		s.add(&shown[at], t)
		if t.Pause != nil && t.Pause.Dispatch {
			dispatch++
		}
		if t.Pause != nil && t.Pause.Admission {
			closed++
		}
	}
	for _, t := range shown {
		for i, p := range admission.Priorities() {
			s.put(depthGauge, float64(t.depth[i]), t.name, p.String())
		}
		s.put(tenantOldestGauge, t.oldest, t.name)
		s.put(tenantFlightGauge, float64(t.inFlight), t.name)
	}
	s.put(pausedGauge, float64(dispatch), "dispatch")
	s.put(pausedGauge, float64(closed), "admission")
}

func (s *sheet) add(to *tenantSeries, t admission.TenantView) {
	for _, d := range t.ByPriority {
		if i := slices.Index(admission.Priorities(), d.Priority); i >= 0 {
			to.depth[i] += d.Queued
		}
	}
	if t.OldestAge > 0 {
		to.oldest = max(to.oldest, s.age(t.OldestAge))
	}
	to.inFlight += t.InFlight
}

// waiting shows what tenants wait on: as many series as there are reasons, times
// the resources of the policy for capacity.
func (s *sheet) waiting() {
	type series struct {
		reason, resource string
		tasks            int
		oldest           float64
	}
	var all []series
	for _, t := range s.Tenants {
		if t.WaitingOn == "" {
			continue
		}
		at := slices.IndexFunc(all, func(o series) bool { return o.reason == string(t.WaitingOn) && o.resource == t.Resource })
		if at < 0 {
			at, all = len(all), append(all, series{reason: string(t.WaitingOn), resource: t.Resource})
		}
		all[at].tasks += t.Queued
		if t.OldestAge > 0 {
			all[at].oldest = max(all[at].oldest, s.age(t.OldestAge))
		}
	}
	for _, w := range all {
		s.put(waitingGauge, float64(w.tasks), w.reason, w.resource)
		s.put(waitingOldestGauge, w.oldest, w.reason, w.resource)
	}
}
