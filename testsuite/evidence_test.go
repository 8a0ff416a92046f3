package testsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

const callbackSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestEvidence finds out about effects in the ways that a real provider has:
// its callback, a cancel, a verification, and look-ups that prove less, or cost
// something.
func TestEvidence(t *testing.T) {
	t.Setenv("PSP_WEBHOOK_SECRET", callbackSecret)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	world := newWorld(ctx, t)
	declare(ctx, t, world, "", evidenceOperations)
	for _, c := range []drill.Case{callbackCase(t), cancelCase(t), tooLateCase(t), verifyCase(t), unknownLagCase(t), leasedProbeCase(t)} {
		t.Run(c.ID, func(t *testing.T) { play(ctx, t, world, c) })
	}
}

const evidenceOperations = `
  charge_called:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 60s
    heartbeat: 2s
    replay: {class: never}
    probe:
      callback:
        secret: {env: PSP_WEBHOOK_SECRET}
        tenant: "body.tenant"
        request_key: "body.request"
        happened: "body.type == 'captured'"
        reference: "body.id"
        within: 1s
  charge_cancel:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 60s
    heartbeat: 2s
    replay: {class: never}
    probe:
      cancel: {method: POST, url: "PROVIDER/charges/cancel?key={key}", happened: "status == 409 && body.state == 'captured'", did_not_happen: "body.state == 'cancelled'", reference: "body.id"}
      settle: 200ms
      base: 200ms
      max: 1s
  charge_verify:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    replay: {class: safe}
    probe:
      lookup: {url: "PROVIDER/charges?key={key}", happened: "status == 200 && body.state == 'captured'", reference: "body.id"}
      verify: true
      settle: 100ms
      base: 200ms
      max: 1s
      attempts: 50
  charge_unknown_lag:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 60s
    heartbeat: 2s
    replay: {class: never}
    probe:
      lookup: {url: "PROVIDER/charges?key={key}", happened: "status == 200", did_not_happen: "status == 404"}
      settle: 100ms
      base: 100ms
      max: 200ms
      attempts: 3
    provider: {version: "1", lookup: {covers: all, consistent: true, lag: unknown}}
  charge_leased_probe:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 60s
    heartbeat: 2s
    replay: {class: never}
    probe:
      lookup: {url: "PROVIDER/charges?key={key}", happened: "status == 200", did_not_happen: "status == 404"}
      settle: 1s
      base: 200ms
      max: 1s
      cost: {provider_calls: 4}
`

// lose dispatches a task and kills its worker with the answer outstanding.
func lose(ctx context.Context, t *testing.T, s *drill.Scene, operation string, kind provider.Kind) {
	t.Helper()
	worker, err := s.Dispatch(ctx, "k", operation, kind)
	require.NoError(t, err)
	worker.Kill()
	require.NoError(t, worker.Start(ctx))
}

// callBack posts a callback, signed at a time with a secret.
func callBack(ctx context.Context, t *testing.T, world *drill.World, secret, id string, at time.Time, body any) reply {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	hook, err := webhooks.NewWebhook(secret)
	require.NoError(t, err)
	signature, err := hook.Sign(id, at, text)
	require.NoError(t, err)
	answer, err := send(ctx, world, http.MethodPost, "/v1/evidence?operation=charge_called", http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature}}, text)
	require.NoError(t, err)
	return answer
}

func callbackCase(t *testing.T) drill.Case {
	return drill.Case{
		ID: "callback", Title: "nobody saw the answer, nothing can be asked, and the provider calls back",
		Play: func(ctx context.Context, s *drill.Scene) error {
			lose(ctx, t, s, "charge_called", provider.Hang)
			require.NoError(t, s.Until(ctx, "k", contract.PhaseUnknown))
			body := map[string]string{"type": "captured", "tenant": s.Tenant, "request": "k", "id": "ch_from_callback"}

			require.Equal(t, "signature_invalid", callBack(ctx, t, s.World, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "m1", time.Now(), body).problem(t).Reason)
			require.Equal(t, "signature_stale", callBack(ctx, t, s.World, callbackSecret, "m1", time.Now().Add(-time.Hour), body).problem(t).Reason)
			other := map[string]string{"type": "captured", "tenant": s.Tenant, "request": "another"}
			require.Equal(t, "task_not_found", callBack(ctx, t, s.World, callbackSecret, "m1", time.Now(), other).problem(t).Reason)
			seen, err := s.Door.Task(ctx, s.Tenant, "k")
			require.NoError(t, err)
			require.Equal(t, contract.PhaseUnknown, seen.Task.Phase, "what is refused changes nothing")

			// With the control worker dead, the evidence is durable all the same.
			kill(s.Control)
			for range 2 {
				answer := callBack(ctx, t, s.World, callbackSecret, "m2", time.Now(), body)
				require.Equal(t, http.StatusAccepted, answer.status, "%s", answer.body)
			}
			require.NoError(t, s.Control.Start(ctx))
			require.NoError(t, s.Until(ctx, "k", contract.PhaseSucceeded))
			seen, err = s.Door.Task(ctx, s.Tenant, "k")
			require.NoError(t, err)
			require.Equal(t, "ch_from_callback", seen.Task.Reference)
			require.Len(t, seen.Task.Evidence, 1, "one id counts once")

			answer := callBack(ctx, t, s.World, callbackSecret, "m3", time.Now(), body)
			require.Equal(t, http.StatusOK, answer.status, "%s", answer.body)
			explained, err := send(ctx, s.World, http.MethodGet, "/v1/tasks/"+s.Tenant+"/k/explain", nil, nil)
			require.NoError(t, err)
			require.Contains(t, string(explained.body), "callback: happened")
			return nil
		},
		Ends: []drill.End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Attempts: drill.Range{Least: 1, Most: 1},
			Evidence: contract.EvidenceCallback, Through: []contract.Phase{contract.PhaseUnknown}}},
	}
}

