package testsuite

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// recordedTenants are, too.
const recordedTenants = `
  handover: {weight: 1, max_in_flight: 1, max_queued: 40}
`

// recordedOperations are added to those of the drill.
const recordedOperations = `
  # Look-ups that soon give way to a person.
  charge_blind:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    replay: {class: never}
    probe:
      lookup:
        url: "PROVIDER/charges?key={key}"
        happened: "status == 200 && body.state == 'captured'"
        did_not_happen: "status == 404"
      settle: 100ms
      timeout: 2s
      attempts: 2
      base: 200ms
      max: 1s
  # What may be sent again at any time.
  charge_safe:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    retry: {max_attempts: 3, base: 200ms, max: 1s, max_age: 5m}
    replay: {class: safe}
  # What can be listed.
  charge_listed:
    type: http
    request: {method: POST, url: "PROVIDER/charges", idempotency_header: Idempotency-Key}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    replay: {class: keyed, window: 1h}
    on_finding: freeze
    probe:
      lookup:
        url: "PROVIDER/charges?key={key}"
        happened: "status == 200 && body.state == 'captured'"
      list:
        url: "PROVIDER/charges?prefix=hg-recorded&limit=10&after={cursor}"
        keys: "body.charges.map(c, c.key)"
      settle: 100ms
      timeout: 2s
`

// scenes are what is recorded: the drill's cases where one has the path, and
// some more.
func scenes(t *testing.T) []scene {
	t.Helper()
	return []scene{
		pathScene(t),
		waitScene(t),
		pauseScene(t),
		handoverScene(t),
		freezeScene(t),
		auditScene(t),
		directScene(t),
		doubtScene(t),
		askedScene(t),
		evidenceScene(callbackCase(t), recording{"task/called-back", "task/callback/k", []string{markFirst, "effect", markChild, "unknown", "evidence", markSucceeded}},
			recording{"reconcile/called-back", "reconcile/callback/k/1", []string{markFirst, "evidence", markSucceeded}}),
		evidenceScene(cancelCase(t), recording{"task/called-off", "task/cancel/k", []string{markFirst, "effect", markChild, markFailed}},
			recording{"reconcile/called-off", "reconcile/cancel/k/1", []string{markFirst, "probe", markSucceeded}}),
		evidenceScene(verifyCase(t), recording{"task/verified", "task/verify/k", []string{markFirst, "effect", markChild, markSucceeded}},
			recording{"reconcile/verified", "reconcile/verify/k/1", []string{markFirst, "probe", "probe", markSucceeded}}),
		evidenceScene(leasedProbeCase(t), recording{"reconcile/leased-probe", "reconcile/leased-probe/k/1", []string{markFirst, "request", "decision", "probe", "report", markSucceeded}}),
		borrowed(t, "A2"), // its lapsed ticket has the budget inspect a holder
		borrowed(t, "A4",
			recording{"task/worker-lost-before-checkpoint", "task/a4/k", []string{markFirst, "effect", "report", "request", "decision", "effect", markSucceeded}}),
		borrowed(t, "A5 happened",
			recording{"task/reconciled-happened", "task/a5-happened/k", []string{markFirst, "effect", "report", markChild, markSucceeded}},
			recording{"reconcile/look-up-finds-it", "reconcile/a5-happened/k/1", []string{markFirst, "probe", markSucceeded}}),
		borrowed(t, "A5 did not",
			recording{"task/reconciled-did-not-happen", "task/a5-did-not/k", []string{markFirst, "effect", "report", markChild, "request", "decision", "effect", markSucceeded}},
			recording{"reconcile/look-ups-find-nothing", "reconcile/a5-did-not/k/1", []string{markFirst, "probe", "probe", markSucceeded}}),
		borrowed(t, "A6 happened",
			recording{"task/resolved-happened", "task/a6-happened/k", []string{markFirst, "effect", "report", markChild, "unknown", markSucceeded}},
			recording{"reconcile/person-says-happened", "reconcile/a6-happened/k/1", []string{markFirst, "resolve", markSucceeded}}),
		borrowed(t, "A6 did not",
			recording{"task/resolved-did-not-happen", "task/a6-did-not/k", []string{markFirst, "effect", markChild, "unknown", "request", "effect", markSucceeded}},
			recording{"reconcile/person-says-did-not-happen", "reconcile/a6-did-not/k/1", []string{markFirst, "resolve", markSucceeded}}),
		borrowed(t, "A7",
			recording{"task/keyed-replay", "task/a7/k", []string{markFirst, "effect", "report", markChild, "request", "decision", "effect", markSucceeded}},
			recording{"reconcile/keyed-replay", "reconcile/a7/k/1", []string{markFirst, markSucceeded}}),
		borrowed(t, "A9 beat",
			recording{"task/answer-in-the-last-beat", "task/a9-beat/k", []string{markFirst, "effect", "report", markSucceeded}}),
		borrowed(t, "A10 answer",
			recording{"task/late-answer", "task/a10-answer/k", []string{markFirst, "effect", "report", markChild, "unknown", "evidence", markSucceeded}},
			recording{"reconcile/late-answer", "reconcile/a10-answer/k/1", []string{markFirst, "evidence", markSucceeded}}),
	}
}

