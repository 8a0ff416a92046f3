package gateway

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"headgate/admission"
	"headgate/contract"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// Each case is a task's history, and its reconciliation's; testdata/explain holds
// what the gateway makes of them.
func TestExplain(t *testing.T) {
	lease := func(n int) *admission.Lease { return &admission.Lease{ID: fmt.Sprintf("lease-%d", n), Granted: start} }
	atOnce := acmeInput()
	atOnce.Agent = "billing-1"
	atOnce.Ticket.Lease = lease(1)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	dispatched := &contract.Beat{Step: admission.StepDispatching, Attempt: 1, Worker: "worker-1", Build: "b1", Claimed: at(1.2), Dispatching: at(1.4), SendBy: at(9)}
	answer := contract.Outcome{Class: admission.Succeeded, Status: 201, Reference: "ch_1", Worker: "worker-1", Build: "b1", Claimed: at(2.2), Dispatching: at(2.4), SendBy: at(9), Ended: at(3.5)}
	probe := func(s *script, e contract.Evidence) {
		id := s.schedule(contract.ProbeActivity, contract.ProbeInput{Attempt: 1})
		s.begin(id, "worker-2")
		s.complete(id, e)
	}
	open := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING

	for name, c := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		task   func(s *script)
		child  func(s *script)
		seen   func(s *sighting)
	}{
		"succeeded_at_once": {status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, task: func(s *script) {
			s.start(atOnce)
			s.noticed()
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.complete(id, answer)
			s.marker(contract.ReportActivity)
			s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Reference: "ch_1", Available: true, Attempts: 1})
		}},
		"retried_then_succeeded": {status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, task: func(s *script) {
			s.start(acmeInput())
			s.noticed()
			s.signal(contract.DecisionSignal, contract.Decision{Attempt: 1, Lease: lease(1)})
			s.signal(contract.DecisionSignal, contract.Decision{Attempt: 1, Lease: lease(1)}) // resent
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.timeout(id, enumspb.TIMEOUT_TYPE_HEARTBEAT, &contract.Beat{Step: admission.StepClaimed, Attempt: 1, Worker: "worker-1", Build: "b1", Claimed: at(6)})
			s.marker(contract.ReportActivity)
			s.marker(contract.RequestActivity)
			s.signal(contract.DecisionSignal, contract.Decision{Attempt: 2, Lease: lease(2)})
			id = s.effect(2)
			s.begin(id, "worker-2")
			o := answer
			o.Worker, o.Claimed, o.Dispatching, o.SendBy, o.Ended = "worker-2", at(11), at(11), at(20), at(12)
			s.complete(id, o)
			s.marker(contract.ReportActivity)
			s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Reference: "ch_1", Available: true, Attempts: 2,
				Retries: []contract.Count{{Class: "worker_lost", N: 1}}})
		}},
		"handed_over": {status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, task: func(s *script) {
			s.start(acmeInput())
			standby := func(id, after string) contract.Decision {
				return contract.Decision{Attempt: 1, Lease: &admission.Lease{ID: id, Granted: at(2), After: after}}
			}
			s.signal(contract.DecisionSignal, standby("l2", "l1"))
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.complete(id, contract.Outcome{Class: admission.NotDispatched, Reason: contract.StandbyMissed, Worker: "worker-1", Claimed: at(3), Ended: at(4)})
			s.signal(contract.DecisionSignal, standby("l4", "l3"))
			id = s.effect(1)
			s.begin(id, "worker-1")
			o := answer
			o.Worker, o.Claimed, o.Dispatching, o.SendBy, o.Ended = "worker-1", at(11), at(12), at(20), at(13)
			o.Released, o.Successor = true, "l5"
			s.complete(id, o)
			s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Reference: "ch_1", Available: true, Attempts: 1})
		}},
		"waits": {status: open, task: func(s *script) { s.start(acmeInput()); s.noticed() }},
		"waits_for_a_retry": {status: open, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.complete(id, contract.Outcome{Class: admission.Refused, Reason: "rate_limited", Status: 429, RetryAfter: contract.Duration(5 * time.Second), Worker: "worker-1"})
			s.noticed()
			s.marker(contract.ReportActivity)
			s.marker(contract.RequestActivity)
		}},
		"claimed": {status: open, task: func(s *script) { s.start(atOnce); s.effect(1) }, seen: func(s *sighting) {
			withEffect(s.task, running, &contract.Beat{Step: admission.StepClaimed, Attempt: 1, Worker: "worker-1"})
		}},
		"dispatched": {status: open, task: func(s *script) { s.start(atOnce); s.effect(1) }, seen: func(s *sighting) {
			withEffect(s.task, running, dispatched)
		}},
		"unnoticed": {status: open, task: func(s *script) {
			s.start(atOnce)
			s.noticed()
			s.complete(s.effect(1), answer)
		}, seen: func(s *sighting) { s.task.WorkflowExecutionInfo.HistoryLength = 20 }},
		"unknown": {status: open, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.timeout(id, enumspb.TIMEOUT_TYPE_HEARTBEAT, dispatched)
			s.marker(contract.ReportActivity)
			s.reconcile(1)
			s.signal(contract.UnknownSignal, contract.Stand{})
		}, child: func(s *script) {
			for range 5 {
				s.noticed()
			}
			probe(s, contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.Inconclusive, Status: 503})
		}, seen: func(s *sighting) {
			withChild(s.task, 1)
			next := at(60)
			s.child = childOf(&contract.Stand{Version: 3, Phase: contract.PhaseUnknown, Reason: "no_answer", Probes: 4, NextProbe: &next})
		}},
		"resolved_by_a_person": {status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.timeout(id, enumspb.TIMEOUT_TYPE_START_TO_CLOSE, dispatched)
			s.reconcile(1)
			for range 12 {
				s.noticed()
			}
			e := contract.Evidence{Kind: contract.EvidencePerson, Finding: contract.Happened, Actor: "mara", Detail: "seen in the bank's portal"}
			s.reconciled(1, contract.ReconcileResult{Verdict: contract.VerdictHappened, Evidence: []contract.Evidence{e}})
			s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 1, Evidence: []contract.Evidence{e}})
		}, child: func(s *script) {
			for range 6 {
				s.noticed()
			}
			probe(s, contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.DidNotHappen, Status: 404})
			s.signal(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: contract.Outcome{Class: admission.Unknown, Reason: "no_answer", Worker: "worker-1"}})
			s.resolution(contract.Resolution{ID: "1", Actor: "mara", Outcome: contract.Happened, Evidence: "seen in the bank's portal", Version: 2})
		}},
		"called_back": {status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.timeout(id, enumspb.TIMEOUT_TYPE_HEARTBEAT, dispatched)
			s.reconcile(1)
			e := contract.Evidence{Kind: contract.EvidenceCallback, ID: "msg_1", Finding: contract.Happened, Reference: "ch_1"}
			s.signal(contract.EvidenceSignal, contract.LateEvidence{Callback: &e})
			s.reconciled(1, contract.ReconcileResult{Verdict: contract.VerdictHappened, Evidence: []contract.Evidence{e}})
			s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 1, Reference: "ch_1", Evidence: []contract.Evidence{e}})
		}, child: func(s *script) {
			s.signal(contract.EvidenceSignal, contract.LateEvidence{Callback: &contract.Evidence{ID: "msg_1", Finding: contract.Happened}})
		}},
		"called_off": {status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.timeout(id, enumspb.TIMEOUT_TYPE_HEARTBEAT, dispatched)
			s.reconcile(1)
			for range 12 {
				s.noticed()
			}
			e := contract.Evidence{Kind: contract.EvidenceCancel, Finding: contract.DidNotHappen, Status: 200}
			s.reconciled(1, contract.ReconcileResult{Verdict: contract.VerdictFailed, Evidence: []contract.Evidence{e}})
			s.fail(contract.FailedError, contract.TaskResult{Phase: contract.PhaseFailed, Reason: "cancelled_at_provider", Detail: "the provider cancelled it",
				Attempts: 1, Evidence: []contract.Evidence{e}})
		}, child: func(s *script) {
			for range 6 {
				s.noticed()
			}
			probe(s, contract.Evidence{Kind: contract.EvidenceCancel, Finding: contract.DidNotHappen, Status: 200})
		}},
		"verified": {status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.complete(id, answer)
			s.reconcile(1)
			for range 12 {
				s.noticed()
			}
			e := contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.Happened, Status: 200, Reference: "ch_1"}
			s.reconciled(1, contract.ReconcileResult{Verdict: contract.VerdictHappened, Evidence: []contract.Evidence{e}})
			s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 1, Reference: "ch_1", Available: true,
				Evidence: []contract.Evidence{{Kind: contract.EvidenceResponse, Finding: contract.Inconclusive, Detail: "accepted"}, e}})
		}, child: func(s *script) {
			for range 6 {
				s.noticed()
			}
			probe(s, contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.Happened, Status: 200, Reference: "ch_1"})
		}},
		"failed": {status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.complete(id, contract.Outcome{Class: admission.Failed, Reason: "not_authorised", Status: 401, Worker: "worker-1"})
			s.fail(contract.FailedError, contract.TaskResult{Phase: contract.PhaseFailed, Reason: "not_authorised", Attempts: 1})
		}},
		"expired": {status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, task: func(s *script) {
			in := acmeInput()
			deadline := at(2)
			in.Deadline = &deadline
			s.start(in)
			s.signal(contract.DecisionSignal, contract.Decision{Attempt: 1, Reason: admission.Expired, Detail: "the deadline has passed"})
			s.fail(contract.ExpiredError, contract.TaskResult{Phase: contract.PhaseExpired, Reason: "expired"})
		}},
		"cancelled": {status: enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, task: func(s *script) {
			s.start(acmeInput())
			s.cancelRequest("mara")
			s.marker(contract.ReportActivity)
			s.cancel(contract.TaskResult{Phase: contract.PhaseCancelled, Reason: "cancelled", Detail: "cancelled while it waited"})
		}},
		"started_without_the_gateway": {status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, task: func(s *script) {
			in := acmeInput()
			in.Ticket, in.Hash = nil, ""
			s.start(in)
			s.marker(contract.ResolveActivity, contract.Resolved{Hash: "sha256:aa", Operation: &contract.Operation{}})
			s.marker(contract.RequestActivity)
			s.signal(contract.DecisionSignal, contract.Decision{Attempt: 1, Reason: admission.QueueFull, Detail: "1000 of 1000 tasks wait"})
			s.fail(contract.RejectedError, contract.TaskResult{Phase: contract.PhaseRejected, Reason: "queue_full", Detail: "1000 of 1000 tasks wait"})
		}},
		"terminated": {status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, task: func(s *script) {
			s.start(atOnce)
			id := s.effect(1)
			s.begin(id, "worker-1")
			s.timeout(id, enumspb.TIMEOUT_TYPE_HEARTBEAT, dispatched)
			s.terminate("ops@host", "clean-up")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			task, child := &script{}, &script{}
			c.task(task)
			if c.child != nil {
				c.child(child)
			}
			f := &fake{histories: map[string][]*historypb.HistoryEvent{
				"task/acme/inv-42": task.events, "reconcile/acme/inv-42/1": child.events}}
			d := closedTask(c.status)
			s := &sighting{task: d}
			if s.open() {
				d.WorkflowExecutionInfo.CloseTime = nil
			}
			if c.seen != nil {
				c.seen(s)
			}
			f.put(d)
			if s.child != nil {
				f.put(s.child)
			}
			r := do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42/explain", "")
			require.Equal(t, 200, r.StatusCode)
			golden(t, filepath.Join("testdata", "explain", name+".txt"), explanationText(decodeBody[contract.Explanation](t, r)))
		})
	}
}

