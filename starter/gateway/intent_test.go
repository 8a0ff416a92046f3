package gateway

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"headgate/admission"
	"headgate/contract"
)

// intend submits a request with an intent; amount makes another payload.
func intend(t *testing.T, g *Gateway, tenant, key, same string, amount int) *http.Response {
	t.Helper()
	return do(t, g, "POST", "/v1/tasks", fmt.Sprintf(`{"tenant": %q, "operation": "charge_card", "intent": "order-7/refund", "same_intent": %q, "payload": {"amount": %d}}`,
		tenant, same, amount), "Idempotency-Key", key)
}

// F6: the same intent is met under another key, however it is worded. Another
// tenant's, and the same arguments without an intent, are other requests.
func TestSameIntent(t *testing.T) {
	f := &fake{}
	g := newGateway(f)
	first := decodeBody[contract.TaskView](t, intend(t, g, "acme", "k1", "", 1))
	assert.Equal(t, []any{contract.PhaseAccepted, "order-7/refund", false}, []any{first.Phase, first.Intent, first.SameIntent})
	asked := len(f.updates)

	for i, amount := range []int{1, 2} { // re-worded, or not
		r := intend(t, g, "acme", fmt.Sprintf("k2-%d", i), "", amount)
		require.Equal(t, 409, r.StatusCode)
		p := decodeBody[contract.Problem](t, r)
		assert.Equal(t, []any{"same_intent", "task/acme/k1", "k1", contract.NextWait, contract.DeliveryRejected},
			[]any{p.Reason, p.Task.Task, p.Task.Key, p.NextAction, p.DeliveryState})
		assert.Equal(t, "/v1/tasks/acme/k1", r.Header.Get("Location"))
	}
	r := intend(t, g, "acme", "k3", contract.SameReturn, 3)
	require.Equal(t, 202, r.StatusCode)
	v := decodeBody[contract.TaskView](t, r)
	assert.Equal(t, []any{"k1", true, contract.NextWait}, []any{v.Key, v.SameIntent, v.NextAction})
	assert.Len(t, f.updates, asked, "the budget is not asked for what is met")

	assert.Equal(t, 202, intend(t, g, "acme", "k1", "", 1).StatusCode, "the same key is the same task")
	assert.Equal(t, 202, intend(t, g, "globex", "k2", "", 1).StatusCode)
	assert.Equal(t, 202, intend(t, g, "acme", "k4", contract.SameAllow, 4).StatusCode)
	for _, key := range []string{"a", "b", "c"} { // A, B, A are three
		r := do(t, g, "POST", "/v1/tasks", `{"tenant": "acme", "operation": "charge_card", "payload": {"amount": 1}}`, "Idempotency-Key", key)
		assert.Equal(t, 202, r.StatusCode)
	}
	assert.Equal(t, []contract.IntentInput{
		{Tenant: "acme", Intent: "order-7/refund", Key: "k1", Window: contract.DefaultIntentWindow},
		{Tenant: "globex", Intent: "order-7/refund", Key: "k2", Window: contract.DefaultIntentWindow},
	}, f.intents, "a request without an intent costs nothing")
}

// Many at once: one task, and all others learn of it.
func TestSameIntentAtOnce(t *testing.T) {
	f := &fake{}
	gateways := []*Gateway{newGateway(f), newGateway(f)}
	status := make([]int, 16)
	var all sync.WaitGroup
	for i := range status {
		all.Go(func() { status[i] = intend(t, gateways[i%2], "acme", fmt.Sprintf("k%d", i), "", i).StatusCode })
	}
	all.Wait()
	counts := map[int]int{}
	for _, s := range status {
		counts[s]++
	}
	assert.Equal(t, map[int]int{202: 1, 409: 15}, counts)
	assert.Len(t, f.inputs, 1)
	assert.Empty(t, f.reports, "a ticket that another request of the key may hold is not given back")
}

