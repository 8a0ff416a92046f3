package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/contract"
)

const (
	scheduled = enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
	running   = enumspb.PENDING_ACTIVITY_STATE_STARTED
)

func beat(step admission.Step) *contract.Beat {
	return &contract.Beat{Step: step, Attempt: 2, Worker: "worker-7", Build: "b1", Claimed: start.Add(time.Second)}
}

func TestViewOfAnOpenTask(t *testing.T) {
	attribute := func(phase string) *workflowservice.DescribeWorkflowExecutionResponse {
		d := openTask(acmeInput())
		d.WorkflowExecutionInfo.SearchAttributes.IndexedFields[contract.PhaseAttribute] = payload(phase)
		return d
	}
	waits := func(build func(s *script)) *story {
		s := &script{}
		s.start(acmeInput())
		build(s)
		return tell(s.events)
	}
	unknownOutcome := contract.Outcome{Class: admission.Unknown, Reason: "no_answer"}
	for name, c := range map[string]struct {
		seen     sighting
		phase    contract.Phase
		attempts int
		worker   string
		detail   string
	}{
		"waits for its first lease":         {sighting{task: openTask(acmeInput())}, contract.PhaseAccepted, 0, "", ""},
		"granted, not yet noticed":          {sighting{task: attribute("leased")}, contract.PhaseLeased, 0, "", ""},
		"waits for a worker":                {sighting{task: withEffect(attribute("leased"), scheduled, nil)}, contract.PhaseLeased, 1, "", ""},
		"a worker has it, no beat":          {sighting{task: withEffect(attribute("leased"), running, nil)}, contract.PhaseLeased, 1, "worker-1", ""},
		"claimed":                           {sighting{task: withEffect(attribute("leased"), running, beat(admission.StepClaimed))}, contract.PhaseClaimed, 2, "worker-7", ""},
		"dispatching":                       {sighting{task: withEffect(attribute("leased"), running, beat(admission.StepDispatching))}, contract.PhaseDispatched, 2, "worker-7", ""},
		"responded":                         {sighting{task: withEffect(attribute("leased"), running, beat(admission.StepResponded))}, contract.PhaseDispatched, 2, "worker-7", ""},
		"asked to stop while dispatching":   {sighting{task: withEffect(attribute("leased"), enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED, beat(admission.StepDispatching))}, contract.PhaseDispatched, 2, "worker-7", ""},
		"a beat of an activity not started": {sighting{task: withEffect(attribute("leased"), scheduled, beat(admission.StepDispatching))}, contract.PhaseLeased, 1, "", ""},
		"the index is behind":               {sighting{task: withEffect(attribute("accepted"), running, beat(admission.StepDispatching))}, contract.PhaseDispatched, 2, "worker-7", ""},
		"reconciliation not begun":          {sighting{task: withChild(attribute("reconciling"), 3)}, contract.PhaseReconciling, 3, "", ""},
		"reconciliation without a stand":    {sighting{task: withChild(attribute("reconciling"), 3), child: childOf(nil)}, contract.PhaseReconciling, 3, "", ""},
		"reconciling": {sighting{task: withChild(attribute("reconciling"), 1),
			child: childOf(&contract.Stand{Version: 1, Phase: contract.PhaseReconciling, Reason: "no_answer"})}, contract.PhaseReconciling, 1, "", ""},
		"unknown": {sighting{task: withChild(attribute("reconciling"), 1),
			child: childOf(&contract.Stand{Version: 2, Phase: contract.PhaseUnknown, Reason: "no_answer"})}, contract.PhaseUnknown, 1, "", ""},
		"waits for its second lease": {sighting{task: attribute("accepted"), past: waits(func(s *script) {
			s.complete(s.effect(1), contract.Outcome{Class: admission.Refused, Reason: "rate_limited"})
			s.noticed()
		})}, contract.PhaseAccepted, 1, "", ""},
		"ended unnoticed, may have acted": {sighting{task: attribute("leased"), past: waits(func(s *script) {
			s.complete(s.effect(1), unknownOutcome)
		})}, contract.PhaseDispatched, 1, "", "the attempt has ended; a control worker has yet to take notice"},
		"lost unnoticed after its claim": {sighting{task: attribute("leased"), past: waits(func(s *script) {
			s.timeout(s.effect(1), enumspb.TIMEOUT_TYPE_HEARTBEAT, &contract.Beat{Step: admission.StepClaimed, Attempt: 1, Claimed: start})
		})}, contract.PhaseClaimed, 1, "", "the attempt has ended; a control worker has yet to take notice"},
		"reconciled unnoticed": {sighting{task: attribute("reconciling"), past: waits(func(s *script) {
			s.complete(s.effect(1), unknownOutcome)
			s.reconcile(1)
			s.noticed()
			s.reconciled(1, contract.ReconcileResult{Verdict: contract.VerdictHappened})
		})}, contract.PhaseReconciling, 1, "", "the reconciliation has ended; a control worker has yet to take notice"},
		"ended unnoticed, has not acted": {sighting{task: attribute("leased"), past: waits(func(s *script) {
			s.complete(s.effect(1), contract.Outcome{Class: admission.NotDispatched})
		})}, contract.PhaseLeased, 1, "", "the attempt has ended; a control worker has yet to take notice"},
	} {
		t.Run(name, func(t *testing.T) {
			v := view(&c.seen)
			assert.Equal(t, c.phase, v.Phase)
			assert.Equal(t, c.attempts, v.Attempts)
			assert.Equal(t, c.worker, v.Worker)
			assert.Equal(t, c.detail, v.Detail)
			delivery, execution := c.phase.States()
			assert.Equal(t, delivery, v.DeliveryState)
			assert.Equal(t, execution, v.ExecutionState)
			assert.Equal(t, contract.NextAction(c.phase), v.NextAction)
			assert.Nil(t, v.Ended)
		})
	}
}

