package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

func policy(calls int64) admission.Policy {
	return admission.Policy{Resources: []admission.Resource{{Name: "calls", Concurrent: calls}}}.Normalize()
}

// began is the start of a budget's run.
func (s *script) began(p admission.Policy) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
			Input: payloads(contract.BudgetInput{Name: "default", Policy: p})}}
	})
}

func (s *script) updateAccepted(name string, arg any) int64 {
	return s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
			AcceptedRequest: &updatepb.Request{Input: &updatepb.Input{Name: name, Args: payloads(arg)}}}}
	})
}

func (s *script) updateCompleted(accepted int64, failed bool) {
	outcome := &updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: &commonpb.Payloads{}}}
	if failed {
		outcome.Value = &updatepb.Outcome_Failure{Failure: &failurepb.Failure{Message: "no"}}
	}
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateCompletedEventAttributes{WorkflowExecutionUpdateCompletedEventAttributes: &historypb.WorkflowExecutionUpdateCompletedEventAttributes{
			AcceptedEventId: accepted, Outcome: outcome}}
	})
}

func TestPolicyOfAHistory(t *testing.T) {
	configure := func(calls int64) contract.ConfigureRequest {
		p := policy(calls)
		p.Queue = admission.QueuePolicy{} // as a client may send it
		return contract.ConfigureRequest{Policy: p, Actor: "mara"}
	}
	s := &script{}
	s.began(policy(1))
	assert.Equal(t, policy(1), policyOf(s.events))
	other := s.updateAccepted(contract.PauseUpdate, contract.PauseRequest{Tenant: "acme"})
	s.updateCompleted(other, false)
	first, second := s.updateAccepted(contract.ConfigureUpdate, configure(2)), s.updateAccepted(contract.ConfigureUpdate, configure(3))
	assert.Equal(t, policy(1), policyOf(s.events), "it is not in force yet")
	s.updateCompleted(second, true)
	s.updateCompleted(first, false)
	assert.Equal(t, policy(2), policyOf(s.events), "normalized; a failed one never was in force")
}

// ours is a gateway whose file allows four calls, beside a budget that runs
// another policy, or the same.
func ours(f *fake, running admission.Policy) *Gateway {
	f.query = func(string, []any) (any, error) { return admission.View{Now: start, Policy: running.Digest()}, nil }
	return New(Options{Client: f, Operations: operations{}, Policy: policy(4), Now: func() time.Time { return start }})
}

func TestBudgetInForce(t *testing.T) {
	s := &script{}
	s.began(policy(2))
	f := &fake{}
	view := func(g *Gateway) BudgetView { return decodeBody[BudgetView](t, do(t, g, "GET", "/v1/budget", "")) }

	assert.Equal(t, BudgetView{Policy: policy(4), Digest: policy(4).Digest(), File: policy(4).Digest(), Same: true}, view(ours(f, policy(4))), "no history is read")
	f.histories = map[string][]*historypb.HistoryEvent{"budget/default": s.events}
	assert.Equal(t, BudgetView{Policy: policy(2), Digest: policy(2).Digest(), File: policy(4).Digest()}, view(ours(f, policy(2))))

	assert.Empty(t, decodeBody[QueueView](t, do(t, ours(f, policy(4)), "GET", "/v1/queue", "")).File)
	assert.Equal(t, policy(4).Digest(), decodeBody[QueueView](t, do(t, ours(f, policy(2)), "GET", "/v1/queue", "")).File)

	r := do(t, ours(f, policy(3)), "GET", "/v1/budget", "")
	assert.Equal(t, 503, r.StatusCode, "the history does not tell of this one")
	f.query = func(string, []any) (any, error) { return nil, serviceerror.NewNotFound("no budget") }
	r = do(t, New(Options{Client: f, Operations: operations{}}), "GET", "/v1/budget", "")
	assert.Equal(t, "budget_unavailable", decodeBody[contract.Problem](t, r).Reason)
}

