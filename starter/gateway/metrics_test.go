package gateway

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

// busyView is a budget with something of everything.
func busyView() admission.View {
	held, next := start.Add(30*time.Second), start.Add(time.Second)
	minutes := func(n int) admission.Duration { return admission.Duration(time.Duration(n) * time.Minute) }
	return admission.View{
		Now: start, Depth: 7, Soft: 80, Hard: 100, OldestAge: minutes(5), InFlight: 2,
		Resources: []admission.ResourceView{
			{Resource: admission.Resource{Name: "psp_calls", Concurrent: 8}, Limit: 4, Used: 3, Reserved: 3},
			{Resource: admission.Resource{Name: "tokens", Per: minutes(1), Amount: 1000, Burst: 200}, Level: 150, Reserved: 40},
			{Resource: admission.Resource{Name: "kept", Per: minutes(1), Amount: 1000, Burst: 200}, Level: 20, Next: &next},
			{Resource: admission.Resource{Name: "held", Concurrent: 2}, Limit: 2, Held: &held},
		},
		Tenants: []admission.TenantView{
			{TenantPolicy: admission.TenantPolicy{Name: "acme"}, Queued: 5, InFlight: 2, OldestAge: minutes(5), WaitingOn: admission.Capacity, Resource: "psp_calls",
				ByPriority: []admission.PriorityDepth{{Priority: admission.Normal, Queued: 4}, {Priority: admission.Critical, Queued: 1}}},
			{TenantPolicy: admission.TenantPolicy{Name: "globex"}, Queued: 2, OldestAge: minutes(9), WaitingOn: admission.TenantPaused,
				Pause: &admission.Pause{Dispatch: true}, ByPriority: []admission.PriorityDepth{{Priority: admission.Low, Queued: 2}}},
		},
		Gates:  []admission.GateView{{Operation: "charge_card", State: admission.BreakerOpen}},
		Doubts: []admission.DoubtView{{Operation: "charge_card", Tenant: "acme", Tasks: 2, Ceiling: 2, Since: start.Add(-time.Minute), Held: []admission.Cost{{Resource: "tokens", Amount: 7}}}},
		Leases: []admission.LeaseView{
			{Lease: admission.Lease{ID: "l-1", Granted: start.Add(-2 * time.Minute)}, Operation: "charge_card", Due: start.Add(-time.Second), Cost: []admission.Cost{{Resource: "psp_calls", Amount: 2}}},
			{Lease: admission.Lease{ID: "l-2", Granted: start.Add(-time.Minute)}, Operation: "gone", Due: start.Add(time.Minute), Grace: true},
		},
	}
}

// measured is a gateway whose time and budget the test sets.
type measured struct {
	*Gateway
	f     *fake
	now   time.Time
	view  admission.View
	err   error
	looks int
}

func newMeasured(view admission.View) *measured {
	m := &measured{now: start, view: view}
	m.f = &fake{query: func(string, []any) (any, error) {
		m.looks++
		return m.view, m.err
	}}
	m.Gateway = New(Options{Client: m.f, Operations: operations{}, Now: func() time.Time { return m.now },
		Policy: admission.Policy{Resources: []admission.Resource{{Name: "psp_calls", Concurrent: 8}}, Operations: []admission.OperationPolicy{{Name: "charge_card"}, {Name: "silent"}}}})
	return m
}

