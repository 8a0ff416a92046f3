package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

const (
	body  = `{"tenant": "acme", "agent": "billing-1", "operation": "charge_card", "priority": "high", "payload": {"amount": 1200}}`
	other = `{"tenant": "acme", "agent": "billing-1", "operation": "charge_card", "priority": "high", "payload": {"amount": 1201}}`
)

func submitTo(t *testing.T, g *Gateway, key, body string) *http.Response {
	return do(t, g, "POST", "/v1/tasks", body, "Idempotency-Key", key)
}

func TestSubmitQueues(t *testing.T) {
	f := &fake{}
	r := submitTo(t, newGateway(f), `"inv/42"`, body)

	assert.Equal(t, 202, r.StatusCode)
	assert.Equal(t, "/v1/tasks/acme/inv%2F42", r.Header.Get("Location"))
	assert.Empty(t, r.Header.Get("Idempotent-Replayed"))
	v := decodeBody[contract.TaskView](t, r)
	assert.Equal(t, contract.PhaseAccepted, v.Phase)
	assert.Equal(t, "ACCEPTED", v.DeliveryState)
	assert.Equal(t, "PENDING", v.ExecutionState)
	assert.Equal(t, 1, v.Position)
	assert.Equal(t, start.Add(4*time.Second), *v.EstimatedStart)
	assert.Equal(t, []contract.Waiting{{Reason: "capacity", Resource: "psp_calls", Since: &start}}, v.WaitingOn)

	require.Len(t, f.started, 1)
	o, in := f.started[0], f.inputs[0]
	assert.Equal(t, "task/acme/inv/42", o.ID)
	assert.Equal(t, contract.ControlQueue, o.TaskQueue)
	assert.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, o.WorkflowIDReusePolicy)
	assert.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, o.WorkflowIDConflictPolicy)
	assert.True(t, o.WorkflowExecutionErrorWhenAlreadyStarted)
	assert.Equal(t, map[string]any{"ticket": "ticket-1", "payload_hash": in.Hash}, o.Memo)
	phase, _ := o.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(contract.PhaseAttribute))
	assert.Equal(t, "accepted", phase)
	assert.Equal(t, "charge_card for acme", o.StaticSummary)
	assert.NotContains(t, o.StaticDetails, "1200", "the payload is nobody's business in the Web UI")
	assert.Equal(t, `{"amount":1200}`, string(in.Payload), "canonical")
	assert.NotNil(t, in.Pinned)
	assert.Equal(t, "ticket-1", in.Ticket.ID)
}

func TestSubmitRunsAtOnce(t *testing.T) {
	lease := &admission.Lease{ID: "lease-1", Granted: start}
	f := &fake{update: verdicts(admission.Verdict{Action: admission.Run, Ticket: "ticket-1", StartBy: start.Add(time.Minute), Lease: lease})}
	r := submitTo(t, newGateway(f), "inv-42", body)

	v := decodeBody[contract.TaskView](t, r)
	assert.Equal(t, 202, r.StatusCode)
	assert.Equal(t, contract.PhaseLeased, v.Phase)
	assert.Equal(t, lease, f.inputs[0].Ticket.Lease)
	phase, _ := f.started[0].TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(contract.PhaseAttribute))
	assert.Equal(t, "leased", phase)
}

// verdicts answers every update with the same verdicts.
func verdicts(v ...admission.Verdict) func(client.UpdateWorkflowOptions) (any, error) {
	return func(client.UpdateWorkflowOptions) (any, error) { return contract.AdmitReply{Verdicts: v}, nil }
}

// refusal is how the budget refuses a whole batch.
func refusal(v ...admission.Verdict) func(client.UpdateWorkflowOptions) (any, error) {
	return func(client.UpdateWorkflowOptions) (any, error) {
		return nil, temporal.NewNonRetryableApplicationError("refused", contract.RefusedError, nil, contract.AdmitReply{Verdicts: v})
	}
}

