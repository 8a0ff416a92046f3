package gateway

import (
	"strings"

	"headgate/admission"
	"headgate/contract"
)

// own leaves of the budget's view what concerns a tenant: itself, the limits that
// hold for everybody, and what is shut. How much others use, hold or wait for is
// theirs.
func (v QueueView) own(tenant string) QueueView {
	mine := QueueView{View: admission.View{Now: v.Now, Soft: v.Soft, Hard: v.Hard, Policy: v.Policy,
		Resources: []admission.ResourceView{}, Tenants: []admission.TenantView{}}, File: v.File}
	for _, r := range v.Resources {
		mine.Resources = append(mine.Resources, admission.ResourceView{Resource: r.Resource, Limit: r.Concurrent, Held: r.Held})
	}
	for _, t := range v.Tenants {
		if t.Name == tenant {
			mine.Tenants = append(mine.Tenants, t)
			mine.Depth, mine.InFlight, mine.Standby, mine.OldestAge = t.Queued, t.InFlight, t.Standby, t.OldestAge
		}
	}
	for _, g := range v.Gates {
		g.Stopping = 0
		if !tenantHas(tenant, g.Probe) {
			g.Probe = ""
		}
		mine.Gates = append(mine.Gates, g)
	}
	for _, d := range v.Doubts {
		if d.Tenant == tenant {
			mine.Doubts = append(mine.Doubts, d)
		}
	}
	for _, l := range v.Leases {
		if l.Tenant == tenant {
			mine.Leases = append(mine.Leases, l)
		}
	}
	return mine
}

// own takes out of what one task waits on the names of others' tasks.
func (w WhyView) own(tenant string) WhyView {
	if !tenantHas(tenant, w.First) {
		w.First = ""
	}
	if before, ok := strings.CutPrefix(w.Detail, "after "); ok && w.Stand == admission.StandStandby && !tenantHas(tenant, before) {
		w.Detail = ""
	}
	return w
}

// tenantHas tells whether a task is a tenant's; the empty one is.
func tenantHas(tenant, task string) bool {
	return task == "" || strings.HasPrefix(task, contract.TaskID(tenant, ""))
}
