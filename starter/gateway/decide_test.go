package gateway

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/contract"
)

// answer completes the last update of a script.
func (s *script) answer(v any) {
	s.became(&updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: payloads(v)}})
}

func (s *script) became(outcome *updatepb.Outcome) {
	accepted := s.last().GetEventId()
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateCompletedEventAttributes{
			WorkflowExecutionUpdateCompletedEventAttributes: &historypb.WorkflowExecutionUpdateCompletedEventAttributes{
				AcceptedEventId: accepted,
				Outcome:         outcome}}
	})
}

// A decision that was taken answers as the first time, however late it comes
// again; its id with another content is refused; others learn that they are late.
func TestDecisionsAreMadeOnce(t *testing.T) {
	first := contract.Resolution{ID: "d-1", Actor: "mara", Outcome: "happened", Evidence: "seen", Version: 2}
	stale := temporal.NewNonRetryableApplicationError("version 2 is not the current one", contract.StaleError, nil)
	for name, c := range map[string]struct {
		err    error
		body   string
		status int
		reason string
	}{
		"again, ended":                  {serviceerror.NewNotFound("completed"), `{"id": "d-1", "actor": "mara", "outcome": "happened", "evidence": "seen", "version": 2}`, 200, ""},
		"again, in a later doubt":       {stale, `{"id": "d-1", "actor": "mara", "outcome": "happened", "evidence": "seen", "version": 2}`, 200, ""},
		"the same id, another outcome":  {serviceerror.NewNotFound("completed"), `{"id": "d-1", "actor": "mara", "outcome": "failed", "evidence": "seen", "version": 2}`, 422, "decision_reused"},
		"the same id, another actor":    {stale, `{"id": "d-1", "actor": "tom", "outcome": "happened", "evidence": "seen", "version": 2}`, 422, "decision_reused"},
		"the same id, another evidence": {stale, `{"id": "d-1", "actor": "mara", "outcome": "happened", "evidence": "told", "version": 2}`, 422, "decision_reused"},
		"the same id, another version":  {temporal.NewNonRetryableApplicationError("used", contract.ReusedError, nil), `{"id": "d-1", "actor": "mara", "outcome": "happened", "evidence": "seen", "version": 3}`, 422, "decision_reused"},
		"another id, late":              {stale, `{"id": "d-2", "actor": "tom", "outcome": "failed", "evidence": "told", "version": 2}`, 409, "stale_version"},
		"another id, ended":             {serviceerror.NewNotFound("completed"), `{"id": "d-2", "actor": "tom", "outcome": "failed", "evidence": "told", "version": 2}`, 409, "nothing_to_resolve"},
	} {
		t.Run(name, func(t *testing.T) {
			task, child := &script{}, &script{}
			task.start(acmeInput())
			task.reconcile(1)
			child.resolution(first)
			child.answer(contract.ResolveReply{Verdict: contract.VerdictHappened, Version: 3})
			task.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 1})
			f := &fake{histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": task.events, "reconcile/acme/inv-42/1": child.events},
				update: func(client.UpdateWorkflowOptions) (any, error) { return nil, c.err }}
			f.put(closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))
			r := do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/resolve", c.body)
			require.Equal(t, c.status, r.StatusCode)
			if c.status == 200 {
				assert.Equal(t, contract.ResolveReply{Verdict: contract.VerdictHappened, Version: 3, NextAction: contract.NextWait}, decodeBody[contract.ResolveReply](t, r))
				return
			}
			p := decodeBody[contract.Problem](t, r)
			assert.Equal(t, c.reason, p.Reason)
			assert.NotEmpty(t, p.NextAction)
		})
	}
}

// Of two decisions that were accepted at once the second is refused by the
// handler: it is not taken for one that was carried out, and no story tells it.
func TestADecisionThatLostIsNone(t *testing.T) {
	task, child := &script{}, &script{}
	task.start(acmeInput())
	task.reconcile(1)
	child.resolution(contract.Resolution{ID: "d-1", Actor: "mara", Outcome: "happened", Evidence: "seen", Version: 2})
	child.answer(contract.ResolveReply{Verdict: contract.VerdictHappened, Version: 3})
	child.resolution(contract.Resolution{ID: "d-2", Actor: "tom", Outcome: "failed", Evidence: "told", Version: 2})
	child.became(&updatepb.Outcome{Value: &updatepb.Outcome_Failure{Failure: &failurepb.Failure{Message: "it is decided"}}})
	task.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 1})
	f := &fake{histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": task.events, "reconcile/acme/inv-42/1": child.events},
		update: func(client.UpdateWorkflowOptions) (any, error) {
			return nil, temporal.NewNonRetryableApplicationError("it is decided", contract.StaleError, nil)
		}}
	f.put(closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))
	r := do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/resolve", `{"id": "d-2", "actor": "tom", "outcome": "failed", "evidence": "told", "version": 2}`)
	require.Equal(t, 409, r.StatusCode)
	assert.Equal(t, "stale_version", decodeBody[contract.Problem](t, r).Reason)
	x := decodeBody[contract.Explanation](t, do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42/explain", ""))
	var people []string
	for _, e := range x.Events {
		if e.Name == "resolution" {
			people = append(people, e.Actor)
		}
	}
	assert.Equal(t, []string{"mara"}, people)
}

// Whatever is refused says what the client does next.
func TestEveryProblemHasANextAction(t *testing.T) {
	actions := []string{contract.NextWait, contract.NextUseResult, contract.NextRetryLater, contract.NextAskHuman, contract.NextDoNotRetry}
	for reason := range kinds {
		assert.Contains(t, actions, refuse(reason, "x").NextAction, reason)
	}
	for _, phase := range contract.Phases() {
		assert.Contains(t, actions, contract.NextAction(phase), phase)
	}
}