// An intent is free again when its task has ended without an effect, and when it
// can no longer be started. It is taken over once.
func TestIntentIsTakenOver(t *testing.T) {
	result := func(phase contract.Phase, kind string) ([]*historypb.HistoryEvent, enumspb.WorkflowExecutionStatus) {
		end := &script{}
		switch phase {
		case contract.PhaseSucceeded:
			end.succeed(contract.TaskResult{Phase: phase})
			return end.events, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		case contract.PhaseCancelled:
			end.cancel(contract.TaskResult{Phase: phase})
			return end.events, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
		}
		end.fail(kind, contract.TaskResult{Phase: phase})
		return end.events, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	}
	for phase, free := range map[contract.Phase]bool{contract.PhaseSucceeded: false, contract.PhaseFailed: true, contract.PhaseExpired: true, contract.PhaseCancelled: true} {
		t.Run(string(phase), func(t *testing.T) {
			f := &fake{histories: map[string][]*historypb.HistoryEvent{}}
			g := newGateway(f)
			require.Equal(t, 202, intend(t, g, "acme", "k1", "", 1).StatusCode)
			kind := contract.FailedError
			if phase == contract.PhaseExpired {
				kind = contract.ExpiredError
			}
			events, status := result(phase, kind)
			f.histories["task/acme/k1"] = events
			f.tasks["task/acme/k1"].WorkflowExecutionInfo.Status = status
			f.tasks["task/acme/k1"].WorkflowExecutionInfo.CloseTime = timestamppb.New(start)
			r := intend(t, g, "acme", "k2", "", 2)
			if !free {
				require.Equal(t, 409, r.StatusCode)
				assert.Equal(t, contract.NextUseResult, decodeBody[contract.Problem](t, r).NextAction)
				return
			}
			require.Equal(t, 202, r.StatusCode)
			assert.Equal(t, []string{"intent/acme/order-7/refund intent-1"}, f.terminated)
			assert.Equal(t, 409, intend(t, g, "acme", "k3", "", 3).StatusCode)
		})
	}
	t.Run("never started", func(t *testing.T) {
		f := &fake{start: func(contract.TaskInput) error { return serviceerror.NewInvalidArgument("no") }}
		now := start
		var waits int
		g := New(Options{Client: f, Operations: operations{}, Now: func() time.Time { return now }, After: func(time.Duration) <-chan time.Time {
			waits++
			c := make(chan time.Time, 1)
			c <- now
			return c
		}})
		require.Equal(t, 500, intend(t, g, "acme", "k1", "", 1).StatusCode)
		f.start = nil
		// Its start may still be on its way.
		r := intend(t, g, "acme", "k2", "", 2)
		require.Equal(t, 503, r.StatusCode)
		assert.Equal(t, contract.NextRetryLater, decodeBody[contract.Problem](t, r).NextAction)
		assert.Equal(t, intentTries, waits)
		assert.Empty(t, f.terminated)
		// The same key takes it at once: it is the same task.
		require.Equal(t, 202, intend(t, g, "acme", "k1", "", 1).StatusCode)
		delete(f.tasks, "task/acme/k1")
		now = now.Add(29 * time.Second) // the canned ticket's time, nearly
		require.Equal(t, 503, intend(t, g, "acme", "k2", "", 2).StatusCode)
		// Its ticket has lapsed: whatever arrives now runs no more.
		now = start.Add(31*time.Second + admission.TicketMargin)
		f.update = func(client.UpdateWorkflowOptions) (any, error) {
			return contract.AdmitReply{Verdicts: []admission.Verdict{{Action: admission.Queue, Ticket: "ticket-2", StartBy: now.Add(30 * time.Second)}}}, nil
		}
		require.Equal(t, 202, intend(t, g, "acme", "k2", "", 2).StatusCode)
		assert.Equal(t, []string{"intent/acme/order-7/refund intent-1"}, f.terminated)
		assert.Equal(t, 409, intend(t, g, "acme", "k1", "", 1).StatusCode, "the earlier key comes too late")
	})
}