// read scrapes, and gives the samples: name and labels, and the value.
func (m *measured) read(t *testing.T) map[string]string {
	t.Helper()
	r := do(t, m.Gateway, "GET", "/metrics", "")
	require.Equal(t, 200, r.StatusCode)
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	samples := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			samples[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return samples
}

func TestMetricsShowTheBudget(t *testing.T) {
	got := newMeasured(busyView()).read(t)
	for sample, value := range map[string]string{
		`headgate_up`: "1",
		`headgate_queue_depth{priority="normal",tenant="acme"}`:                           "4",
		`headgate_queue_depth{priority="critical",tenant="acme"}`:                         "1",
		`headgate_queue_depth{priority="low",tenant="globex"}`:                            "2",
		`headgate_queue_soft_limit`:                                                       "80",
		`headgate_queue_oldest_age_seconds`:                                               "300",
		`headgate_tenant_oldest_age_seconds{tenant="globex"}`:                             "540",
		`headgate_tenant_in_flight{tenant="acme"}`:                                        "2",
		`headgate_tenants_paused{what="dispatch"}`:                                        "1",
		`headgate_tenants_paused{what="admission"}`:                                       "0",
		`headgate_waiting_tasks{resource="psp_calls",waiting_on="capacity"}`:              "5",
		`headgate_waiting_oldest_age_seconds{resource="psp_calls",waiting_on="capacity"}`: "300",
		`headgate_waiting_oldest_age_seconds{resource="",waiting_on="tenant_paused"}`:     "540",
		`headgate_leases`:         "2",
		`headgate_leases_overdue`: "1",
		`headgate_leases_grace`:   "1",
		`headgate_lease_oldest_age_seconds{operation="charge_card"}`:            "120",
		`headgate_lease_oldest_age_seconds{operation="other"}`:                  "60",
		`headgate_resource_limit{resource="psp_calls"}`:                         "4",
		`headgate_resource_declared_limit{resource="psp_calls"}`:                "8",
		`headgate_resource_used{resource="psp_calls"}`:                          "3",
		`headgate_resource_available{resource="psp_calls"}`:                     "3", // one that is free, two of an overdue lease
		`headgate_resource_level{resource="tokens"}`:                            "150",
		`headgate_resource_reserved{resource="tokens"}`:                         "40",
		`headgate_resource_available{resource="tokens"}`:                        "150",
		`headgate_resource_available{resource="kept"}`:                          "0", // for the first one, which needs more
		`headgate_resource_available{resource="held"}`:                          "0",
		`headgate_resource_hold_seconds{resource="held"}`:                       "30",
		`headgate_operation_gate{operation="charge_card",state="breaker_open"}`: "1",
		`headgate_operation_gate{operation="charge_card",state="open"}`:         "0",
		`headgate_operation_gate{operation="silent",state="open"}`:              "1",
		`headgate_unknown_tasks{operation="charge_card"}`:                       "2",
		`headgate_unknown_oldest_age_seconds{operation="charge_card"}`:          "60",
		`headgate_unknown_ceilings_reached{operation="charge_card"}`:            "1",
		`headgate_unknown_held{resource="tokens"}`:                              "7",
	} {
		assert.Equal(t, value, got[sample], sample)
	}
}

// However many scrape, the budget is asked once in five seconds, and not at all
// while nobody does.
func TestScrapesShareOneLook(t *testing.T) {
	m := newMeasured(busyView())
	require.Zero(t, m.looks)
	for range 50 {
		m.read(t)
		m.now = m.now.Add(100 * time.Millisecond)
	}
	require.Equal(t, 1, m.looks)
	m.read(t)
	require.Equal(t, 2, m.looks)

	// Nor more often when it does not answer.
	m.err = errors.New("no worker answers")
	m.now = m.now.Add(lookEvery)
	for range 50 {
		require.Equal(t, "0", m.read(t)["headgate_up"])
	}
	require.Equal(t, 3, m.looks)
}

func TestMetricsOfABudgetThatIsAway(t *testing.T) {
	m := newMeasured(busyView())
	m.err = errors.New("no worker answers")
	got := m.read(t)
	require.Equal(t, "0", got["headgate_up"])
	require.NotContains(t, got, "headgate_leases", "what was never seen is not shown")

	m.err = nil
	m.now = start.Add(lookEvery)
	require.Equal(t, "1", m.read(t)["headgate_up"])

	// It goes away: what was seen is shown, and grows old.
	m.err = errors.New("no worker answers")
	m.now = m.now.Add(10 * time.Minute)
	got = m.read(t)
	assert.Equal(t, "0", got["headgate_up"])
	assert.Equal(t, "600", got["headgate_look_age_seconds"])
	assert.Equal(t, "900", got["headgate_queue_oldest_age_seconds"])
	assert.Equal(t, "2", got["headgate_leases_overdue"])
	assert.Equal(t, "0", got[`headgate_resource_hold_seconds{resource="held"}`])
}

// A thousand tenants are twenty and the rest, and nothing of the sum is lost.
func TestMetricsAreBounded(t *testing.T) {
	var view admission.View
	sum := 0
	for i := range 1000 {
		n := 1 + (i*7919)%1000
		sum += n
		view.Tenants = append(view.Tenants, admission.TenantView{TenantPolicy: admission.TenantPolicy{Name: fmt.Sprintf("tenant-%d", i)}, Queued: n, InFlight: 1,
			WaitingOn: admission.Capacity, Resource: "psp_calls", ByPriority: []admission.PriorityDepth{{Priority: admission.High, Queued: n}}})
		view.Leases = append(view.Leases, admission.LeaseView{Operation: fmt.Sprintf("gone-%d", i)})
		view.Doubts = append(view.Doubts, admission.DoubtView{Operation: fmt.Sprintf("gone-%d", i), Tasks: 1, Since: start})
	}
	got := newMeasured(view).read(t)
	require.Equal(t, "1", got["headgate_up"])
	tenants, depth := map[string]bool{}, 0
	for sample, value := range got {
		if name, ok := strings.CutPrefix(sample, `headgate_queue_depth{priority="high",tenant="`); ok {
			tenants[name] = true
			var n int
			_, err := fmt.Sscan(value, &n)
			require.NoError(t, err)
			depth += n
		}
	}
	assert.Len(t, tenants, shownTenants+1)
	assert.True(t, tenants[`other"}`])
	assert.Equal(t, sum, depth)
	assert.Equal(t, "980", got[`headgate_tenant_in_flight{tenant="other"}`])
	assert.Equal(t, "1000", got[`headgate_unknown_tasks{operation="other"}`])
	assert.Less(t, len(got), 300, "series of a scrape")
}

func TestDecisionsAreCounted(t *testing.T) {
	m := newMeasured(busyView())
	send := func(key, body string) {
		do(t, m.Gateway, "POST", "/v1/tasks", body, "Idempotency-Key", key)
	}
	send("inv-42", body)                                     // queued
	send("inv-42", body)                                     // known
	send("inv-42", strings.Replace(body, "1200", "1300", 1)) // another payload
	send("inv-43", "{")
	m.f.update = func(o client.UpdateWorkflowOptions) (any, error) {
		return nil, temporal.NewNonRetryableApplicationError("refused", contract.RefusedError, nil,
			contract.AdmitReply{Verdicts: []admission.Verdict{{Action: admission.Reject, Reason: admission.QueueFull}}})
	}
	send("inv-44", body)
	m.f.update = func(client.UpdateWorkflowOptions) (any, error) { return nil, errors.New("no worker answers") }
	send("inv-45", strings.Replace(body, "acme", "globex", 1))
	got := m.read(t)
	for sample, value := range map[string]string{
		`decision="queue",reason="capacity"`:           "1",
		`decision="replay",reason="none"`:              "1",
		`decision="reject",reason="key_reused"`:        "1",
		`decision="reject",reason="invalid_request"`:   "1",
		`decision="reject",reason="queue_full"`:        "1",
		`decision="error",reason="budget_unavailable"`: "1",
	} {
		assert.Equal(t, value, got["headgate_admission_decisions_total{"+sample+"}"], sample)
	}
	assert.Equal(t, "2", got["headgate_admission_seconds_count"])
	assert.Equal(t, "2", got[`headgate_http_request_seconds_count{route="POST /v1/tasks",status="202"}`])
}