func TestViewNames(t *testing.T) {
	d := openTask(acmeInput())
	d.WorkflowExecutionInfo.SearchAttributes.IndexedFields[contract.AgentAttribute] = payload("billing-1")
	d.WorkflowExtendedInfo.CancelRequested = true
	v := view(&sighting{task: d})
	assert.Equal(t, contract.TaskView{Tenant: "acme", Key: "inv-42", Task: "task/acme/inv-42", Agent: "billing-1", Operation: "charge_card",
		Priority: admission.High, PayloadHash: "sha256:aa", DeliveryState: "ACCEPTED", ExecutionState: "PENDING",
		Phase: contract.PhaseAccepted, Accepted: &start, CancelRequested: true, NextAction: "wait"}, v)

	direct := openTask(contract.TaskInput{Tenant: "acme", Key: "inv-42"})
	direct.WorkflowExecutionInfo.SearchAttributes = &commonpb.SearchAttributes{}
	seen := &sighting{task: direct}
	assert.True(t, needsPast(seen), "a direct start may have no search attributes")
	s := &script{}
	s.start(acmeInput())
	seen.past = tell(s.events)
	v = view(seen)
	assert.Equal(t, "charge_card", v.Operation)
	assert.Equal(t, admission.High, v.Priority)
	assert.Equal(t, "sha256:aa", v.PayloadHash)
}

func TestViewOfAStand(t *testing.T) {
	stand := contract.Stand{Version: 4, Phase: contract.PhaseUnknown, Reason: "no_answer: connection reset: by peer", Since: start, Probes: 3}
	v := view(&sighting{task: withChild(openTask(acmeInput()), 1), child: childOf(&stand)})
	assert.Equal(t, &stand, v.Reconciliation)
	assert.Equal(t, "no_answer", v.ErrorClass)
	assert.Equal(t, "connection reset: by peer", v.Detail)
	assert.Equal(t, "ask_human", v.NextAction)
}

