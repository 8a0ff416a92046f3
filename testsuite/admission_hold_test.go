package testsuite

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// visit is one request as the provider saw it.
type visit struct {
	key          string
	at, finished time.Time
	status       int
}

// arrivals are all charge requests in their order.
func arrivals(ctx context.Context, t *testing.T, h *house) []visit {
	t.Helper()
	entries, err := h.Provider.Ledger(ctx, "*")
	require.NoError(t, err)
	var all []visit
	place := map[int64]int{}
	for _, e := range entries {
		switch {
		case e.On != provider.OnCharge:
		case e.Event == provider.EventRequest:
			place[e.Request] = len(all)
			all = append(all, visit{key: e.Key, at: e.Time})
		case e.Event == provider.EventFinish:
			v := &all[place[e.Request]]
			v.finished, v.status = e.Time, e.Status
		}
	}
	return all
}

// testSharedHold (P28): the provider answers 429 with a Retry-After of two seconds
// to ten slots. It stops all of them, one goes first after each pause, and when
// the provider is well again, so are they.
func testSharedHold(ctx context.Context, t *testing.T, h *house) {
	const slots, tasks, wish, probes = 10, 20, 2 * time.Second, 2
	stop := h.crew(ctx, t, slots)
	defer stop()
	h.configure(ctx, t, func(p *admission.Policy) { p.Queue.Soft, p.Queue.Hard = 100, 100 })
	defer h.configure(ctx, t, func(*admission.Policy) {})
	_, err := h.Provider.Inject(ctx, provider.Fault{Key: "*", Kind: provider.Status, Status: 429, RetryAfter: "2", Times: -1})
	require.NoError(t, err)
	views, errs := make([]drill.Answer, tasks), make([]error, tasks)
	tenant := func(i int) string { return fmt.Sprintf("p28-%d", i%slots) }
	key := func(i int) string { return fmt.Sprintf("k%d", i) }
	atOnce(tasks, func(i int) { views[i], errs[i] = h.ask(ctx, tenant(i), key(i), "charge_wide") })
	atFirst := map[string]bool{} // had their lease before anybody knew
	for i, v := range views {
		require.NoError(t, errs[i])
		require.Equal(t, http.StatusAccepted, v.Status, v.Problem.Detail)
		if v.Task.Phase == contract.PhaseLeased {
			atFirst[contract.ProviderKey(tenant(i), key(i))] = true
		}
	}
	require.NotEmpty(t, atFirst)
	require.NoError(t, h.Provider.WaitFor(ctx, "*", provider.Counts{Requests: len(atFirst) + probes}))
	view, err := h.Door.Queue(ctx)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(view.Gates, func(g admission.GateView) bool { return g.Operation == "charge_wide" }), "the hold shows: %+v", view.Gates)
	h.goOn(ctx, t)
	for i := range tasks {
		h.until(ctx, t, tenant(i), key(i), contract.PhaseSucceeded)
		h.once(ctx, t, tenant(i), key(i))
	}

	var firstRefusal time.Time
	var later []visit // but the first request of those that had their lease before
	known := map[string]bool{}
	refused := 0
	for _, v := range arrivals(ctx, t, h) {
		if v.status == 429 {
			refused++
			if firstRefusal.IsZero() || v.finished.Before(firstRefusal) {
				firstRefusal = v.finished
			}
		}
		if !known[v.key] && atFirst[v.key] {
			known[v.key] = true
			continue
		}
		later = append(later, v)
	}
	require.GreaterOrEqual(t, later[0].at.Sub(firstRefusal), wish, "nothing goes before the pause is over")
	i := 1
	for ; i < len(later) && later[i-1].status == 429; i++ {
		require.GreaterOrEqual(t, later[i].at.Sub(later[i-1].at), wish, "one goes first, and its refusal is another pause")
	}
	for ; i < len(later); i++ {
		require.NotEqual(t, 429, later[i].status)
	}
	require.LessOrEqual(t, refused, slots+probes+1, "alone, each of %d tasks would have been refused", tasks)
}

// crew is one more worker, with so many slots, until stop is called.
func (h *house) crew(ctx context.Context, t *testing.T, slots int) (stop func()) {
	t.Helper()
	loaded, err := config.Load(configuration(h.World))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runWorker(ctx, h.temporal, loaded, slots) }()
	return func() {
		cancel()
		assert.NoError(t, <-ended)
	}
}