func explanationText(x contract.Explanation) string {
	var b strings.Builder
	for _, e := range x.Events {
		attempt := ""
		if e.Attempt > 0 {
			attempt = fmt.Sprintf("#%d", e.Attempt)
		}
		fmt.Fprintf(&b, "%s  %-3s %-16s [%s] %s\n", e.At.Format("15:04:05"), attempt, e.Name, e.Actor, e.Detail)
	}
	fmt.Fprintf(&b, "\n%s (%s)\n", x.Sentence, x.Task.Phase)
	return b.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -rewrite, then read the file")
	assert.Equal(t, string(want), got)
}

func TestExplainOfNothing(t *testing.T) {
	r := do(t, newGateway(&fake{}), "GET", "/v1/tasks/acme/inv-42/explain", "")
	assert.Equal(t, 404, r.StatusCode)
}

// What was ended from outside while in doubt is counted no longer, and may be sent
// again by whoever has asked the provider: one advice, not two.
func TestOneAdviceForADoubt(t *testing.T) {
	past := &story{input: contract.TaskInput{Operation: "charge_card", Pinned: &contract.Operation{Doubts: true}}}
	open := sentence(contract.TaskView{Phase: contract.PhaseUnknown}, past)
	assert.Contains(t, open, "do not send it again under another key")
	closed := sentence(contract.TaskView{Phase: contract.PhaseUnknown, Ended: &start}, past)
	assert.Contains(t, closed, "only if it did not happen, send it again with a new key")
	assert.NotContains(t, closed, "another key")
}

