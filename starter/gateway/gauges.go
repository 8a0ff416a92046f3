package gateway

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/admission"
	"headgate/contract"
)

// gauges shows the budget as it was last seen. While it cannot be seen, the last
// look stands, and ages go on growing: nothing tells that anything has moved.
type gauges struct{ gateway *Gateway }

// Describe lists every gauge, so that two gateways cannot share a registry.
func (c *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range gaugeDescs {
		ch <- d
	}
}

// Collect takes a look, or uses the last one.
func (c *gauges) Collect(ch chan<- prometheus.Metric) {
	g := c.gateway
	seen := g.looks.take(g.now, g.askView)
	s := &sheet{look: seen, now: g.now(), known: g.isOperation, ch: ch}
	s.put(upGauge, truth(seen.up))
	if seen.at.IsZero() {
		return
	}
	s.put(lookAgeGauge, s.grown(s.now).Seconds())
	s.queue()
	s.tenants()
	s.waiting()
	s.leases()
	s.resources()
	s.gates(g.policy)
	s.doubts()
}

func (g *Gateway) isOperation(name string) bool {
	_, ok := g.operations.Operation(name)
	return ok
}

// sheet is one collection.
type sheet struct {
	look
	now   time.Time
	known func(operation string) bool
	ch    chan<- prometheus.Metric
}

func (s *sheet) put(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// age is an age that was seen, as old as it is now.
func (s *sheet) age(seen admission.Duration) float64 { return (seen.D() + s.grown(s.now)).Seconds() }

// since is the age of what began at a time of the budget's clock.
func (s *sheet) since(begun time.Time) float64 {
	return s.age(admission.Duration(max(0, s.Now.Sub(begun))))
}

// later is the budget's clock now, as far as this process can tell.
func (s *sheet) later() time.Time { return s.Now.Add(s.grown(s.now)) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Both are filled by the variables below.
var (
	gaugeDescs []*prometheus.Desc
	gaugeNames []string
)

func gauge(name, help string, labels ...string) *prometheus.Desc {
	name = "headgate_" + name
	d := prometheus.NewDesc(name, help, labels, nil)
	gaugeDescs, gaugeNames = append(gaugeDescs, d), append(gaugeNames, name)
	return d
}

// Metrics are the names of everything that a gateway shows of itself.
func Metrics() []string {
	return append(slices.Clone(gaugeNames), decisionsCounter, admissionTimer, requestTimer)
}

var (
	upGauge      = gauge("up", "1: the budget answered the last look. 0: it did not (Temporal or every control worker is away); what is shown is the last look, with ages grown since.")
	lookAgeGauge = gauge("look_age_seconds", "Age of the look at the budget that the gauges show.")

	depthGauge   = gauge("queue_depth", "Tasks that wait, retries included: the deepest tenants, the rest is other.", contract.TenantLabel, contract.PriorityLabel)
	softGauge    = gauge("queue_soft_limit", "Depth from which tenants over their share are refused.")
	hardGauge    = gauge("queue_hard_limit", "Depth from which all but critical work is refused.")
	oldestGauge  = gauge("queue_oldest_age_seconds", "Age of the oldest task that its own tenant does not hold back.")
	standbyGauge = gauge("queue_standby", "Waiting tasks that take the place of a lease which is about to end.")

	tenantOldestGauge  = gauge("tenant_oldest_age_seconds", "Age of the tenant's oldest waiting task; of other, the largest.", contract.TenantLabel)
	tenantFlightGauge  = gauge("tenant_in_flight", "Leases of the tenant.", contract.TenantLabel)
	pausedGauge        = gauge("tenants_paused", "Tenants that are paused, by what is: dispatch or admission.", "what")
	waitingGauge       = gauge("waiting_tasks", "Waiting tasks by what the first of their tenant waits on, and for which resource.", "waiting_on", contract.ResourceLabel)
	waitingOldestGauge = gauge("waiting_oldest_age_seconds", "Age of the oldest task of the tenants whose first task waits on it.", "waiting_on", contract.ResourceLabel)

	leasesGauge  = gauge("leases", "Leases that are out.")
	overdueGauge = gauge("leases_overdue", "Leases whose holder should have been looked at and was not.")
	graceGauge   = gauge("leases_grace", "Leases of ended attempts whose worker may be alive.")
	leaseGauge   = gauge("lease_oldest_age_seconds", "Age of the oldest lease of the operation.", contract.OperationLabel)

	limitGauge     = gauge("resource_limit", "Concurrent: slots in force now. Per interval: amount of one interval.", contract.ResourceLabel)
	declaredGauge  = gauge("resource_declared_limit", "The limit that was declared; above resource_limit while that adapts.", contract.ResourceLabel)
	usedGauge      = gauge("resource_used", "Concurrent resources: slots that are leased.", contract.ResourceLabel)
	levelGauge     = gauge("resource_level", "Resources per interval: what may be spent now; negative is a debt.", contract.ResourceLabel)
	reservedGauge  = gauge("resource_reserved", "What leases have taken and not settled.", contract.ResourceLabel)
	availableGauge = gauge("resource_available", "What no lease that is in its time holds; 0 while the provider wants nothing.", contract.ResourceLabel)
	holdGauge      = gauge("resource_hold_seconds", "How much longer the provider wants nothing; 0: it takes work.", contract.ResourceLabel)
	askedGauge     = gauge("resource_waiting_for_people", "Tasks that are held on the resource until a person decides.", contract.ResourceLabel)

	gateGauge = gauge("operation_gate", "1 for the state of the operation's door: open, provider_hold, breaker_open, breaker_probe or operation_frozen.", contract.OperationLabel, "state")

	doubtGauge       = gauge("unknown_tasks", "Tasks whose outcome is in doubt: reconciled, or waiting for a person.", contract.OperationLabel)
	doubtOldestGauge = gauge("unknown_oldest_age_seconds", "Age of the oldest doubt.", contract.OperationLabel)
	doubtFullGauge   = gauge("unknown_ceilings_reached", "Tenants that may start nothing of the operation until doubts are settled.", contract.OperationLabel)
	doubtHeldGauge   = gauge("unknown_held", "What tasks in doubt keep charged of a resource per interval.", contract.ResourceLabel)
)
