package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"headgate/admission"
	"headgate/contract"
)

func called(id, finding string) contract.LateEvidence {
	return contract.LateEvidence{Callback: &contract.Evidence{Kind: contract.EvidenceCallback, ID: id, Finding: finding, Reference: "ch_7"}}
}

func calledBack() contract.Operation {
	op := operation()
	op.Retry.MaxAge = contract.Duration(24 * time.Hour)
	op.Probe = probe()
	op.Probe.URL = ""
	op.Probe.Callback = &contract.Callback{Secret: "S", Key: "body.key", Happened: "true", Within: contract.Duration(time.Minute)}
	return op
}

func TestCallback(t *testing.T) {
	at := func(s *stage, after time.Duration, calls ...contract.LateEvidence) {
		s.RegisterDelayedCallback(func() {
			for _, c := range calls {
				s.SignalWorkflow(contract.EvidenceSignal, c)
			}
		}, after)
	}
	t.Run("it happened", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		at(s, 30*time.Second, called("m1", contract.Inconclusive), called("m1", contract.Happened), called("m2", contract.Happened))
		res := s.run(input(calledBack()))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Equal(t, "ch_7", res.Reference)
		require.Len(t, res.Evidence, 2, "one ID counts once")
		require.Equal(t, "m2", res.Evidence[1].ID)
		require.Len(t, s.effects, 1)
		require.Zero(t, s.probes)
	})
	t.Run("it failed, and only one attempt was sent", func(t *testing.T) {
		s := newStage(t)
		s.outcome = unclear(s)
		at(s, 30*time.Second, called("m1", contract.DidNotHappen))
		require.Equal(t, contract.PhaseSucceeded, s.run(input(calledBack())).Phase)
		require.Len(t, s.effects, 2)
	})
	t.Run("it failed, but that may be another attempt", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(n int) (contract.Outcome, error) {
			if n == 1 {
				return contract.Outcome{Class: admission.Refused, Reason: "declared_harmless", Dispatching: s.Now().Add(-time.Minute)}, nil
			}
			return contract.Outcome{Class: admission.Unknown, Reason: "no_answer", Dispatching: s.Now()}, nil
		}
		at(s, 30*time.Second, called("m1", contract.DidNotHappen))
		at(s, time.Hour, called("m2", contract.Happened))
		res := s.run(input(calledBack()))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.effects, 2, "nothing is sent again without proof")
	})
	t.Run("a person is asked when none comes in time", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		early := s.resolveAt(59*time.Second, contract.Happened, 2)
		s.resolveAt(61*time.Second, contract.FailedFinding, 2)
		require.Equal(t, "resolved_failed", s.run(input(calledBack())).Reason)
		require.False(t, *early)
	})
	t.Run("about a task that was pinned before callbacks were declared", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		at(s, time.Hour, called("m1", contract.Happened))
		require.Equal(t, contract.PhaseSucceeded, s.run(input(operation())).Phase)
	})
	t.Run("while it waits for a retry", func(t *testing.T) {
		s := newStage(t)
		s.asked = func(contract.AttemptRequest) {}
		s.outcome = func(int) (contract.Outcome, error) {
			return contract.Outcome{Class: admission.Refused, Reason: "rate_limited"}, nil
		}
		at(s, time.Minute, called("m1", contract.DidNotHappen))
		at(s, 2*time.Minute, called("m2", contract.Happened))
		res := s.run(input(calledBack()))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.effects, 1)
		require.Equal(t, admission.Withdrawn, s.reports[1].Kind)
	})
	t.Run("before a refusal would end it FAILED", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) {
			s.SignalWorkflow(contract.EvidenceSignal, called("m1", contract.Happened))
			return contract.Outcome{Class: admission.Failed, Reason: "rejected_by_provider"}, nil
		}
		require.Equal(t, contract.PhaseSucceeded, s.run(input(calledBack())).Phase)
	})
}

func leasedProbe() contract.Operation {
	op := operation()
	op.Probe = probe()
	op.Probe.Cost = []admission.Cost{{Resource: "looks", Amount: 1}}
	return op
}

