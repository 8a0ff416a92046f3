package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
)

func rejectFor(reason admission.Reason) admission.Verdict {
	return admission.Verdict{Action: admission.Reject, Reason: reason, Detail: "because so", RetryAfter: admission.Duration(10 * time.Second)}
}

// A refusal counts for those that the budget would refuse as well, and for nobody
// else.
func TestMemoryScope(t *testing.T) {
	const low, normal, high, critical = admission.Low, admission.Normal, admission.High, admission.Critical
	all := []admission.Priority{low, normal, high, critical}
	ask := func(tenant, agent, operation string, p admission.Priority) admission.Request {
		return admission.Request{Task: "task/" + tenant, Attempt: 1, Tenant: tenant, Agent: agent, Operation: operation, Priority: p}
	}
	for _, c := range []struct {
		reason                   admission.Reason
		of                       admission.Priority // the one that was refused, of acme, agent a, charge
		tenant, agent, operation bool               // others are refused as well
		priorities               []admission.Priority
	}{
		{admission.TenantClosed, normal, false, true, true, all},
		{admission.DownstreamUnavailable, normal, true, true, false, all[:3]},
		{admission.TenantLimit, normal, false, true, false, all},
		{admission.AgentLimit, normal, false, false, false, all},
		{admission.StaleBacklog, normal, false, true, false, all[:3]},
		{admission.QueueFull, low, false, true, false, all[:3]},
		{admission.QueueFull, critical, false, true, false, all[3:]},
		{admission.OverShare, low, false, true, false, all[:1]},
		{admission.OverShare, high, false, true, false, all[1:3]},
		// About one request alone.
		{admission.DeadlineUnattainable, normal, false, false, false, nil},
		{admission.Expired, normal, false, false, false, nil},
		{admission.KeyReused, normal, false, false, false, nil},
		{admission.CostAboveLimit, normal, false, false, false, nil},
		{admission.UnknownResource, normal, false, false, false, nil},
	} {
		t.Run(fmt.Sprintf("%s of %s", c.reason, c.of), func(t *testing.T) {
			var m memory
			m.learn(start, ask("acme", "a", "charge", c.of), rejectFor(c.reason))
			refused := func(r admission.Request) bool { return m.find(start, r) != nil }
			var priorities []admission.Priority
			for _, p := range all {
				if refused(ask("acme", "a", "charge", p)) {
					priorities = append(priorities, p)
				}
			}
			assert.Equal(t, c.priorities, priorities)
			if len(priorities) == 0 {
				return
			}
			p := priorities[0]
			assert.Equal(t, c.tenant, refused(ask("globex", "a", "charge", p)), "another tenant")
			assert.Equal(t, c.agent, refused(ask("acme", "b", "charge", p)), "another agent")
			assert.Equal(t, c.agent, refused(ask("acme", "", "charge", p)), "no agent")
			assert.Equal(t, c.operation, refused(ask("acme", "a", "notify", p)), "another operation")
		})
	}
}

// A refusal of work without an agent is not one of all agents.
func TestMemoryOfNoAgent(t *testing.T) {
	var m memory
	m.learn(start, admission.Request{Tenant: "acme", Operation: "charge"}, rejectFor(admission.AgentLimit))
	assert.NotNil(t, m.find(start, admission.Request{Tenant: "acme", Operation: "charge"}))
	assert.Nil(t, m.find(start, admission.Request{Tenant: "acme", Agent: "a", Operation: "charge"}))
}

func TestMemoryEnds(t *testing.T) {
	r := admission.Request{Tenant: "acme", Operation: "charge"}
	at := func(d time.Duration) time.Time { return start.Add(d) }
	t.Run("by time", func(t *testing.T) {
		var m memory
		m.learn(start, r, rejectFor(admission.QueueFull))
		assert.NotNil(t, m.find(at(memoryTime-1), r))
		assert.Nil(t, m.find(at(memoryTime), r))
	})
	t.Run("with Retry-After", func(t *testing.T) {
		var m memory
		v := rejectFor(admission.QueueFull)
		v.RetryAfter = admission.Duration(100 * time.Millisecond)
		m.learn(start, r, v)
		assert.NotNil(t, m.find(at(100*time.Millisecond-1), r))
		assert.Nil(t, m.find(at(100*time.Millisecond), r))
	})
	t.Run("without Retry-After", func(t *testing.T) {
		var m memory
		m.learn(start, r, admission.Verdict{Action: admission.Reject, Reason: admission.TenantClosed})
		v, told := m.recall(at(1), r)
		assert.True(t, told)
		assert.Zero(t, v.RetryAfter)
		assert.Nil(t, m.find(at(memoryTime), r))
	})
	t.Run("when one of its kind is accepted", func(t *testing.T) {
		var m memory
		m.learn(start, r, rejectFor(admission.QueueFull))
		other := r
		other.Operation = "notify"
		m.learn(start, other, admission.Verdict{Action: admission.Queue})
		assert.NotNil(t, m.find(start, r), "another kind")
		m.learn(start, r, admission.Verdict{Action: admission.Queue})
		assert.Nil(t, m.find(start, r))
	})
	t.Run("for a deadline that has passed", func(t *testing.T) {
		var m memory
		m.learn(start, r, rejectFor(admission.QueueFull))
		late, past := r, start
		late.Deadline = &past
		assert.Nil(t, m.find(start, late))
	})
}

// Before it ends, one request asks the budget again; the others do not wait for it.
func TestMemoryIsRefreshedByOne(t *testing.T) {
	var m memory
	r := admission.Request{Tenant: "acme", Operation: "charge"}
	m.learn(start, r, rejectFor(admission.QueueFull))
	told := func(after time.Duration) bool { _, ok := m.recall(start.Add(after), r); return ok }
	assert.True(t, told(refreshTime-1))
	assert.False(t, told(refreshTime), "it asks")
	assert.True(t, told(refreshTime))
	m.learn(start.Add(refreshTime), r, rejectFor(admission.QueueFull))
	assert.True(t, told(2*refreshTime-1), "it was told no")
	assert.False(t, told(2*refreshTime), "the next one asks")
}

func TestMemorySpreadsRetryAfter(t *testing.T) {
	var m memory
	r := admission.Request{Tenant: "acme", Operation: "charge"}
	m.learn(start, r, rejectFor(admission.QueueFull))
	seen := map[admission.Duration]bool{}
	for range 50 {
		v, told := m.recall(start, r)
		require.True(t, told)
		assert.Equal(t, "because so", v.Detail)
		assert.GreaterOrEqual(t, v.RetryAfter, admission.Duration(10*time.Second), "never sooner")
		assert.LessOrEqual(t, v.RetryAfter, admission.Duration(12*time.Second))
		seen[v.RetryAfter] = true
	}
	assert.Greater(t, len(seen), 10, "not all at one time")
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	for i := range 2*maxRemembered + 1 {
		m.learn(start, admission.Request{Tenant: fmt.Sprint(i), Operation: "charge"}, rejectFor(admission.QueueFull))
		require.LessOrEqual(t, len(m.said), maxRemembered)
	}
}