func TestConfigure(t *testing.T) {
	f := &fake{update: func(o client.UpdateWorkflowOptions) (any, error) {
		p := o.Args[0].(contract.ConfigureRequest).Policy
		return contract.ConfigureReply{Before: "sha256:old", After: p.Digest()}, p.Validate()
	}}
	g := newGateway(f)
	text := func(p admission.Policy) string {
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		return string(raw)
	}
	put := func(body string) (int, string) {
		r := do(t, g, "PUT", "/v1/budget", body)
		if r.StatusCode != 200 {
			return r.StatusCode, decodeBody[contract.Problem](t, r).Detail
		}
		return 200, decodeBody[contract.ConfigureReply](t, r).After
	}
	status, after := put(`{"policy": {"resources": [{"name": "calls", "concurrent": 4}]}, "actor": "mara"}`)
	assert.Equal(t, []any{200, policy(4).Digest()}, []any{status, after}, "it is normalized")
	require.Len(t, f.updates, 1)
	assert.Equal(t, contract.BudgetID("default"), f.updates[0].WorkflowID)
	assert.Equal(t, contract.ConfigureUpdate, f.updates[0].UpdateName)
	assert.Equal(t, "mara", f.updates[0].Args[0].(contract.ConfigureRequest).Actor)

	put(`{"policy": ` + text(policy(4)) + `}`)
	assert.Equal(t, someone, f.updates[1].Args[0].(contract.ConfigureRequest).Actor)

	for body, words := range map[string]string{
		"":                         "want a policy and an actor",
		`{}`:                       "policy is required",
		`{"actor": "mara"}`:        "policy is required",
		`{"policy": null}`:         "policy is required",
		`{"policy": 3}`:            "does not fit",
		`{"policy": {"queue": 3}}`: "does not fit",
		`{"policy": {"queu": {}}}`: "queu",
		`{"policy": {"queue": {"hard": 10, "softt": 3}}}`:             "softt",
		`{"policy": {"queue": {"hard": 1, "soft": 3}}}`:               "soft",
		`{"policy": {"resources": [{"name": "calls"}]}}`:              "calls",
		`{"policy": {"tenants": [{"name": "a"}, {"name": "a"}]}}`:     "twice",
		`{"policy": {}, "actor": "` + strings.Repeat("m", 129) + `"}`: "actor",
	} {
		status, detail := put(body)
		assert.Equal(t, 400, status, body)
		assert.Contains(t, detail, words, body)
	}
	assert.Len(t, f.updates, 2, "nothing of it reached the budget")

	for want, err := range map[int]error{
		400: temporal.NewNonRetryableApplicationError("policy: it is not valid", contract.InvalidError, errors.New("no")),
		503: serviceerror.NewNotFound("no budget"),
	} {
		f.update = func(client.UpdateWorkflowOptions) (any, error) { return nil, err }
		status, _ := put(`{"policy": ` + text(policy(4)) + `}`)
		assert.Equal(t, want, status)
	}
}

// What holds a task up, until when, and which one is tried before it.
func TestWhyTellsUntilWhen(t *testing.T) {
	at := func(s int) *time.Time { t := start.Add(time.Duration(s) * time.Second); return &t }
	now := admission.View{
		Resources: []admission.ResourceView{
			{Resource: admission.Resource{Name: "calls", Concurrent: 4}, Held: at(5)},
			{Resource: admission.Resource{Name: "tokens", Per: 1, Amount: 1}, Next: at(6)},
			{Resource: admission.Resource{Name: "slots", Concurrent: 1}}},
		Tenants: []admission.TenantView{{TenantPolicy: admission.TenantPolicy{Name: "acme"}, Pause: &admission.Pause{Until: at(7)}}},
		Gates:   []admission.GateView{{Operation: "charge_card", State: admission.BreakerProbe, Until: at(8), Probe: "task/acme/first"}},
	}
	f := &fake{}
	f.put(openTask(acmeInput()))
	for _, c := range []struct {
		why   admission.Why
		until *time.Time
		first string
	}{
		{admission.Why{Stand: admission.StandQueued, Reason: admission.TenantPaused}, at(7), ""},
		{admission.Why{Stand: admission.StandQueued, Reason: admission.ProviderHold, Resource: "calls"}, at(5), ""},
		{admission.Why{Stand: admission.StandQueued, Reason: admission.Capacity, Resource: "tokens"}, at(6), ""},
		{admission.Why{Stand: admission.StandQueued, Reason: admission.Capacity, Resource: "slots"}, nil, ""},
		{admission.Why{Stand: admission.StandQueued, Reason: admission.BreakerProbe}, at(8), "task/acme/first"},
		{admission.Why{Stand: admission.StandQueued, Reason: admission.TurnWait}, nil, ""},
		{admission.Why{Stand: admission.StandLeased}, nil, ""},
		{admission.Why{Stand: admission.StandAbsent}, nil, ""},
	} {
		f.query = func(name string, _ []any) (any, error) {
			if name == contract.WhyQuery {
				return c.why, nil
			}
			return now, nil
		}
		got := decodeBody[WhyView](t, do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42/why", ""))
		assert.Equal(t, WhyView{Why: c.why, Until: c.until, First: c.first, Next: contract.NextWait}, got)
	}
}