// cancelCase has a zombie: the request arrives when its key is cancelled already.
func cancelCase(t *testing.T) drill.Case {
	return drill.Case{
		ID: "cancel", Title: "called off by its key before the provider acted", Zombie: true,
		Play: func(ctx context.Context, s *drill.Scene) error {
			lose(ctx, t, s, "charge_cancel", provider.Late)
			require.NoError(t, s.Until(ctx, "k", contract.PhaseFailed))
			require.NoError(t, s.Release(ctx, s.Tenant, "k"))
			return s.Seen(ctx, "k", provider.Counts{Finished: 1})
		},
		Ends: []drill.End{{Keys: []string{"k"}, Phase: contract.PhaseFailed, Reason: "cancelled_at_provider", Effects: 0, Evidence: contract.EvidenceCancel,
			Attempts: drill.Range{Least: 1, Most: 1}, Through: []contract.Phase{contract.PhaseReconciling}}},
	}
}

func tooLateCase(t *testing.T) drill.Case {
	return drill.Case{
		ID: "too-late", Title: "too late to be called off: the provider says that it happened",
		Play: func(ctx context.Context, s *drill.Scene) error {
			lose(ctx, t, s, "charge_cancel", provider.Hang)
			return s.Until(ctx, "k", contract.PhaseSucceeded)
		},
		Ends: []drill.End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Evidence: contract.EvidenceCancel, Attempts: drill.Range{Least: 1, Most: 1}}},
	}
}

func verifyCase(t *testing.T) drill.Case {
	return drill.Case{
		ID: "verify", Title: "accepted is no success until a look-up shows it",
		Play: func(ctx context.Context, s *drill.Scene) error {
			require.NoError(t, s.Provider.Configure(ctx, provider.Behaviour{LookupLag: provider.Duration(time.Second)}))
			defer func() { require.NoError(t, s.Provider.Configure(ctx, provider.Behaviour{})) }()
			require.NoError(t, s.Submit(ctx, "k", "charge_verify"))
			return s.Until(ctx, "k", contract.PhaseSucceeded)
		},
		Ends: []drill.End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: drill.Range{Least: 1, Most: 1}, Evidence: contract.EvidenceLookup,
			Through: []contract.Phase{contract.PhaseReconciling}}},
	}
}

// unknownLagCase: F3. The provider says "there is none" again and again, and
// nobody knows how long it may say so of an effect that it made.
func unknownLagCase(t *testing.T) drill.Case {
	return drill.Case{
		ID: "f3", Title: "not found, with an unknown lag, is no absence: a person decides",
		Play: func(ctx context.Context, s *drill.Scene) error {
			lose(ctx, t, s, "charge_unknown_lag", provider.HangBefore)
			require.NoError(t, s.Until(ctx, "k", contract.PhaseUnknown))
			require.NoError(t, s.Seen(ctx, "k", provider.Counts{Lookups: 3}))
			seen, err := s.Door.Task(ctx, s.Tenant, "k")
			require.NoError(t, err)
			require.Contains(t, seen.Task.Reconciliation.LastProbe.Detail, "lag_unknown")
			answer, err := s.Door.Resolve(ctx, s.Tenant, "k", contract.Resolution{ID: "seen-1", Actor: "operator", Outcome: contract.DidNotHappen,
				Evidence: "the provider's own ledger was read", Version: seen.Task.Reconciliation.Version})
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, answer.Status, fmt.Sprint(answer.Problem))
			return s.Until(ctx, "k", contract.PhaseSucceeded)
		},
		Ends: []drill.End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Attempts: drill.Range{Least: 2, Most: 2},
			Evidence: contract.EvidencePerson, Through: []contract.Phase{contract.PhaseUnknown}}},
	}
}

// leasedProbeCase takes all that a probe needs before it could be made.
func leasedProbeCase(t *testing.T) drill.Case {
	return drill.Case{
		ID: "leased-probe", Title: "a probe waits in the budget like anything else",
		Play: func(ctx context.Context, s *drill.Scene) error {
			lose(ctx, t, s, "charge_leased_probe", provider.Hang)
			// Dispatched after the kill, so that its worker is not the one that was lost.
			require.NoError(t, s.Fault(ctx, "held", provider.Fault{Kind: provider.HangBefore}))
			require.NoError(t, s.Submit(ctx, "held", "charge_slow"))
			require.NoError(t, s.Seen(ctx, "held", provider.Counts{Requests: 1}))
			eventually(ctx, t, "the probe waits in the budget", func() bool {
				view, err := s.Door.Queue(ctx)
				return err == nil && view.Depth == 1
			})
			counts, err := s.Provider.Effects(ctx, contract.ProviderKey(s.Tenant, "k"))
			require.NoError(t, err)
			require.Zero(t, counts.Lookups, "no probe without a lease")
			require.NoError(t, s.Release(ctx, s.Tenant, "held"))
			return s.Until(ctx, "k", contract.PhaseSucceeded)
		},
		Ends: []drill.End{
			{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Evidence: contract.EvidenceLookup},
			{Keys: []string{"held"}, Phase: contract.PhaseSucceeded, Effects: 1},
		},
	}
}
