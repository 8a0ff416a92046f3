package gateway

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

func unknownTask() (*workflowservice.DescribeWorkflowExecutionResponse, *workflowservice.DescribeWorkflowExecutionResponse) {
	return withChild(openTask(acmeInput()), 1), childOf(&contract.Stand{Version: 3, Phase: contract.PhaseUnknown})
}

func TestCancel(t *testing.T) {
	succeeded := &script{}
	succeeded.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded})
	unknown, child := unknownTask()
	for name, c := range map[string]struct {
		task   *workflowservice.DescribeWorkflowExecutionResponse
		err    error
		status int
		reason string
		next   string
	}{
		"waiting":        {openTask(acmeInput()), nil, 202, "", "wait"},
		"claimed":        {withEffect(openTask(acmeInput()), running, &contract.Beat{Step: admission.StepClaimed, Attempt: 1}), nil, 202, "", "wait"},
		"dispatched":     {withEffect(openTask(acmeInput()), running, &contract.Beat{Step: admission.StepDispatching, Attempt: 1}), nil, 409, "already_dispatched", "wait"},
		"unknown":        {unknown, nil, 409, "already_dispatched", "ask_human"},
		"ended":          {closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), nil, 409, "already_ended", "use_result"},
		"ended just now": {openTask(acmeInput()), serviceerror.NewNotFound("already completed"), 409, "already_ended", "do_not_retry"},
		"unreachable":    {openTask(acmeInput()), serviceerror.NewUnavailable("down"), 503, "temporal_unavailable", "retry_later"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{cancelErr: c.err, histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": succeeded.events}}
			f.put(c.task)
			f.put(child)
			r := do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/cancel", `{"actor": "mara", "reason": "typo"}`)
			require.Equal(t, c.status, r.StatusCode)
			if c.status == 202 {
				v := decodeBody[contract.TaskView](t, r)
				assert.True(t, v.CancelRequested)
				assert.Equal(t, []string{"task/acme/inv-42 by mara: typo"}, f.cancelled)
				return
			}
			p := decodeBody[contract.Problem](t, r)
			assert.Equal(t, c.reason, p.Reason)
			assert.Equal(t, c.next, p.NextAction)
			if c.err == nil {
				assert.Empty(t, f.cancelled)
			}
		})
	}
	assert.Equal(t, 404, do(t, newGateway(&fake{}), "POST", "/v1/tasks/acme/inv-42/cancel", "").StatusCode)
	assert.Equal(t, 400, do(t, newGateway(&fake{}), "POST", "/v1/tasks/acme/inv-42/cancel", `{"force": true}`).StatusCode)
}

func TestResolve(t *testing.T) {
	const word = `{"outcome": "happened", "evidence": "seen in the portal", "version": 3, "id": "d-1", "actor": "mara"}`
	app := func(kind string) error {
		return temporal.NewNonRetryableApplicationError("version 3 is not the current one", kind, nil)
	}
	for name, c := range map[string]struct {
		err    error
		status int
		reason string
	}{
		"taken":                      {nil, 200, ""},
		"stale":                      {app(contract.StaleError), 409, "stale_version"},
		"ended meanwhile":            {app(updateLost), 409, "stale_version"},
		"invalid by the workflow":    {app(contract.InvalidError), 400, "invalid_request"},
		"refused for another reason": {app("strange"), 409, "resolution_refused"},
		"no reconciliation":          {serviceerror.NewNotFound("workflow not found"), 409, "nothing_to_resolve"},
		"unreachable":                {serviceerror.NewUnavailable("down"), 503, "temporal_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{update: func(client.UpdateWorkflowOptions) (any, error) {
				return contract.ResolveReply{Verdict: contract.VerdictHappened, Version: 4}, c.err
			}}
			task, child := unknownTask()
			f.put(task)
			f.put(child)
			r := do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/resolve", word)
			require.Equal(t, c.status, r.StatusCode)
			require.Len(t, f.updates, 1)
			assert.Equal(t, "reconcile/acme/inv-42/1", f.updates[0].WorkflowID)
			assert.Equal(t, contract.Resolution{ID: "d-1", Actor: "mara", Outcome: "happened", Evidence: "seen in the portal", Version: 3}, f.updates[0].Args[0])
			if c.status == 200 {
				assert.Equal(t, contract.ResolveReply{Verdict: "happened", Version: 4, NextAction: contract.NextWait}, decodeBody[contract.ResolveReply](t, r))
			} else {
				assert.Equal(t, c.reason, decodeBody[contract.Problem](t, r).Reason)
			}
		})
	}
}

// One decision is one update, whatever its id is used for afterwards.
func TestDecisionID(t *testing.T) {
	word := contract.Resolution{ID: "d-1", Actor: "mara", Outcome: contract.Happened, Evidence: "seen", Version: 3}
	otherWord := word
	otherWord.Outcome = contract.DidNotHappen
	assert.Equal(t, updateID("resolve", word), updateID("resolve", word))
	assert.NotEqual(t, updateID("resolve", word), updateID("resolve", otherWord))
}

