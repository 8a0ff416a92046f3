package testsuite

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

const alertDeclaration = `
budget:
  resources:
    provider_calls: {concurrent: 2}
    other_calls: {concurrent: 2}
  queue: {soft: 50, hard: 60}
network: {private: "127.0.0.0/8"}
tenants:
  default: {weight: 1, max_in_flight: 4, max_queued: 40}
operations:
  charge:
    type: http
    request: {method: POST, url: "http://provider.invalid/charges"}
    cost: {provider_calls: 1}
    timeout: 5s
    heartbeat: 2s
    retry: {max_attempts: 8, base: 200ms, max: 1s, max_age: 5m}
    replay: {class: safe}
`

// watched is a world whose processes are scraped.
type watched struct {
	*drill.World
	workers []string // addresses of the metrics of workers
}

func newWatched(ctx context.Context, t *testing.T) *watched {
	t.Helper()
	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	world, err := drill.NewWorldOf(ctx, t.TempDir(), binaries, drill.Layout{Declaration: alertDeclaration, Gateways: 1, Controls: 1, Workers: 1, Slots: 2})
	require.NoError(t, err)
	t.Cleanup(world.Close)
	// The workers give way to such as show their metrics.
	kill(world.Control, world.Workers[0])
	w := &watched{World: world}
	ports, err := drill.FreePorts(2)
	require.NoError(t, err)
	for i, role := range []string{"control", "http"} {
		address := "127.0.0.1:" + ports[i]
		_, err = world.AddWorker(ctx, "watched-"+role, role, "--metrics", address)
		require.NoError(t, err)
		w.workers = append(w.workers, address)
	}
	return w
}

func scrape(ctx context.Context, t *testing.T, url string) []sample {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", text)
	return scraped(t, string(text))
}

// stuck is the expression of the first alert, which waits for some seconds where
// the rule waits for ten minutes.
func stuck(t *testing.T, seconds int) string {
	t.Helper()
	expr := rulesOf(t, "headgate.alerts.yml")[0].Expr
	require.Equal(t, 3, strings.Count(expr, "> 600"))
	return strings.ReplaceAll(expr, "> 600", fmt.Sprintf("> %d", seconds))
}

// holds evaluates an expression, and gives the value of a resource label for each
// thing that it holds for.
func holds(t *testing.T, expr string, all []sample) (resources []string) {
	t.Helper()
	result, err := evaluate(expr, all)
	require.NoError(t, err)
	for _, s := range result {
		resources = append(resources, s.labels[contract.ResourceLabel])
	}
	return resources
}

func valueOf(t *testing.T, expr string, all []sample) float64 {
	t.Helper()
	result, err := evaluate("max("+expr+")", all)
	require.NoError(t, err)
	if len(result) == 0 {
		return -1
	}
	return result[0].value
}

// The first alert holds when all workers are stopped with leases in hand, and not
// for a paused tenant or a budget that is full.
func TestStuckAlert(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w := newWatched(ctx, t)
	submit := func(tenant, key string) {
		answer, err := w.Door.Submit(ctx, key, contract.SubmitRequest{Tenant: tenant, Operation: "charge", Payload: charge(tenant, key)})
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, answer.Status)
	}
	const after = 3
	alert := stuck(t, after)

	// Work that runs is told by the workers, under the names that are documented.
	submit("acme", "k0")
	answer, err := w.Door.Await(ctx, "acme", "k0", 20*time.Second)
	require.NoError(t, err)
	require.Equal(t, contract.PhaseSucceeded, answer.Task.Phase)
	eventually(ctx, t, "the workers have told of it", func() bool {
		control, effects := scrape(ctx, t, "http://"+w.workers[0]), scrape(ctx, t, "http://"+w.workers[1])
		return valueOf(t, `headgate_tasks_ended_total{phase="succeeded",operation="charge"}`, control) == 1 &&
			valueOf(t, `headgate_task_start_seconds_count{operation="charge",priority="normal"}`, control) == 1 &&
			valueOf(t, `headgate_task_confirm_seconds_count{operation="charge"}`, control) == 1 &&
			valueOf(t, `headgate_attempts_total{operation="charge",class="succeeded"}`, effects) == 1 &&
			valueOf(t, `headgate_effect_seconds_count{operation="charge"}`, effects) == 1 &&
			valueOf(t, `temporal_worker_task_slots_available{worker_type="ActivityWorker"}`, effects) > 0 &&
			valueOf(t, `temporal_activity_schedule_to_start_latency_seconds_count`, effects) > 0
	})

	// A paused tenant: its tasks grow old beside free capacity.
	require.NoError(t, w.Door.Pause(ctx, "paused", "to look"))
	submit("paused", "k1")
	eventually(ctx, t, "the paused tenant's task is old", func() bool {
		all := scrape(ctx, t, w.Door.URL)
		require.Empty(t, holds(t, alert, all), "nothing is stuck while a tenant is paused")
		return valueOf(t, `headgate_tenant_oldest_age_seconds{tenant="paused"}`, all) > after+2
	})

	// A full budget is none either: the provider is slow, the others wait.
	_, err = w.Provider.Inject(ctx, provider.Fault{Key: "*", Kind: provider.HangBefore, Times: -1})
	require.NoError(t, err)
	for i := range 6 {
		submit("acme", fmt.Sprintf("full-%d", i))
	}
	var all []sample
	eventually(ctx, t, "the budget is seen to be full", func() bool {
		all = scrape(ctx, t, w.Door.URL)
		require.Empty(t, holds(t, alert, all), "nothing is stuck while leases are in their time")
		return valueOf(t, `headgate_leases`, all) == 2 && valueOf(t, `headgate_waiting_tasks{waiting_on="capacity",resource="provider_calls"}`, all) >= 4
	})
	require.Zero(t, valueOf(t, `headgate_resource_available{resource="provider_calls"}`, all))

	// Everybody who works is gone, with the leases.
	kill(slices.Concat(w.Controls, w.Workers)...)
	eventually(ctx, t, "the alert holds", func() bool {
		all = scrape(ctx, t, w.Door.URL)
		return len(holds(t, alert, all)) > 0
	})
	require.Equal(t, []string{"provider_calls"}, holds(t, alert, all))
	require.Zero(t, valueOf(t, `headgate_up`, all), "and it is told that nobody looks")
	require.Positive(t, valueOf(t, `headgate_leases_overdue`, all))

	// They come back, and it is over.
	for _, p := range w.Workers[1:] {
		require.NoError(t, p.Start(ctx))
	}
	_, err = w.Provider.ClearFaults(ctx)
	require.NoError(t, err)
	_, err = w.Provider.Release(ctx, "*")
	require.NoError(t, err)
	eventually(ctx, t, "nothing is stuck any more", func() bool {
		all = scrape(ctx, t, w.Door.URL)
		return valueOf(t, `headgate_up`, all) == 1 && len(holds(t, alert, all)) == 0
	})
}
