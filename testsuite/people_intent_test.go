package testsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// testIntents has many agents ask for the same thing in other words, at once,
// again after every process was killed, and again after it failed.
func testIntents(ctx context.Context, t *testing.T, world *drill.World) {
	const many = 8
	play(ctx, t, world, drill.Case{ID: "intent", Title: "one intent is one effect", Play: func(ctx context.Context, s *drill.Scene) error {
		intend := func(tenant, key, intent, same string) drill.Answer {
			answer, err := s.Door.Submit(ctx, key, contract.SubmitRequest{Tenant: tenant, Operation: "charge", Intent: intent, SameIntent: same,
				Payload: json.RawMessage(fmt.Sprintf(`{"amount":1200,"key":%q,"tenant":%q,"words":%q}`, contract.ProviderKey(tenant, key), tenant, key))})
			require.NoError(t, err)
			return answer
		}
		// 1. At once: one is taken, the others learn which, now or when they ask again.
		answers := make([]drill.Answer, many)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = intend("intents", fmt.Sprintf("k%d", i), "order-7/refund", "") })
		}
		all.Wait()
		winner := ""
		for _, a := range answers {
			if a.Status == http.StatusAccepted {
				require.Empty(t, winner, "two were taken")
				winner = a.Task.Key
			}
		}
		require.NotEmpty(t, winner)
		met := func(key string) {
			if key == winner {
				return
			}
			a := intend("intents", key, "order-7/refund", "")
			require.Equal(t, []any{http.StatusConflict, "same_intent"}, []any{a.Status, a.Problem.Reason}, a.Problem.Detail)
			require.Equal(t, winner, a.Problem.Task.Key)
			require.NotEmpty(t, a.Problem.NextAction)
		}
		for i := range many {
			met(fmt.Sprintf("k%d", i))
		}
		// 2. The note outlives every process, and the task.
		restart(ctx, t, world.Server)
		restart(ctx, t, world.Control, world.Gateway)
		done, err := send(ctx, world, http.MethodGet, "/v1/tasks/intents/"+winner+"?wait=30s", nil, nil)
		require.NoError(t, err)
		require.Equal(t, contract.PhaseSucceeded, done.view(t).Phase)
		met("k-late")
		back := intend("intents", "k-back", "order-7/refund", contract.SameReturn)
		require.Equal(t, []any{http.StatusAccepted, winner, true, contract.NextUseResult}, []any{back.Status, back.Task.Key, back.Task.SameIntent, back.Task.NextAction})
		effects := 0
		for _, key := range []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k-late", "k-back"} {
			counts, err := s.Provider.Effects(ctx, contract.ProviderKey("intents", key))
			require.NoError(t, err)
			effects += counts.Effects
		}
		require.Equal(t, 1, effects)
		// 3. What had no effect is no reason to refuse another.
		require.NoError(t, s.FaultAs(ctx, "intents", "f1", provider.Fault{Kind: provider.Status, Status: 400}))
		require.Equal(t, http.StatusAccepted, intend("intents", "f1", "order-8/refund", "").Status)
		failed, err := send(ctx, world, http.MethodGet, "/v1/tasks/intents/f1?wait=30s", nil, nil)
		require.NoError(t, err)
		require.Equal(t, contract.PhaseFailed, failed.view(t).Phase)
		require.Equal(t, http.StatusAccepted, intend("intents", "f2", "order-8/refund", "").Status)
		again, err := send(ctx, world, http.MethodGet, "/v1/tasks/intents/f2?wait=30s", nil, nil)
		require.NoError(t, err)
		require.Equal(t, contract.PhaseSucceeded, again.view(t).Phase)
		return nil
	}})
}

// testDecisions sends one decision many times, and many decisions at one doubt.
func testDecisions(ctx context.Context, t *testing.T, world *drill.World) {
	play(ctx, t, world, drill.Case{ID: "decide", Title: "one decision is one attempt", Play: func(ctx context.Context, s *drill.Scene) error {
		_, err := s.Dispatch(ctx, "doubt", "charge", provider.Hang)
		require.NoError(t, err)
		require.NoError(t, s.Until(ctx, "doubt", contract.PhaseUnknown))
		answer, err := s.Door.Task(ctx, s.Tenant, "doubt")
		require.NoError(t, err)
		require.NotEmpty(t, answer.Task.NextStep)
		stand := answer.Task.Reconciliation
		cancel, err := send(ctx, world, http.MethodPost, "/v1/tasks/"+s.Tenant+"/doubt/cancel", nil, nil)
		require.NoError(t, err)
		p := cancel.problem(t)
		require.Equal(t, []any{"already_dispatched", contract.NextAskHuman}, []any{p.Reason, p.NextAction})

		word := contract.Resolution{ID: "d-1", Actor: "mara", Outcome: contract.Happened, Evidence: "the provider's ledger has it", Version: stand.Version}
		others := word
		others.ID, others.Actor, others.Evidence = "d-2", "tom", "the provider told me"
		ask := func(w contract.Resolution) drill.Answer {
			answer, err := s.Door.Resolve(ctx, s.Tenant, "doubt", w)
			require.NoError(t, err)
			return answer
		}
		var all sync.WaitGroup
		answers := make([]drill.Answer, 6)
		for i := range answers {
			all.Go(func() {
				if i%2 == 0 {
					answers[i] = ask(word)
				} else {
					answers[i] = ask(others)
				}
			})
		}
		all.Wait()
		first := answers[0].Status == http.StatusOK
		for i, a := range answers {
			want := http.StatusConflict
			if (i%2 == 0) == first {
				want = http.StatusOK
			}
			require.Equal(t, want, a.Status, "%d: %s %s", i, a.Problem.Reason, a.Problem.Detail)
		}
		won := word
		if !first {
			won = others
		}
		if err := s.Until(ctx, "doubt", contract.PhaseSucceeded); err != nil {
			return err
		}
		require.Equal(t, http.StatusOK, ask(won).Status, "after the end, too")
		reworded := won
		reworded.Evidence = "somebody said so"
		a := ask(reworded)
		require.Equal(t, []any{http.StatusUnprocessableEntity, "decision_reused"}, []any{a.Status, a.Problem.Reason})
		_, err = s.Provider.Release(ctx, "*")
		return err
	}, Ends: []drill.End{{Keys: []string{"doubt"}, Phase: contract.PhaseSucceeded, Effects: 1}}})
}
