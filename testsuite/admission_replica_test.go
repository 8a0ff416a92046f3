package testsuite

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"headgate/config"
	"headgate/contract"
	"headgate/starter/gateway"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
	"headgate/workers"
)

// runWorker runs effects in this process until ctx ends.
func runWorker(ctx context.Context, c client.Client, loaded *config.Config, slots int) error {
	return workers.Run(ctx, workers.Options{Client: c, Config: loaded, Roles: []string{"http"}, Log: zap.NewNop(), Slots: slots, StopTimeout: 10 * time.Second})
}

// testGatewayClock (P35): gateways side by side, one an hour ahead, one an hour
// behind. Their clocks decide nothing: a key is accepted once, and its effect is
// made once, whichever gateway is asked and however often.
func testGatewayClock(ctx context.Context, t *testing.T, h *house) {
	const tenant = "p35"
	loaded, err := config.Load(configuration(h.World))
	require.NoError(t, err)
	doors := []*drill.Door{h.Door}
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		g := gateway.New(gateway.Options{Client: h.temporal, Operations: loaded, Now: func() time.Time { return time.Now().Add(off) }})
		server := httptest.NewServer(g.Handler())
		defer server.Close()
		doors = append(doors, &drill.Door{URL: server.URL, HTTP: h.Door.HTTP})
	}
	ask := func(d *drill.Door, key string) drill.Answer {
		answer, err := d.Submit(ctx, key, contract.SubmitRequest{Tenant: tenant, Operation: "charge", Payload: charge(tenant, key)})
		require.NoError(t, err)
		return answer
	}
	for i, key := range []string{"right-first", "ahead-first", "behind-first"} {
		first := ask(doors[i], key)
		if first.Status != http.StatusAccepted { // it may give up, if it stores nothing
			require.Equal(t, []any{http.StatusServiceUnavailable, contract.DeliveryRejected}, []any{first.Status, first.Problem.DeliveryState}, first.Problem.Detail)
			require.NotEmpty(t, first.RetryAfter)
			requireNoTask(ctx, t, h.temporal, contract.TaskID(tenant, key))
			t.Logf("%s: %s", key, first.Problem.Detail)
		}
		for range 2 {
			for _, d := range doors {
				if got := ask(d, key); got.Status != http.StatusAccepted {
					require.Equal(t, doors[1], d, "%d %s", got.Status, got.Problem.Detail)
				}
			}
		}
		h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
		h.once(ctx, t, tenant, key)
	}
}

// testTwoRunners (P31): a worker stands still for longer than its lease while the
// provider has its request; another sends it again under the same key. When the
// first goes on, its answer changes nothing.
func testTwoRunners(ctx context.Context, t *testing.T, h *house) {
	once := drill.Range{Least: 1, Most: 1}
	play(ctx, t, h.World, drill.Case{ID: "P31", Variant: "two runners", Title: "a worker loses its lease while the provider works", Zombie: true,
		Play: func(ctx context.Context, s *drill.Scene) error {
			worker, err := s.Dispatch(ctx, "k", "charge_keyed", provider.Hang)
			if err != nil {
				return err
			}
			if err := worker.Pause(ctx); err != nil {
				return err
			}
			if err := s.Until(ctx, "k", contract.PhaseSucceeded); err != nil {
				return err
			}
			before, err := s.Door.Task(ctx, s.Tenant, "k")
			if err != nil {
				return err
			}
			if err := s.Release(ctx, s.Tenant, "k"); err != nil {
				return err
			}
			if err := worker.Continue(); err != nil {
				return err
			}
			if err := s.Drained(ctx, worker); err != nil { // it has told the server, and has been told
				return err
			}
			after, err := s.Door.Task(ctx, s.Tenant, "k")
			if err != nil {
				return err
			}
			require.Equal(t, before.Task, after.Task)
			all, err := s.Provider.Effects(ctx, "*")
			require.Equal(t, 1+2, all.Effects, "also under no other key")
			return err
		},
		Ends: []drill.End{
			{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: drill.Range{Least: 2, Most: 2}, Attempts: drill.Range{Least: 2, Most: 6}, Retries: []string{"replayed"}},
			{Keys: []string{"proof1", "proof2"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: once},
		}})
}

// testStarvedWorker (P31): a worker gets its turn for an instant only, again and
// again, while the provider works and its lease runs out. Whoever ends the task,
// the effect is made once.
func testStarvedWorker(ctx context.Context, t *testing.T, h *house) {
	const tenant, still, turn = "p31", 700 * time.Millisecond, 20 * time.Millisecond
	key := contract.ProviderKey(tenant, "k")
	_, err := h.Provider.Inject(ctx, provider.Fault{Key: key, Kind: provider.Hang})
	require.NoError(t, err)
	h.Workers[1].Kill() // so that the starved one gets it
	h.accept(ctx, t, tenant, "k", "charge_keyed")
	require.NoError(t, h.Provider.WaitFor(ctx, key, provider.Counts{Effects: 1}))
	require.NoError(t, h.Workers[1].Start(ctx))
	starving, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		tick := time.NewTicker(turn)
		defer tick.Stop()
		for n := 0; starving.Err() == nil; n++ {
			var err error
			switch n % int(still/turn) {
			case 0:
				err = h.Workers[0].Pause(ctx)
			case int(still/turn) - 1:
				err = h.Workers[0].Continue()
			}
			if err != nil {
				over <- err
				return
			}
			<-tick.C
		}
		over <- h.Workers[0].Continue()
	}()
	view := h.until(ctx, t, tenant, "k", contract.PhaseSucceeded)
	stop()
	require.NoError(t, <-over)
	_, err = h.Provider.Release(ctx, "*")
	require.NoError(t, err)
	h.idle(ctx, t)
	after := h.until(ctx, t, tenant, "k", contract.PhaseSucceeded)
	require.Equal(t, view.Attempts, after.Attempts)
	t.Logf("%d attempts, retries %+v", after.Attempts, after.Retries)
	h.once(ctx, t, tenant, "k")
	all, err := h.Provider.Effects(ctx, "*")
	require.NoError(t, err)
	require.Equal(t, 1, all.Effects, "also under no other key")
}