func TestSubmitRefusedStoresNothing(t *testing.T) {
	f := &fake{update: refusal(admission.Verdict{Action: admission.Reject, Reason: admission.QueueFull,
		Detail: "1000 of 1000 tasks wait", RetryAfter: admission.Duration(6100 * time.Millisecond)})}
	r := submitTo(t, newGateway(f), "inv-42", body)

	assert.Equal(t, 429, r.StatusCode)
	assert.Equal(t, "7", r.Header.Get("Retry-After"))
	assert.Equal(t, "application/problem+json", r.Header.Get("Content-Type"))
	p := decodeBody[contract.Problem](t, r)
	assert.Equal(t, contract.Problem{Type: "https://headgate.dev/problems/queue-full", Title: "The queue is full", Status: 429,
		Detail: "1000 of 1000 tasks wait", Reason: "queue_full", RetryAfter: 7, DeliveryState: "REJECTED", NextAction: "retry_later"}, p)
	assert.Empty(t, f.started)
}

func TestSubmitSameKey(t *testing.T) {
	f := &fake{}
	g := newGateway(f)
	require.Equal(t, 202, submitTo(t, g, "inv-42", body).StatusCode)
	f.update = refusal(admission.Verdict{Action: admission.Reject, Reason: admission.QueueFull})

	again := submitTo(t, g, "inv-42", strings.ReplaceAll(body, `{"amount": 1200}`, ` {  "amount":1200 }`))
	assert.Equal(t, 202, again.StatusCode, "a full queue is nothing to a task that is accepted")
	assert.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	assert.Equal(t, "task/acme/inv-42", decodeBody[contract.TaskView](t, again).Task)

	reused := submitTo(t, g, "inv-42", other)
	assert.Equal(t, 422, reused.StatusCode)
	p := decodeBody[contract.Problem](t, reused)
	assert.Equal(t, "key_reused", p.Reason)
	assert.Equal(t, "REJECTED", p.DeliveryState)
	assert.Equal(t, "task/acme/inv-42", p.Task.Task)
	assert.Equal(t, f.inputs[0].Hash, p.Task.PayloadHash)

	assert.Len(t, f.started, 1)
	assert.Len(t, f.updates, 1, "the budget is not asked for a known key")
	assert.Empty(t, f.reports)
}

func TestSubmitSameKeyOfADirectStart(t *testing.T) {
	in := contract.TaskInput{Tenant: "acme", Key: "inv-42", Operation: "charge_card", Payload: []byte(`{"amount":1200}`)}
	history := &script{}
	history.start(in)
	f := &fake{}
	f.put(openTask(in))
	g := newGateway(f)

	t.Run("before its worker has resolved it", func(t *testing.T) {
		f.histories = map[string][]*historypb.HistoryEvent{"task/acme/inv-42": history.events}
		assert.Equal(t, 202, submitTo(t, g, "inv-42", body).StatusCode)
		assert.Equal(t, 422, submitTo(t, g, "inv-42", other).StatusCode)
	})
	t.Run("after it, its own hash counts", func(t *testing.T) {
		history.marker(contract.ResolveActivity, contract.Resolved{Operation: &contract.Operation{}, Hash: "sha256:other"})
		f.histories = map[string][]*historypb.HistoryEvent{"task/acme/inv-42": history.events}
		assert.Equal(t, 422, submitTo(t, g, "inv-42", body).StatusCode)
	})
	t.Run("refused by the budget", func(t *testing.T) {
		history.marker(contract.ResolveActivity, func() contract.Resolved {
			r, _ := operations{}.ResolveE(in, start)
			return r
		}())
		history.fail(contract.RejectedError, contract.TaskResult{Phase: contract.PhaseRejected, Reason: "queue_full"})
		d := closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_FAILED)
		d.WorkflowExecutionInfo.Memo = nil
		f.put(d)
		f.histories = map[string][]*historypb.HistoryEvent{"task/acme/inv-42": history.events}
		r := submitTo(t, g, "inv-42", body)
		assert.Equal(t, 409, r.StatusCode)
		assert.Equal(t, "task_rejected", decodeBody[contract.Problem](t, r).Reason)
	})
	assert.Empty(t, f.updates)
}