// evidenceScene is one of TestEvidence.
func evidenceScene(c drill.Case, records ...recording) scene { return scene{c, records} }

// pathScene has the paths of tasks whose worker lives.
func pathScene(t *testing.T) scene {
	once := drill.Range{Least: 1, Most: 1}
	return scene{
		Case: drill.Case{
			ID: "paths", Title: "at once, refused for a while, refused for good, cancelled before a worker has it",
			Play: func(ctx context.Context, s *drill.Scene) error {
				require.NoError(t, s.Submit(ctx, "at-once", "charge"))
				require.NoError(t, s.Until(ctx, "at-once", contract.PhaseSucceeded))

				require.NoError(t, s.Fault(ctx, "busy", provider.Fault{Kind: provider.Status, Status: 429, RetryAfter: "1"}))
				require.NoError(t, s.Submit(ctx, "busy", "charge"))
				require.NoError(t, s.Until(ctx, "busy", contract.PhaseSucceeded))

				require.NoError(t, s.Fault(ctx, "bad", provider.Fault{Kind: provider.Status, Status: 400}))
				require.NoError(t, s.Submit(ctx, "bad", "charge"))
				require.NoError(t, s.Until(ctx, "bad", contract.PhaseFailed))

				kill(s.Workers...)
				require.NoError(t, s.Submit(ctx, "leased", "charge"))
				require.NoError(t, s.Until(ctx, "leased", contract.PhaseLeased))
				order(ctx, t, s.World, "/v1/tasks/paths/leased/cancel", "")
				require.NoError(t, s.Until(ctx, "leased", contract.PhaseCancelled))
				return nil
			},
			Ends: []drill.End{
				{Keys: []string{"at-once"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: once, Attempts: once},
				{Keys: []string{"busy"}, Phase: contract.PhaseSucceeded, Effects: 1, Retries: []string{"rate_limited"}},
				{Keys: []string{"bad"}, Phase: contract.PhaseFailed, Requests: once, Attempts: once},
				{Keys: []string{"leased"}, Phase: contract.PhaseCancelled, Reason: "cancelled"},
			},
		},
		records: []recording{
			{"task/at-once", "task/paths/at-once", []string{markFirst, "effect", markSucceeded}},
			{"task/retried-after-429", "task/paths/busy", []string{markFirst, "effect", "request", "decision", "effect", markSucceeded}},
			{"task/failed", "task/paths/bad", []string{markFirst, "effect", markFailed}},
			{"task/cancelled-before-its-worker", "task/paths/leased", []string{markFirst, "effect", "report", markCancelled}},
		},
	}
}

// waitScene has the ways out of the queue.
func waitScene(t *testing.T) scene {
	keys := []string{"held1", "held2", "held3", "held4"}
	return scene{
		Case: drill.Case{
			ID: "waits", Title: "granted, cancelled and expired while waiting",
			Play: func(ctx context.Context, s *drill.Scene) error {
				for _, key := range keys {
					require.NoError(t, s.Fault(ctx, key, provider.Fault{Kind: provider.HangBefore}))
					require.NoError(t, s.Submit(ctx, key, "charge_slow"))
					require.NoError(t, s.Seen(ctx, key, provider.Counts{Requests: 1}))
				}
				for _, key := range []string{"granted", "cancelled"} {
					require.NoError(t, s.Submit(ctx, key, "charge"))
					require.NoError(t, s.Until(ctx, key, contract.PhaseAccepted))
				}
				deadline := time.Now().Add(2 * time.Second)
				answer, err := s.Door.Submit(ctx, "expired", contract.SubmitRequest{Tenant: s.Tenant, Operation: "charge", Deadline: &deadline, Payload: charge(s.Tenant, "expired")})
				require.NoError(t, err)
				require.Equal(t, http.StatusAccepted, answer.Status, answer.Problem.Detail)
				require.NoError(t, s.Submit(ctx, "expired", "charge"), "the same task again")
				order(ctx, t, s.World, "/v1/tasks/waits/cancelled/cancel", "")
				require.NoError(t, s.Until(ctx, "cancelled", contract.PhaseCancelled))
				require.NoError(t, s.Until(ctx, "expired", contract.PhaseExpired))
				_, err = s.Provider.Release(ctx, "*")
				require.NoError(t, err)
				for _, key := range append([]string{"granted"}, keys...) {
					require.NoError(t, s.Until(ctx, key, contract.PhaseSucceeded))
				}
				return nil
			},
			Ends: []drill.End{
				{Keys: append([]string{"granted"}, keys...), Phase: contract.PhaseSucceeded, Effects: 1},
				{Keys: []string{"cancelled"}, Phase: contract.PhaseCancelled},
				{Keys: []string{"expired"}, Phase: contract.PhaseExpired},
			},
		},
		records: []recording{
			{"task/queued-then-granted", "task/waits/granted", []string{markFirst, "decision", "effect", markSucceeded}},
			{"task/cancelled-while-waiting", "task/waits/cancelled", []string{markFirst, "report", markCancelled}},
			{"task/expired", "task/waits/expired", []string{markFirst, "decision", markFailed}},
		},
	}
}

// pauseScene pauses and resumes so often that one run of the budget sees both.
func pauseScene(t *testing.T) scene {
	keys := []string{"k1", "k2", "k3", "k4"}
	return scene{Case: drill.Case{
		ID: "pauses", Title: "paused and resumed",
		Play: func(ctx context.Context, s *drill.Scene) error {
			for _, key := range keys {
				require.NoError(t, s.Door.Pause(ctx, s.Tenant, "recorded"))
				require.NoError(t, s.Submit(ctx, key, "charge"))
				require.NoError(t, s.Door.Resume(ctx, s.Tenant))
				require.NoError(t, s.Until(ctx, key, contract.PhaseSucceeded))
			}
			return nil
		},
		Ends: []drill.End{{Keys: keys, Phase: contract.PhaseSucceeded, Effects: 1}},
	}}
}

// handoverScene hands one slot over from task to task, in the one worker that is
// left.
func handoverScene(t *testing.T) scene {
	const tenant = "handover" // one at a time, see recordedTenants
	keys := []string{"place1", "place2", "place3", "place4"}
	return scene{
		Case: drill.Case{
			ID: "handover", Title: "a slot passes from task to task",
			Play: func(ctx context.Context, s *drill.Scene) error {
				s.Workers[1].Kill()
				for _, key := range keys {
					require.NoError(t, s.FaultAs(ctx, tenant, key, provider.Fault{Kind: provider.Slow, Delay: provider.Duration(1500 * time.Millisecond)}))
				}
				for _, key := range keys {
					require.NoError(t, s.SubmitAs(ctx, tenant, key, "charge", admission.Normal))
				}
				for _, key := range keys {
					require.NoError(t, s.UntilAs(ctx, tenant, key, contract.PhaseSucceeded))
				}
				return nil
			},
			Ends: []drill.End{{Keys: keys, Phase: contract.PhaseSucceeded, Effects: 1}},
		},
		records: []recording{
			{"task/stood-by", contract.TaskID(tenant, keys[1]), []string{markFirst, markStandby, "effect", markSucceeded}},
		},
	}
}

// directScene starts tasks with a plain client, and one whose ticket has lapsed
// before its start came.
func directScene(t *testing.T) scene {
	return scene{
		Case: drill.Case{
			ID: "direct", Title: "tasks that were started without the gateway",
			Play: func(ctx context.Context, s *drill.Scene) error {
				c := plain(t, s.World)
				input := func(tenant, key string) contract.TaskInput {
					return contract.TaskInput{Tenant: tenant, Key: key, Operation: "charge", Payload: charge(tenant, key)}
				}
				run, err := direct(ctx, c, input("plain", "taken"))
				require.NoError(t, err)
				require.NoError(t, run.Get(ctx, nil))

				order(ctx, t, s.World, "/v1/tenants/plain/pause", `{"dispatch": false, "admission": true}`)
				run, err = direct(ctx, c, input("plain", "refused"))
				require.NoError(t, err)
				require.ErrorContains(t, run.Get(ctx, nil), string(admission.TenantClosed))
				require.NoError(t, s.Door.Resume(ctx, "plain"))

				unknown := input("plain", "unknown")
				unknown.Operation = "no_such_operation"
				run, err = direct(ctx, c, unknown)
				require.NoError(t, err)
				require.ErrorContains(t, run.Get(ctx, nil), "no_such_operation")

				late := input("plain", "late")
				loaded, err := config.Load(configuration(s.World))
				require.NoError(t, err)
				resolved := loaded.Resolve(late, time.Now())
				require.Empty(t, resolved.Refused)
				late.Pinned, late.Payload, late.Hash = resolved.Operation, resolved.Payload, resolved.Hash
				late.Ticket = &contract.Ticket{ID: "lapsed", StartBy: time.Now().Add(-time.Second)}
				run, err = direct(ctx, c, late)
				require.NoError(t, err)
				require.NoError(t, run.Get(ctx, nil))
				return nil
			},
		},
		records: []recording{
			{"task/direct-taken", "task/plain/taken", []string{markFirst, "resolve-operation", "request", "decision", "effect", markSucceeded}},
			{"task/direct-refused-by-the-budget", "task/plain/refused", []string{markFirst, "resolve-operation", "request", "decision", markFailed}},
			{"task/direct-refused-as-invalid", "task/plain/unknown", []string{markFirst, "resolve-operation", markFailed}},
			{"task/ticket-lapsed", "task/plain/late", []string{markFirst, "request", "decision", "effect", markSucceeded}},
		},
	}
}

// doubtScene has the doubts that the drill's cases leave out.
func doubtScene(t *testing.T) scene {
	return scene{
		Case: drill.Case{
			ID: "doubts", Title: "sent again because it may be; look-ups that fail, until a person says that it failed",
			Play: func(ctx context.Context, s *drill.Scene) error {
				worker, err := s.Dispatch(ctx, "safe", "charge_safe", provider.HangBefore)
				require.NoError(t, err)
				worker.Kill()
				require.NoError(t, s.Until(ctx, "safe", contract.PhaseSucceeded))
				require.NoError(t, worker.Start(ctx))

				require.NoError(t, s.Fault(ctx, "blind", provider.Fault{Kind: provider.Status, On: provider.OnLookup, Status: 500, Times: -1}))
				worker, err = s.Dispatch(ctx, "blind", "charge_blind", provider.HangBefore)
				require.NoError(t, err)
				worker.Kill()
				require.NoError(t, s.Until(ctx, "blind", contract.PhaseUnknown))
				require.NoError(t, s.Seen(ctx, "blind", provider.Counts{Lookups: 3}), "a person is asked, and it looks on")
				seen, err := s.Door.Task(ctx, s.Tenant, "blind")
				require.NoError(t, err)
				require.NotNil(t, seen.Task.Reconciliation)
				answer, err := s.Door.Resolve(ctx, s.Tenant, "blind", contract.Resolution{ID: "recorded", Actor: "operator", Outcome: contract.FailedFinding,
					Evidence: "the provider's own ledger was read", Version: seen.Task.Reconciliation.Version})
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, answer.Status, fmt.Sprint(answer.Problem))
				require.NoError(t, s.Until(ctx, "blind", contract.PhaseFailed))
				return nil
			},
			Ends: []drill.End{
				{Keys: []string{"safe"}, Phase: contract.PhaseSucceeded, Effects: 1, Attempts: drill.Range{Least: 2, Most: 2}},
				{Keys: []string{"blind"}, Phase: contract.PhaseFailed, Reason: "resolved_failed"},
			},
		},
		records: []recording{
			{"task/safe-replay", "task/doubts/safe", []string{markFirst, "effect", "report", markChild, "request", "decision", "effect", markSucceeded}},
			{"reconcile/safe-replay", "reconcile/doubts/safe/1", []string{markFirst, markSucceeded}},
			{"task/resolved-failed", "task/doubts/blind", []string{markFirst, "effect", "report", markChild, "unknown", markFailed}},
			{"reconcile/person-says-failed", "reconcile/doubts/blind/1", []string{markFirst, "probe", "probe", "probe", "resolve", markSucceeded}},
		},
	}
}