// A probe asks for a lease like anything else, makes no request without it, and
// gives it back.
func TestProbesAreLeased(t *testing.T) {
	reconcile := contract.ReconcileID("acme", "k/1", 1)
	lease := func(s *stage, r contract.AttemptRequest) {
		require.NoError(t, s.SignalWorkflowByID(r.Task, contract.DecisionSignal, contract.Decision{Attempt: r.Attempt, Lease: &admission.Lease{ID: "p"}}))
	}
	t.Run("one at a time", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		s.probe = func(n int) (contract.Evidence, error) {
			require.Len(t, s.requests, n, "no probe without a lease")
			e, err := finding([]string{contract.Inconclusive, contract.Happened}[n/3])(n)
			e.Status = []int{0, 0, 429, 200}[n]
			return e, err
		}
		s.asked = func(r contract.AttemptRequest) {
			require.Equal(t, "charge:probe", r.Operation)
			require.Equal(t, []admission.Cost{{Resource: "looks", Amount: 1}}, r.Cost)
			require.False(t, r.Admit, "a doubt is not refused")
			s.RegisterDelayedCallback(func() { lease(s, r) }, time.Minute)
		}
		require.Equal(t, contract.PhaseSucceeded, s.run(input(leasedProbe())).Phase)
		require.Equal(t, 3, s.probes)
		require.Len(t, s.reports, 4, "of the attempt, and of each probe")
		for i, class := range []admission.Class{admission.Unknown, admission.Refused, admission.Succeeded} {
			r := s.reports[i+1]
			require.Equal(t, reconcile, r.Task)
			require.Equal(t, i+1, r.Attempt)
			require.Equal(t, admission.Released, r.Kind)
			require.Equal(t, class, r.Class)
		}
	})
	t.Run("decided while it waits", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		s.asked = func(contract.AttemptRequest) {}
		s.resolveAt(time.Hour, contract.Happened, 1)
		require.Equal(t, contract.PhaseSucceeded, s.run(input(leasedProbe())).Phase)
		require.Zero(t, s.probes)
		require.Equal(t, admission.Withdrawn, s.reports[1].Kind)
		require.Equal(t, reconcile, s.reports[1].Task)
	})
	t.Run("refused by the budget", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		s.asked = func(r contract.AttemptRequest) {
			require.NoError(t, s.SignalWorkflowByID(r.Task, contract.DecisionSignal, contract.Decision{Attempt: r.Attempt, Reason: admission.UnknownResource}))
		}
		s.resolveAt(time.Hour, contract.FailedFinding, 2)
		require.Equal(t, "resolved_failed", s.run(input(leasedProbe())).Reason, "a person was asked")
		require.Zero(t, s.probes)
	})
}

// A person's word ends a reconciliation while a probe is under way: the probe's
// answer changes nothing any more.
func TestLateProbeIsDiscarded(t *testing.T) {
	s := newStage(t)
	s.outcome = inDoubt
	s.RegisterActivityWithOptions(func(context.Context, contract.ProbeInput) (contract.Evidence, error) {
		require.NoError(t, s.UpdateWorkflowByID(contract.ReconcileID("acme", "k/1", 1), contract.ResolveUpdate, "mid", &callback{},
			contract.Resolution{ID: "d1", Actor: "ann", Outcome: contract.FailedFinding, Evidence: "seen", Version: 1}))
		return contract.Evidence{Finding: contract.Happened, Reference: "ch_9"}, nil
	}, activity.RegisterOptions{Name: contract.ProbeActivity, DisableAlreadyRegisteredCheck: true})
	op := operation()
	op.Probe = probe()
	res := s.run(input(op))
	require.Equal(t, "resolved_failed", res.Reason)
	require.Len(t, res.Evidence, 1)
	require.Equal(t, contract.EvidencePerson, res.Evidence[0].Kind)
}

// What the provider has said before the last step is known when it is made: a
// second effect is worse than a wasted lease.
func TestEvidenceOfTheLastMomentCounts(t *testing.T) {
	looked := func() contract.Operation {
		op := calledBack()
		op.Probe.URL = "http://x"
		return op
	}
	t.Run("during the look-up that would prove absence", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		s.probe = func(n int) (contract.Evidence, error) {
			if n == 2 {
				s.SignalWorkflow(contract.EvidenceSignal, called("m1", contract.Happened))
			}
			return contract.Evidence{Finding: contract.DidNotHappen}, nil
		}
		res := s.run(input(looked()))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Equal(t, contract.EvidenceCallback, res.Evidence[len(res.Evidence)-1].Kind)
		require.Len(t, s.effects, 1)
	})
	t.Run("together with the lease of the retry", func(t *testing.T) {
		s := newStage(t)
		s.outcome, s.probe = inDoubt, finding(contract.DidNotHappen)
		s.asked = func(r contract.AttemptRequest) {
			s.grant(r.Attempt) // both before the task listens
			s.SignalWorkflow(contract.EvidenceSignal, called("m1", contract.Happened))
		}
		res := s.run(input(looked()))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.effects, 1)
		require.Equal(t, admission.Withdrawn, s.reports[len(s.reports)-1].Kind, "the lease comes back")
	})
}