// One that stands by is called back for other reasons than a freeze, and the same
// attempt more than once, each time about another lease. What is resent is told once.
func TestStopsAreTold(t *testing.T) {
	s := &script{}
	s.start(acmeInput())
	for _, stop := range []contract.Stop{
		{Attempt: 1, Lease: "l2", Reason: "standby"}, {Attempt: 1, Lease: "l2", Reason: "standby"},
		{Attempt: 1, Lease: "l4", Reason: "charged twice"},
	} {
		s.signal(contract.StopSignal, stop)
	}
	var told []string
	for _, e := range tell(s.events).events[1:] {
		told = append(told, e.Name+": "+e.Detail)
	}
	assert.Equal(t, []string{"stop_requested: it stands by for a place that it may not take any more: the budget decides anew",
		"stop_requested: the operation is frozen: charged twice"}, told)
}

// What was found wrong about a task is told with its story; what was found about
// others is not, and a story is told when nobody can say what was found.
func TestExplainTellsFindings(t *testing.T) {
	script := &script{}
	script.start(acmeInput())
	f := &fake{histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": script.events}}
	f.put(openTask(acmeInput()))
	var asked error
	f.query = func(name string, _ []any) (any, error) {
		require.Equal(t, contract.FindingsQuery, name)
		return contract.FindingsView{Findings: []contract.Finding{
			{Kind: contract.FindingDuplicate, Task: "task/acme/inv-42", Count: 2},
			{Kind: contract.FindingDuplicate, Task: "task/acme/inv-43", Count: 2},
			{Kind: contract.FindingOrphaned, Effect: "hg-planted"}}}, asked
	}
	told := func() contract.Explanation {
		return decodeBody[contract.Explanation](t, do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42/explain", ""))
	}
	x := told()
	require.Len(t, x.Findings, 1)
	require.Equal(t, "task/acme/inv-42", x.Findings[0].Task)
	require.False(t, x.FindingsUnread)
	asked = serviceerror.NewDeadlineExceeded("no worker")
	x = told()
	require.NotEmpty(t, x.Sentence)
	require.Empty(t, x.Findings)
	require.True(t, x.FindingsUnread)
	asked = serviceerror.NewNotFound("none was ever told")
	require.False(t, told().FindingsUnread)
}