func TestViewOfAClosedTask(t *testing.T) {
	done := func(status enumspb.WorkflowExecutionStatus, build func(s *script)) *sighting {
		s := &script{}
		s.start(acmeInput())
		build(s)
		return &sighting{task: closedTask(status), end: s.last(), past: tell(s.events)}
	}
	const completed, failed, canceled, terminated, timedOut = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
	result := func(p contract.Phase, reason string) contract.TaskResult {
		return contract.TaskResult{Phase: p, Reason: reason, Attempts: 2}
	}
	lost := func(step admission.Step) func(s *script) {
		return func(s *script) {
			b := &contract.Beat{Step: step, Attempt: 1, Worker: "w"}
			s.timeout(s.effect(1), enumspb.TIMEOUT_TYPE_HEARTBEAT, b)
			s.terminate("ops", "oops")
		}
	}
	pending := func(state enumspb.PendingActivityState, b *contract.Beat) *sighting {
		s := done(terminated, func(s *script) { s.effect(1); s.terminate("ops", "oops") })
		withEffect(s.task, state, b)
		return s
	}
	one := func(step admission.Step) *contract.Beat { return &contract.Beat{Step: step, Attempt: 1, Worker: "w"} }
	for name, c := range map[string]struct {
		seen   *sighting
		phase  contract.Phase
		reason string
		next   string
	}{
		"succeeded":                           {done(completed, func(s *script) { s.succeed(result(contract.PhaseSucceeded, "")) }), contract.PhaseSucceeded, "", "use_result"},
		"failed":                              {done(failed, func(s *script) { s.fail(contract.FailedError, result(contract.PhaseFailed, "not_authorised")) }), contract.PhaseFailed, "not_authorised", "do_not_retry"},
		"expired":                             {done(failed, func(s *script) { s.fail(contract.ExpiredError, result(contract.PhaseExpired, "expired")) }), contract.PhaseExpired, "expired", "do_not_retry"},
		"rejected":                            {done(failed, func(s *script) { s.fail(contract.RejectedError, result(contract.PhaseRejected, "cost_above_limit")) }), contract.PhaseRejected, "cost_above_limit", "do_not_retry"},
		"cancelled":                           {done(canceled, func(s *script) { s.cancel(result(contract.PhaseCancelled, "cancelled")) }), contract.PhaseCancelled, "cancelled", "do_not_retry"},
		"cancelled, no details, nothing sent": {done(canceled, func(s *script) { s.cancel() }), contract.PhaseCancelled, "cancelled", "do_not_retry"},
		"cancelled, no details, sent": {done(canceled, func(s *script) {
			s.complete(s.effect(1), contract.Outcome{Class: admission.Unknown})
			s.cancel()
		}), contract.PhaseUnknown, "cancelled", "ask_human"},
		"terminated while it waited": {done(terminated, func(s *script) { s.terminate("ops", "oops") }), contract.PhaseFailed, "terminated", "do_not_retry"},
		"terminated after refusals": {done(terminated, func(s *script) {
			s.complete(s.effect(1), contract.Outcome{Class: admission.Refused})
			s.terminate("ops", "")
		}), contract.PhaseFailed, "terminated", "do_not_retry"},
		"terminated after a success": {done(terminated, func(s *script) {
			s.complete(s.effect(1), contract.Outcome{Class: admission.Succeeded, Reference: "ch_1"})
			s.terminate("ops", "")
		}), contract.PhaseUnknown, "terminated", "ask_human"},
		"terminated, lost claimed":                 {done(terminated, lost(admission.StepClaimed)), contract.PhaseFailed, "terminated", "do_not_retry"},
		"terminated, lost dispatched":              {done(terminated, lost(admission.StepDispatching)), contract.PhaseUnknown, "terminated", "ask_human"},
		"terminated, open, no worker":              {pending(scheduled, nil), contract.PhaseFailed, "terminated", "do_not_retry"},
		"terminated, open, no beat":                {pending(running, nil), contract.PhaseFailed, "terminated", "do_not_retry"},
		"terminated, open, claimed":                {pending(running, one(admission.StepClaimed)), contract.PhaseFailed, "terminated", "do_not_retry"},
		"terminated, open, dispatched":             {pending(running, one(admission.StepDispatching)), contract.PhaseUnknown, "terminated", "ask_human"},
		"terminated, open, nothing is shown of it": {done(terminated, func(s *script) { s.effect(1); s.terminate("ops", "") }), contract.PhaseUnknown, "terminated", "ask_human"},
		"terminated, proven absent": {done(terminated, func(s *script) {
			s.complete(s.effect(1), contract.Outcome{Class: admission.Unknown})
			s.reconcile(1)
			s.reconciled(1, contract.ReconcileResult{Verdict: contract.VerdictDidNotHappen})
			s.terminate("ops", "")
		}), contract.PhaseFailed, "terminated", "do_not_retry"},
		"terminated, in reconciliation": {done(terminated, func(s *script) {
			s.complete(s.effect(1), contract.Outcome{Class: admission.Unknown})
			s.reconcile(1)
			s.terminate("ops", "")
		}), contract.PhaseUnknown, "terminated", "ask_human"},
		"failed by a foreign error":       {done(failed, func(s *script) { s.fail("panic") }), contract.PhaseFailed, "workflow_failed", "do_not_retry"},
		"failed without readable details": {done(failed, func(s *script) { s.effect(1); s.fail(contract.FailedError) }), contract.PhaseUnknown, "workflow_failed", "ask_human"},
		"no history":                      {&sighting{task: closedTask(timedOut)}, contract.PhaseUnknown, "terminated", "ask_human"},
	} {
		t.Run(name, func(t *testing.T) {
			v := view(c.seen)
			assert.Equal(t, c.phase, v.Phase, v.Detail)
			assert.Equal(t, c.reason, v.ErrorClass)
			assert.Equal(t, c.next, v.NextAction)
			assert.Equal(t, start.Add(time.Minute), *v.Ended)
			assert.NotContains(t, v.Detail, "\n")
		})
	}
}