// After its reconciliation has ended, only a decision that it took is answered.
func TestResolveAfterTheEnd(t *testing.T) {
	end := &script{}
	end.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 2})
	f := &fake{histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": end.events},
		update: func(client.UpdateWorkflowOptions) (any, error) {
			return nil, serviceerror.NewNotFound("workflow execution already completed")
		}}
	f.put(closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))
	r := do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/resolve", `{"outcome": "failed", "evidence": "x", "version": 1}`)
	assert.Equal(t, 409, r.StatusCode)
	assert.Equal(t, "nothing_to_resolve", decodeBody[contract.Problem](t, r).Reason)
	assert.Equal(t, "reconcile/acme/inv-42/2", f.updates[0].WorkflowID)
	assert.Equal(t, someone, f.updates[0].Args[0].(contract.Resolution).Actor)
	assert.NotEmpty(t, f.updates[0].Args[0].(contract.Resolution).ID)
}

func TestOrders(t *testing.T) {
	echo := func(o client.UpdateWorkflowOptions) (any, error) { return o.Args[0], nil }
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       contract.PauseRequest
	}{
		"pause, nothing said":     {"pause", "", 200, contract.PauseRequest{Tenant: "acme", Dispatch: true, Actor: someone}},
		"pause admission too":     {"pause", `{"admission": true, "reason": "audit", "actor": "mara"}`, 200, contract.PauseRequest{Tenant: "acme", Dispatch: true, Admission: true, Reason: "audit", Actor: "mara"}},
		"pause admission only":    {"pause", `{"dispatch": false, "admission": true, "until": null}`, 200, contract.PauseRequest{Tenant: "acme", Admission: true, Actor: someone}},
		"pause nothing":           {"pause", `{"dispatch": false}`, 400, contract.PauseRequest{}},
		"until is past":           {"pause", `{"until": "2026-12-01T10:00:00Z"}`, 400, contract.PauseRequest{}},
		"unknown field":           {"pause", `{"untill": null}`, 400, contract.PauseRequest{}},
		"resume":                  {"resume", "", 200, contract.PauseRequest{Tenant: "acme", Actor: someone}},
		"resume, empty object":    {"resume", `{}`, 200, contract.PauseRequest{Tenant: "acme", Actor: someone}},
		"resume, partly":          {"resume", `{"dispatch": false}`, 400, contract.PauseRequest{}},
		"pause, something else":   {"pause", `[]`, 400, contract.PauseRequest{}},
		"pause, a reason too big": {"pause", `{"reason": "` + longText + `"}`, 400, contract.PauseRequest{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{update: echo}
			r := do(t, newGateway(f), "POST", "/v1/tenants/acme/"+c.path, c.body)
			require.Equal(t, c.status, r.StatusCode)
			if c.status == 200 {
				assert.Equal(t, c.want, decodeBody[contract.PauseRequest](t, r))
				assert.Equal(t, "budget/default", f.updates[0].WorkflowID)
			} else {
				assert.Empty(t, f.updates)
			}
		})
	}
	assert.Equal(t, 400, do(t, newGateway(&fake{}), "POST", "/v1/tenants/a%20b/pause", "").StatusCode)
	f := &fake{update: func(client.UpdateWorkflowOptions) (any, error) { return nil, serviceerror.NewNotFound("no budget") }}
	assert.Equal(t, 503, do(t, newGateway(f), "POST", "/v1/tenants/acme/pause", "").StatusCode)
}

// An order that meets the end of the budget's run is given to the next one.
func TestOrdersAcrossContinueAsNew(t *testing.T) {
	for name, cut := range map[string]error{
		"cut off": temporal.NewNonRetryableApplicationError("the workflow completed before the update completed", updateLost, nil),
		"between": serviceerror.NewWorkflowNotReady("between two runs"),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			f.update = func(o client.UpdateWorkflowOptions) (any, error) {
				if len(f.updates) < updateTries {
					return nil, cut
				}
				return o.Args[0], nil
			}
			require.Equal(t, 200, do(t, newGateway(f), "POST", "/v1/tenants/acme/pause", "").StatusCode)
			require.Len(t, f.updates, updateTries)
			f = &fake{update: func(client.UpdateWorkflowOptions) (any, error) { return nil, cut }}
			require.Equal(t, 503, do(t, newGateway(f), "POST", "/v1/tenants/acme/pause", "").StatusCode)
			require.Len(t, f.updates, updateTries, "not for ever")
		})
	}
}

func TestResolveBadInput(t *testing.T) {
	for _, body := range []string{"", "{}", `{"outcome": "maybe", "evidence": "x", "version": 1}`, `{"outcome": "happened", "version": 1}`,
		`{"outcome": "happened", "evidence": "x"}`, `{"outcome": "happened", "evidence": "x", "version": "1"}`,
		`{"outcome": "happened", "evidence": "x", "version": 1, "version": 2}`, `{"outcome": "happened", "evidence": "x", "version": 1, "force": true}`,
		`{"outcome": "happened", "evidence": "x", "version": 1, "actor": "` + longText + `"}`} {
		f := &fake{}
		assert.Equal(t, 400, do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/resolve", body).StatusCode, body)
		assert.Empty(t, f.updates)
	}
}
