package testsuite

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/drill"
)

// TestPeople has people decide in a real world: before an effect, and about one.
func TestPeople(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	world := newWorld(ctx, t)
	text, err := os.ReadFile(configuration(world))
	require.NoError(t, err)
	changed := strings.Replace(string(text), "\n  resources:\n", "\n  resources:\n    human: {concurrent: 2}\n", 1)
	require.NoError(t, os.WriteFile(configuration(world), []byte(changed), 0o600))
	declare(ctx, t, world, "", peopleOperations)
	for _, part := range []struct {
		name string
		test func(ctx context.Context, t *testing.T, world *drill.World)
	}{
		{"nothing is sent before it is approved, and then once", testApprovals},
		{"one intent is one effect, whatever its keys and words", testIntents},
		{"one decision is one attempt", testDecisions},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(ctx, t, world) })
	}
}

const peopleOperations = `
  charge_asked:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    retry: {max_attempts: 8, base: 200ms, max: 1s, max_age: 5m}
    replay: {class: never}
    approval: {required: "payload.amount > 1000", expires: 1h, resource: human}
  charge_asked_soon:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    approval: {required: true, expires: 1s}
`

// approval is a person's decision about what a task shows.
func approval(view contract.TaskView, id string) map[string]any {
	return map[string]any{"id": id, "actor": "mara", "evidence": "the invoice is right", "version": view.Approval.Version,
		"payload_hash": view.Approval.Hash, "operation_digest": view.Approval.Digest}
}