func TestViewKeepsTheAnswerOfATerminatedTask(t *testing.T) {
	s := &script{}
	s.start(acmeInput())
	s.effect(1)
	s.terminate("ops", "oops")
	seen := &sighting{task: closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED), end: s.last(), past: tell(s.events)}
	withEffect(seen.task, running, &contract.Beat{Step: admission.StepResponded, Attempt: 1, Worker: "w",
		Outcome: &contract.Outcome{Class: admission.Succeeded, Reference: "ch_1", Status: 201}})
	v := view(seen)
	assert.Equal(t, contract.PhaseUnknown, v.Phase)
	assert.Equal(t, "ch_1", v.Evidence[0].Reference)
	assert.Equal(t, contract.Happened, v.Evidence[0].Finding)
	assert.Contains(t, v.Detail, "terminated by ops: oops")
}

func TestViewOfAResult(t *testing.T) {
	r := contract.TaskResult{Phase: contract.PhaseSucceeded, Result: []byte(`{"id":"ch_1"}`), Available: true, Reference: "ch_1", Attempts: 2,
		Retries: []contract.Count{{Class: "worker_lost", N: 1}}}
	s := &script{}
	s.succeed(r)
	v := view(&sighting{task: closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), end: s.last()})
	assert.JSONEq(t, `{"id":"ch_1"}`, string(v.Result))
	assert.True(t, v.Available)
	assert.Equal(t, "ch_1", v.Reference)
	assert.Equal(t, r.Retries, v.Retries)
	assert.Equal(t, "SUCCEEDED", v.ExecutionState)
}

func TestNeedsPast(t *testing.T) {
	long := openTask(acmeInput())
	long.WorkflowExecutionInfo.HistoryLength = attemptless + 1
	busy := withEffect(openTask(acmeInput()), running, nil)
	busy.WorkflowExecutionInfo.HistoryLength = 40
	s := &script{}
	s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded})
	completed := closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	assert.False(t, needsPast(&sighting{task: openTask(acmeInput())}))
	assert.True(t, needsPast(&sighting{task: long}))
	assert.False(t, needsPast(&sighting{task: busy}))
	assert.False(t, needsPast(&sighting{task: completed, end: s.last()}))
	assert.True(t, needsPast(&sighting{task: completed}))
	assert.True(t, needsPast(&sighting{task: &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{}}}))
}
