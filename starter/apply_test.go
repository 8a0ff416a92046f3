package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/starter/gateway"
)

// limitsFile is a configuration with a few limits.
const limitsFile = `
budget:
  resources:
    calls: {concurrent: 4, adapt: {min: 1}}
    tokens: {per: 1m, amount: 100}
  queue: {hard: 100}
tenants:
  default: {max_queued: 10}
  acme: {weight: 3}
operations:
  charge:
    type: http
    request: {method: POST, url: "http://127.0.0.1:1/charges"}
    cost: {calls: 1}
    when_full: defer
`

func writeConfig(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// filePolicy is the policy of limitsFile.
func filePolicy(t *testing.T) admission.Policy {
	checked, err := loadConfig(writeConfig(t, limitsFile))
	require.NoError(t, err)
	return checked.Budget
}

func TestChanges(t *testing.T) {
	before := filePolicy(t)
	assert.Empty(t, changes(before, filePolicy(t)))

	after := filePolicy(t)
	after.Resources[0].Concurrent, after.Resources[0].Adapt = 8, nil
	after.Resources = append(after.Resources, admission.Resource{Name: "slots", Concurrent: 2})
	after.Queue.Hard = 200
	after.Default.MaxQueued = 20
	after.Tenants = nil
	after.Operations[0].WhenFull, after.Operations[0].Breaker.Failures = admission.WhenFullDropOldest, -1
	assert.Equal(t, []change{
		{"budget.queue.hard", "100", "200"},
		{"budget.resources.calls.adapt.min", "1", "-"},
		{"budget.resources.calls.concurrent", "4", "8"},
		{"budget.resources.slots.concurrent", "-", "2"},
		{"operations.charge.breaker.failures", "5", "-1"},
		{"operations.charge.when_full", "defer", "drop_oldest"},
		{"tenants.acme.max_queued", "10", "-"},
		{"tenants.acme.weight", "3", "-"},
		{"tenants.default.max_queued", "10", "20"},
	}, changes(before, after))
	back := changes(after, before)
	assert.Len(t, back, 9)
	assert.Equal(t, "budget.queue.hard: 200 -> 100", back[0].String())
}

// Policies that differ differ in a line: no field is left out.
func TestChangesCoverThePolicy(t *testing.T) {
	full := filePolicy(t)
	full.Queue.MaxAge, full.Queue.CriticalReserve = 1, 2
	full.Tenants[0].Agents = admission.AgentPolicy{MaxInFlight: 3, MaxQueued: 4}
	full.Tenants[0].MaxInFlight = 5
	text, err := json.Marshal(full)
	require.NoError(t, err)
	leaves := 0
	for v := range values(t, text) {
		if v != "name" {
			leaves++
		}
	}
	assert.Len(t, limits(full), leaves)
}

func TestApply(t *testing.T) {
	file, ours := writeConfig(t, limitsFile), filePolicy(t)
	running := filePolicy(t)
	running.Queue.Hard, running.Resources[0].Concurrent = 50, 2
	const get, put = "GET /v1/budget", "PUT /v1/budget"
	view := gateway.BudgetView{Policy: running, Digest: running.Digest(), File: running.Digest(), Same: true}
	done := contract.ConfigureReply{Before: running.Digest(), After: ours.Digest()}

	t.Run("dry run", func(t *testing.T) {
		g := newCannedGateway(t, map[string][]canned{get: {{200, view}}})
		got := command("", "apply", "-f", file, "--dry-run")
		require.Equal(t, exitDone, got.status, got.errors)
		assert.Contains(t, got.out, "LIMIT                              BEFORE  AFTER\n"+
			"budget.queue.hard                  50      100\n"+
			"budget.resources.calls.concurrent  2       4\n")
		assert.Contains(t, got.out, "Nothing has changed: the budget runs "+shortDigest(running.Digest()))
		assert.Len(t, g.requests, 1)
	})
	t.Run("for good", func(t *testing.T) {
		g := newCannedGateway(t, map[string][]canned{get: {{200, view}}, put: {{200, done}}})
		got := command("", "apply", "--config", file, "--actor", "joe")
		require.Equal(t, exitDone, got.status, got.errors)
		assert.Contains(t, got.out, "budget.queue.hard                  50      100\n")
		assert.Contains(t, got.out, "is in force: "+shortDigest(ours.Digest())+", before "+shortDigest(running.Digest()))
		assert.Contains(t, got.errors, "give it this file at its next start")
		require.Len(t, g.requests, 2)
		var order contract.ConfigureRequest
		require.NoError(t, json.Unmarshal([]byte(g.requests[1].body), &order))
		assert.Equal(t, contract.ConfigureRequest{Policy: ours, Actor: "joe"}, order)
	})
	t.Run("for programs", func(t *testing.T) {
		newCannedGateway(t, map[string][]canned{get: {{200, view}}, put: {{200, done}}})
		got := command("", "apply", "-f", file, "--json")
		require.Equal(t, exitDone, got.status)
		var a applied
		require.NoError(t, json.Unmarshal([]byte(got.out), &a))
		assert.Equal(t, applied{Before: done.Before, After: done.After, Applied: true, Changes: changes(running, ours)}, a)
	})
	t.Run("nothing to do", func(t *testing.T) {
		same := gateway.BudgetView{Policy: ours, Digest: ours.Digest(), File: ours.Digest(), Same: true}
		g := newCannedGateway(t, map[string][]canned{get: {{200, same}}})
		got := command("", "apply", "-f", file)
		require.Equal(t, exitDone, got.status)
		assert.Contains(t, got.out, "already ("+shortDigest(ours.Digest())+")")
		assert.Len(t, g.requests, 1, "no event for nothing")
	})
	t.Run("a file that is wrong", func(t *testing.T) {
		g := newCannedGateway(t, nil)
		got := command("", "apply", "-f", writeConfig(t, "budget: {queue: {hard: 0}}\n"))
		assert.Equal(t, exitUsage, got.status)
		assert.Empty(t, g.requests)
	})
	t.Run("no budget", func(t *testing.T) {
		newCannedGateway(t, map[string][]canned{get: {problem(503, "budget_unavailable", "retry_later", 5)}})
		assert.Equal(t, exitLater, command("", "apply", "-f", file).status)
	})
}
