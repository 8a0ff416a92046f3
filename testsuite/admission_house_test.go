package testsuite

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// house is a world with more limits and operations than the drill's.
type house struct {
	*drill.World
	temporal client.Client
}

const houseResources = `
    case_tokens: {per: 1h, amount: 3600, burst: 3600}
    case_messages: {per: 1s, amount: 1000, burst: 1000}
    wide_calls: {concurrent: 10}`

const houseTenants = `
  p26: {weight: 1, max_in_flight: 1, max_queued: 1}
`

const houseOperations = `
  # Two rules at once.
  charge_two:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1, case_messages: 1}
    timeout: 5s
    heartbeat: 2s
    replay: {class: never}
  # Its breaker opens soon, and never for long.
  charge_brittle:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1, case_tokens: 100}
    timeout: 5s
    heartbeat: 2s
    breaker: {failures: 2, open: 1s, max_open: 2s}
    retry: {max_attempts: 50, base: 100ms, max: 500ms, max_age: 5m}
    replay: {class: never}
  # As many at once as there are slots.
  charge_wide:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {wide_calls: 1}
    timeout: 10s
    heartbeat: 5s
    retry: {max_attempts: 50, base: 100ms, max: 200ms, max_age: 5m}
    replay: {class: never}
  # The payload says how many calls it takes.
  charge_as_told:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: "payload.calls"}
    timeout: 3s
    heartbeat: 2s
`

// newHouse starts a world. The flags are for its server.
func newHouse(ctx context.Context, t *testing.T, flags ...string) *house {
	t.Helper()
	h := &house{World: newWorld(ctx, t, flags...)}
	h.temporal = plain(t, h.World)
	text, err := os.ReadFile(configuration(h.World))
	require.NoError(t, err)
	const calls = "provider_calls: {concurrent: 4}"
	require.Contains(t, string(text), calls)
	require.NoError(t, os.WriteFile(configuration(h.World), []byte(strings.Replace(string(text), calls, calls+houseResources, 1)), 0o600))
	declare(ctx, t, h.World, houseTenants, houseOperations)
	return h
}

// ask submits a task, whose payload names it to the provider.
func (h *house) ask(ctx context.Context, tenant, key, operation string, change ...func(*contract.SubmitRequest)) (drill.Answer, error) {
	r := contract.SubmitRequest{Tenant: tenant, Operation: operation, Payload: charge(tenant, key)}
	for _, c := range change {
		c(&r)
	}
	return h.Door.Submit(ctx, key, r)
}

// accept is ask for a task that must be accepted.
func (h *house) accept(ctx context.Context, t *testing.T, tenant, key, operation string, change ...func(*contract.SubmitRequest)) contract.TaskView {
	t.Helper()
	answer, err := h.ask(ctx, tenant, key, operation, change...)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.Status, "%s/%s: %s %s", tenant, key, answer.Problem.Reason, answer.Problem.Detail)
	return answer.Task
}

// until waits until a task is in a phase; another end than that is a failure.
func (h *house) until(ctx context.Context, t *testing.T, tenant, key string, phase contract.Phase) (view contract.TaskView) {
	t.Helper()
	eventually(ctx, t, fmt.Sprintf("%s/%s is %s", tenant, key, phase), func() bool {
		answer, err := h.Door.Task(ctx, tenant, key)
		if err != nil || answer.Status != http.StatusOK {
			return false // its gateway may be busy, or dead on purpose
		}
		view = answer.Task
		if view.Phase != phase {
			require.False(t, view.Phase.End() && view.Phase != contract.PhaseUnknown, "%s/%s ended %s: %s %s", tenant, key, view.Phase, view.ErrorClass, view.Detail)
		}
		return view.Phase == phase
	})
	return view
}

// once checks that a task's effect was made once, however often it was asked for.
func (h *house) once(ctx context.Context, t *testing.T, tenant, key string) {
	t.Helper()
	counts, err := h.Provider.Effects(ctx, contract.ProviderKey(tenant, key))
	require.NoError(t, err)
	require.Equal(t, 1, counts.Effects, "%s/%s: %s", tenant, key, counts)
}

// idle waits until the budget holds nothing.
func (h *house) idle(ctx context.Context, t *testing.T) {
	t.Helper()
	var view admission.View
	defer func() {
		if view.InFlight+view.Depth > 0 {
			t.Logf("%d leases are out, %d tasks wait: %+v", view.InFlight, view.Depth, view.Leases)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	eventually(ctx, t, "every lease is back", func() bool {
		var err error
		view, err = h.Door.Queue(ctx)
		return err == nil && view.InFlight+view.Depth == 0
	})
}

// configure changes the limits that are in force, and leaves the file.
func (h *house) configure(ctx context.Context, t *testing.T, change func(p *admission.Policy)) {
	t.Helper()
	loaded, err := config.Load(configuration(h.World))
	require.NoError(t, err)
	p := loaded.Budget
	p.Resources = slices.Clone(p.Resources)
	change(&p)
	update, err := h.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: contract.BudgetID(contract.DefaultBudget),
		UpdateName: contract.ConfigureUpdate, Args: []any{contract.ConfigureRequest{Policy: p, Actor: "operator"}},
		WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	require.NoError(t, update.Get(ctx, nil))
}

// atOnce calls f n times, all released by one barrier.
func atOnce(n int, f func(i int)) {
	var ready, all sync.WaitGroup
	open := make(chan struct{})
	ready.Add(n)
	for i := range n {
		all.Go(func() {
			ready.Done()
			<-open
			f(i)
		})
	}
	ready.Wait()
	close(open)
	all.Wait()
}

// slowly makes every charge take so long.
func (h *house) slowly(ctx context.Context, t *testing.T, d time.Duration) {
	t.Helper()
	_, err := h.Provider.Inject(ctx, provider.Fault{Key: "*", Kind: provider.Slow, Delay: provider.Duration(d), Times: -1})
	require.NoError(t, err)
}

// hold makes the provider keep every charge in hand, before its effect, until go on.
func (h *house) hold(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := h.Provider.Inject(ctx, provider.Fault{Key: "*", Kind: provider.HangBefore, Times: -1})
	require.NoError(t, err)
}

func (h *house) goOn(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := h.Provider.ClearFaults(ctx)
	require.NoError(t, err)
	_, err = h.Provider.Release(ctx, "*")
	require.NoError(t, err)
}