// The key is taken between the look-up and the start.
func TestSubmitLosesTheRace(t *testing.T) {
	for name, c := range map[string]struct {
		winner   string // its ticket
		body     string
		status   int
		returned bool
	}{
		"same request, one ticket for both": {"ticket-1", body, 202, false},
		"same request, own ticket":          {"ticket-0", body, 202, true},
		"other request":                     {"ticket-0", other, 422, true},
		"other request, no ticket":          {"", other, 422, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := contract.TaskInput{Tenant: "acme", Key: "inv-42", Operation: "charge_card", Payload: []byte(`{"amount":1200}`)}
			resolved, _ := operations{}.ResolveE(in, start)
			in.Hash = resolved.Hash
			in.Ticket = &contract.Ticket{ID: c.winner}
			f := &fake{}
			f.start = func(contract.TaskInput) error {
				f.put(openTask(in))
				return serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", "")
			}
			r := submitTo(t, newGateway(f), "inv-42", c.body)
			assert.Equal(t, c.status, r.StatusCode)
			if c.returned {
				assert.Equal(t, []admission.Report{{Task: "task/acme/inv-42", Attempt: 1, Ticket: "ticket-1", Kind: admission.Withdrawn}}, f.reports)
			} else {
				assert.Empty(t, f.reports)
			}
		})
	}
}

// The server does not say whether the task was stored.
func TestSubmitStartUncertain(t *testing.T) {
	timeout := serviceerror.NewDeadlineExceeded("deadline")
	ours := func(f *fake) func(contract.TaskInput) error {
		return func(in contract.TaskInput) error { f.put(openTask(in)); return timeout }
	}
	t.Run("it was", func(t *testing.T) {
		f := &fake{}
		f.start = ours(f)
		r := submitTo(t, newGateway(f), "inv-42", body)
		assert.Equal(t, 202, r.StatusCode)
		assert.Empty(t, r.Header.Get("Idempotent-Replayed"))
	})
	t.Run("another one was", func(t *testing.T) {
		f := &fake{}
		f.start = func(in contract.TaskInput) error {
			in.Ticket, in.Hash = &contract.Ticket{ID: "ticket-0"}, "sha256:another"
			f.put(openTask(in))
			return timeout
		}
		assert.Equal(t, 422, submitTo(t, newGateway(f), "inv-42", body).StatusCode)
		assert.Len(t, f.reports, 1)
	})
	for name, describe := range map[string]func(string) error{
		"nothing is there (yet)":    nil,
		"the look-up fails as well": func(string) error { return serviceerror.NewUnavailable("down") },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			f.start = func(contract.TaskInput) error { f.describe = describe; return timeout }
			r := submitTo(t, newGateway(f), "inv-42", body)
			assert.Equal(t, 503, r.StatusCode)
			assert.NotEmpty(t, r.Header.Get("Retry-After"))
			p := decodeBody[contract.Problem](t, r)
			assert.Equal(t, "not_confirmed", p.Reason)
			assert.Contains(t, p.Detail, "the same key is safe to send again")
			assert.Empty(t, p.DeliveryState, "it is not known")
			assert.Empty(t, f.reports, "the task may still arrive with this ticket")
		})
	}
	t.Run("it was certainly not", func(t *testing.T) {
		f := &fake{start: func(contract.TaskInput) error { return serviceerror.NewInvalidArgument("blob size") }}
		r := submitTo(t, newGateway(f), "inv-42", body)
		assert.Equal(t, 500, r.StatusCode)
		p := decodeBody[contract.Problem](t, r)
		assert.Equal(t, "REJECTED", p.DeliveryState)
		assert.NotContains(t, p.Detail, "blob", "no text of the server reaches a client")
	})
}

func TestSubmitAfterTheTicketLapsed(t *testing.T) {
	f := &fake{update: verdicts(admission.Verdict{Action: admission.Queue, Ticket: "ticket-1", StartBy: start.Add(leastStart - 1)})}
	r := submitTo(t, newGateway(f), "inv-42", body)
	assert.Equal(t, 503, r.StatusCode)
	assert.Empty(t, f.started)
}

func TestSubmitWithoutABudget(t *testing.T) {
	for name, err := range map[string]error{
		"missing":          serviceerror.NewNotFound("workflow not found"),
		"at a limit":       serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "limit on concurrent in-flight updates"),
		"out of updates":   serviceerror.NewFailedPrecondition("limit on total updates"),
		"silent":           client.NewWorkflowUpdateServiceTimeoutOrCanceledError(context.DeadlineExceeded),
		"unreachable":      serviceerror.NewUnavailable("connection refused"),
		"short of answers": nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{update: func(client.UpdateWorkflowOptions) (any, error) { return contract.AdmitReply{}, err }}
			r := submitTo(t, newGateway(f), "inv-42", body)
			assert.Equal(t, 503, r.StatusCode)
			assert.NotEmpty(t, r.Header.Get("Retry-After"))
			p := decodeBody[contract.Problem](t, r)
			assert.Equal(t, "budget_unavailable", p.Reason)
			assert.Equal(t, "REJECTED", p.DeliveryState)
			assert.Empty(t, f.started)
		})
	}
}

