package testsuite

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/drill"
)

// askedOperations are added to those of the drill.
const askedOperations = `
  charge_asked:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    approval: {required: true, expires: 1h}
    intent: {window: 1s}
  charge_asked_soon:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    approval: {required: true, expires: 1s}
`

// askedScene has the ways out of a question to a person, and an intent that ends
// with its window.
func askedScene(t *testing.T) scene {
	return scene{
		Case: drill.Case{
			ID: "asks", Title: "approved, declined, expired and cancelled while a person is asked",
			Play: func(ctx context.Context, s *drill.Scene) error {
				decide := func(key, path string) {
					answer, err := s.Door.Task(ctx, s.Tenant, key)
					require.NoError(t, err)
					require.NotNil(t, answer.Task.Approval)
					body, err := json.Marshal(approval(answer.Task, "recorded-"+key))
					require.NoError(t, err)
					order(ctx, t, s.World, "/v1/tasks/"+s.Tenant+"/"+key+"/"+path, string(body))
				}
				answer, err := s.Door.Submit(ctx, "approved", contract.SubmitRequest{Tenant: s.Tenant, Operation: "charge_asked", Intent: "order-7",
					Payload: charge(s.Tenant, "approved")})
				require.NoError(t, err)
				require.Equal(t, http.StatusAccepted, answer.Status, answer.Problem.Detail)
				require.NoError(t, s.Submit(ctx, "approved", "charge_asked"), "the same task again")
				decide("approved", "approve")
				require.NoError(t, s.Until(ctx, "approved", contract.PhaseSucceeded))
				require.NoError(t, s.Submit(ctx, "declined", "charge_asked"))
				decide("declined", "decline")
				require.NoError(t, s.Until(ctx, "declined", contract.PhaseFailed))
				require.NoError(t, s.Submit(ctx, "forgotten", "charge_asked_soon"))
				require.NoError(t, s.Until(ctx, "forgotten", contract.PhaseExpired))
				require.NoError(t, s.Submit(ctx, "cancelled", "charge_asked"))
				order(ctx, t, s.World, "/v1/tasks/asks/cancelled/cancel", "")
				require.NoError(t, s.Until(ctx, "cancelled", contract.PhaseCancelled))

				c := plain(t, s.World)
				run, err := direct(ctx, c, contract.TaskInput{Tenant: "asks-plain", Key: "direct", Operation: "charge_asked_soon", Payload: charge("asks-plain", "direct")})
				require.NoError(t, err)
				require.Error(t, run.Get(ctx, nil))
				return c.GetWorkflow(ctx, contract.IntentID(s.Tenant, "order-7"), "").Get(ctx, nil)
			},
			Ends: []drill.End{
				{Keys: []string{"approved"}, Phase: contract.PhaseSucceeded, Effects: 1},
				{Keys: []string{"declined"}, Phase: contract.PhaseFailed, Reason: "approval_declined"},
				{Keys: []string{"forgotten"}, Phase: contract.PhaseExpired},
				{Keys: []string{"cancelled"}, Phase: contract.PhaseCancelled},
			},
		},
		records: []recording{
			{"task/approved", "task/asks/approved", []string{markFirst, "approve", "request", "decision", "effect", markSucceeded}},
			{"task/declined", "task/asks/declined", []string{markFirst, "approve", "report", markFailed}},
			{"task/approval-expired", "task/asks/forgotten", []string{markFirst, "report", markFailed}},
			{"task/cancelled-while-asking", "task/asks/cancelled", []string{markFirst, "report", markCancelled}},
			{"task/direct-approval-expired", "task/asks-plain/direct", []string{markFirst, "resolve-operation", "request", "report", markFailed}},
			{"intent/kept", "intent/asks/order-7", []string{markFirst, "audit", markSucceeded}},
		},
	}
}