func testApprovals(ctx context.Context, t *testing.T, world *drill.World) {
	play(ctx, t, world, drill.Case{ID: "approve", Title: "nothing is sent before it is approved", Play: func(ctx context.Context, s *drill.Scene) error {
		// decide posts a decision and gives the status and the reason of a refusal.
		decide := func(key, path string, body map[string]any) (int, string) {
			text, err := json.Marshal(body)
			require.NoError(t, err)
			answer, err := send(ctx, world, http.MethodPost, "/v1/tasks/"+s.Tenant+"/"+key+"/"+path, nil, text)
			require.NoError(t, err)
			if answer.status == http.StatusOK {
				var done contract.ApprovalReply
				require.NoError(t, json.Unmarshal(answer.body, &done))
				require.NotEmpty(t, done.NextAction)
				return answer.status, done.Outcome
			}
			p := answer.problem(t)
			require.NotEmpty(t, p.NextAction)
			return answer.status, p.Reason
		}
		waiting := func(key string) contract.TaskView {
			answer, err := s.Door.Task(ctx, s.Tenant, key)
			require.NoError(t, err)
			require.Equal(t, contract.PhaseAccepted, answer.Task.Phase)
			require.NotNil(t, answer.Task.Approval, key)
			require.Equal(t, "approval", answer.Task.WaitingOn[0].Reason)
			return answer.Task
		}
		// 1. Two are asked about, which is as many as people take; they hold nothing.
		require.NoError(t, s.Submit(ctx, "good", "charge_asked"))
		require.NoError(t, s.Submit(ctx, "bad", "charge_asked"))
		text, err := json.Marshal(contract.SubmitRequest{Tenant: s.Tenant, Operation: "charge_asked", Payload: charge(s.Tenant, "many")})
		require.NoError(t, err)
		refused, err := send(ctx, world, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {"many"}}, text)
		require.NoError(t, err)
		p := refused.problem(t)
		require.Equal(t, []any{http.StatusTooManyRequests, "approvals_full", contract.NextRetryLater}, []any{p.Status, p.Reason, p.NextAction})
		view, err := s.Door.Queue(ctx)
		require.NoError(t, err)
		require.Zero(t, view.InFlight)
		require.Equal(t, 2, view.Depth)
		// What the rule does not ask about runs beside them.
		small := json.RawMessage(strings.Replace(string(charge("beside", "small")), "1200", "999", 1))
		answer, err := s.Door.Submit(ctx, "small", contract.SubmitRequest{Tenant: "beside", Operation: "charge_asked", Payload: small})
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, answer.Status, answer.Problem.Detail)
		require.Nil(t, answer.Task.Approval)

		// 2. A question outlives every process.
		before := waiting("good")
		restart(ctx, t, world.Server)
		restart(ctx, t, world.Control, world.Gateway)
		require.Equal(t, before, waiting("good"))

		// 3. What is not of this payload, this declaration and another person is refused.
		change := func(field string, value any) map[string]any {
			body := approval(before, "d-1")
			body[field] = value
			return body
		}
		for _, row := range []struct {
			body   map[string]any
			status int
			reason string
		}{
			{change("payload_hash", waiting("bad").Approval.Hash), http.StatusConflict, "approval_mismatch"},
			{change("operation_digest", "sha256:0"), http.StatusConflict, "approval_mismatch"},
			{change("actor", s.Tenant), http.StatusForbidden, "not_allowed"},
			{change("version", 7), http.StatusConflict, "stale_version"},
		} {
			status, reason := decide("good", "approve", row.body)
			require.Equal(t, []any{row.status, row.reason}, []any{status, reason})
		}
		require.Equal(t, before, waiting("good"))

		// 4. The decision is made once.
		status, outcome := decide("good", "approve", approval(before, "d-1"))
		require.Equal(t, []any{http.StatusOK, contract.Approved}, []any{status, outcome})
		for range 2 { // before the end, and after it
			status, outcome = decide("good", "approve", approval(before, "d-1"))
			require.Equal(t, []any{http.StatusOK, contract.Approved}, []any{status, outcome})
			status, reason := decide("good", "decline", approval(before, "d-1"))
			require.Equal(t, []any{http.StatusUnprocessableEntity, "decision_reused"}, []any{status, reason})
			status, _ = decide("good", "approve", approval(before, "d-2"))
			require.Equal(t, http.StatusConflict, status)
			require.NoError(t, s.Until(ctx, "good", contract.PhaseSucceeded))
		}
		x, err := s.Door.Explain(ctx, s.Tenant, "good")
		require.NoError(t, err)
		told := ""
		for _, e := range x.Events {
			if e.Name == contract.Approved {
				told = e.Actor
			}
		}
		require.Equal(t, "mara", told)

		// 5. Declined, cancelled, expired: the provider sees nothing.
		status, outcome = decide("bad", "decline", approval(waiting("bad"), "d-3"))
		require.Equal(t, []any{http.StatusOK, contract.Declined}, []any{status, outcome})
		require.NoError(t, s.Until(ctx, "bad", contract.PhaseFailed))
		require.NoError(t, s.Submit(ctx, "off", "charge_asked"))
		order(ctx, t, world, "/v1/tasks/"+s.Tenant+"/off/cancel", "")
		require.NoError(t, s.Until(ctx, "off", contract.PhaseCancelled))
		require.NoError(t, s.Submit(ctx, "late", "charge_asked_soon"))
		require.NoError(t, s.Until(ctx, "late", contract.PhaseExpired))
		eventually(ctx, t, "the places of those that ended are free", func() bool {
			view, err := s.Door.Queue(ctx)
			return err == nil && view.Depth == 0
		})
		done, err := send(ctx, world, http.MethodGet, "/v1/tasks/beside/small?wait=20s", nil, nil)
		require.NoError(t, err)
		require.Equal(t, contract.PhaseSucceeded, done.view(t).Phase)
		return nil
	}, Ends: []drill.End{
		{Keys: []string{"good"}, Phase: contract.PhaseSucceeded, Effects: 1},
		{Keys: []string{"bad"}, Phase: contract.PhaseFailed},
		{Keys: []string{"off"}, Phase: contract.PhaseCancelled},
		{Keys: []string{"late"}, Phase: contract.PhaseExpired},
	}})
}