func TestSubmitWithoutTemporal(t *testing.T) {
	f := &fake{describe: func(string) error { return serviceerror.NewUnavailable("connection refused") }}
	r := submitTo(t, newGateway(f), "inv-42", body)
	assert.Equal(t, 503, r.StatusCode)
	assert.Equal(t, "temporal_unavailable", decodeBody[contract.Problem](t, r).Reason)
	assert.Empty(t, f.updates)
}

// A budget that continues as new cuts off an update that it had accepted.
func TestSubmitAcrossContinueAsNew(t *testing.T) {
	cut := temporal.NewNonRetryableApplicationError("Workflow Update failed because the Workflow completed before the Update completed.", updateLost, nil)
	f := &fake{}
	f.update = func(o client.UpdateWorkflowOptions) (any, error) {
		if len(f.updates) == 1 {
			return nil, cut
		}
		return queueAll(o)
	}
	assert.Equal(t, 202, submitTo(t, newGateway(f), "inv-42", body).StatusCode)
	require.Len(t, f.updates, 2)
	assert.Equal(t, f.updates[0].UpdateID, f.updates[1].UpdateID)

	f = &fake{update: func(client.UpdateWorkflowOptions) (any, error) { return nil, cut }}
	assert.Equal(t, 503, submitTo(t, newGateway(f), "inv-42", body).StatusCode)
	assert.Len(t, f.updates, 3, "not for ever")
}

// The client leaves while the budget decides: its ticket is used, so that it
// finds its task when it comes back.
func TestSubmitCarriesOnWithoutItsClient(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	f := &fake{update: func(o client.UpdateWorkflowOptions) (any, error) { leave(); return queueAll(o) }}
	g := newGateway(f)
	r := httptest.NewRequestWithContext(ctx, "POST", "/v1/tasks", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "inv-42")
	g.Handler().ServeHTTP(httptest.NewRecorder(), r)
	require.Error(t, ctx.Err())
	require.Len(t, f.started, 1)
	assert.NoError(t, f.startErr)
}

// A task outlives its operation's place in the configuration.
func TestSubmitSameKeyOfARemovedOperation(t *testing.T) {
	in := contract.TaskInput{Tenant: "acme", Key: "inv-42", Operation: "gone", Ticket: &contract.Ticket{ID: "ticket-0"}}
	in.Hash = hashOf(in)
	f := &fake{}
	f.put(openTask(in))
	g := newGateway(f)
	assert.Equal(t, 202, submitTo(t, g, "inv-42", `{"tenant": "acme", "operation": "gone"}`).StatusCode)
	assert.Equal(t, 422, submitTo(t, g, "inv-42", `{"tenant": "acme", "operation": "gone", "payload": 1}`).StatusCode)
	assert.Equal(t, 422, submitTo(t, g, "inv-42", body).StatusCode, "another operation")
	assert.Equal(t, 400, submitTo(t, g, "inv-43", `{"tenant": "acme", "operation": "gone"}`).StatusCode)
}

// One value in two spellings is one request; two values are never one.
func TestSubmitSameValue(t *testing.T) {
	g := newGateway(&fake{})
	send := func(payload string) int {
		return submitTo(t, g, "inv-42", `{"tenant": "acme", "operation": "charge_card", "payload": `+payload+`}`).StatusCode
	}
	require.Equal(t, 202, send(`{"b": 1.0, "a": "\u00e9", "c": -0}`))
	assert.Equal(t, 202, send(`{"a":"é","b":1,"c":0}`))
	assert.Equal(t, 422, send(`{"a":"é","b":"1","c":0}`))
	assert.Equal(t, 422, send(`{"a":"é","b":1,"c":null}`))
	assert.Equal(t, 422, send(`null`))
}
