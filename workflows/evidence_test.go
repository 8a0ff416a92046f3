package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// inDoubt loses the first attempt after dispatch; further ones succeed.
func inDoubt(n int) (contract.Outcome, error) {
	if n == 1 {
		return contract.Outcome{}, lostAt(admission.StepDispatching, 1, nil)
	}
	return succeeded()
}

// unclear is an outcome that the worker itself gave, with the time of its send.
func unclear(s *stage) func(int) (contract.Outcome, error) {
	return func(n int) (contract.Outcome, error) {
		if n == 1 {
			return contract.Outcome{Class: admission.Unknown, Reason: "no_answer", Dispatching: s.Now().Add(-time.Second)}, nil
		}
		return succeeded()
	}
}

func finding(f string) func(int) (contract.Evidence, error) {
	return func(int) (contract.Evidence, error) { return contract.Evidence{Finding: f, Reference: "ch_9"}, nil }
}

// resolveAt lets a person decide at a time, on what is shown then.
func (s *stage) resolveAt(after time.Duration, outcome string, version int) (accepted *bool) {
	accepted = new(bool)
	s.RegisterDelayedCallback(func() {
		*accepted = true
		_ = s.UpdateWorkflowByID(contract.ReconcileID("acme", "k/1", 1), contract.ResolveUpdate, after.String(),
			&callback{reject: func(error) { *accepted = false }},
			contract.Resolution{ID: "d1", Actor: "ann", Outcome: outcome, Evidence: "seen", Version: version})
	}, after)
	return accepted
}

// Nothing found is absence only where the provider's declaration makes it so.
func TestAbsenceIsConcludedAsDeclared(t *testing.T) {
	second := contract.Duration(time.Second)
	for name, c := range map[string]struct {
		lookup *contract.Lookups
		again  bool
	}{
		"covered, consistent, lag known": {&contract.Lookups{Covers: contract.CoversAll, Consistent: true, Lag: &second}, true},
		"nothing declared of look-ups":   {nil, false},
		"only successes are found":       {&contract.Lookups{Covers: contract.CoversSucceeded, Consistent: true, Lag: &second}, false},
		"reads may differ":               {&contract.Lookups{Covers: contract.CoversAll, Lag: &second}, false},
		"unknown lag":                    {&contract.Lookups{Covers: contract.CoversAll, Consistent: true}, false},
		"kept for too short":             {&contract.Lookups{Covers: contract.CoversAll, Consistent: true, Lag: &second, Keeps: second}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.outcome, s.probe = inDoubt, finding(contract.DidNotHappen)
			op := operation()
			op.Probe, op.Provider = probe(), &contract.Provider{Version: "1", Lookup: c.lookup}
			s.resolveAt(time.Hour, contract.FailedFinding, 2)
			res := s.run(input(op))
			if c.again {
				require.Equal(t, contract.PhaseSucceeded, res.Phase)
				require.Len(t, s.effects, 2)
				require.Equal(t, 2, s.probes)
				return
			}
			require.Equal(t, "resolved_failed", res.Reason, "a person was asked")
			require.Len(t, s.effects, 1, "nothing is sent again without proof")
			require.Greater(t, s.probes, 2)
		})
	}
}

func TestLookupsWaitForTheDeclaredLag(t *testing.T) {
	s := newStage(t)
	begun := s.Now()
	var asked []time.Duration
	s.outcome = inDoubt
	s.probe = func(int) (contract.Evidence, error) {
		asked = append(asked, s.Now().Sub(begun))
		return contract.Evidence{Finding: contract.DidNotHappen}, nil
	}
	minute := contract.Duration(time.Minute)
	op := operation()
	op.Probe = probe()
	op.Provider = &contract.Provider{Version: "1", Lookup: &contract.Lookups{Covers: contract.CoversAll, Consistent: true, Lag: &minute}}
	require.Equal(t, contract.PhaseSucceeded, s.run(input(op)).Phase)
	require.Len(t, asked, 2)
	require.GreaterOrEqual(t, asked[0], time.Minute+2*time.Second, "the lag after the fence of a lost worker")
}

// An error that the provider has stored under the key is no reason to send it again.
func TestCachedErrorsAreNotReplayed(t *testing.T) {
	for cached, sent := range map[bool]int{false: 2, true: 1} {
		s := newStage(t)
		s.outcome = func(n int) (contract.Outcome, error) {
			if n == 1 {
				return contract.Outcome{Class: admission.Unknown, Reason: "provider_error", Status: 500}, nil
			}
			return succeeded()
		}
		op := operation()
		op.Replay = contract.Replay{Class: contract.ReplayKeyed, Window: contract.Duration(time.Hour)}
		op.Provider = &contract.Provider{Version: "1", KeyWindow: contract.Duration(time.Hour), ErrorsCached: cached}
		s.resolveAt(time.Hour, contract.Happened, 2)
		require.Equal(t, contract.PhaseSucceeded, s.run(input(op)).Phase)
		require.Len(t, s.effects, sent, "cached: %v", cached)
	}
}

// A keyed replay must reach the provider while that certainly remembers the key.
func TestReplayStopsBeforeTheWindowCloses(t *testing.T) {
	for name, c := range map[string]struct {
		lag  time.Duration // how long the outcome was in doubt before it is decided
		sent int
	}{"in time": {30 * time.Second, 2}, "just closed": {50 * time.Second, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.outcome, s.probe = unclear(s), finding(contract.Inconclusive)
			op := operation()
			op.Replay = contract.Replay{Class: contract.ReplayKeyed, Window: contract.Duration(time.Minute)}
			op.Provider = &contract.Provider{Version: "1", KeyWindow: contract.Duration(time.Minute)}
			op.Probe = probe()
			op.Probe.Attempts, op.Probe.Settle = 1, contract.Duration(c.lag)
			s.resolveAt(time.Hour, contract.Happened, 2)
			require.Equal(t, contract.PhaseSucceeded, s.run(input(op)).Phase)
			require.Len(t, s.effects, c.sent)
		})
	}
}

// A doubt is not resolved by a cancel request to the reconciliation itself.
func TestReconcileIsNotCancelled(t *testing.T) {
	s := newStage(t)
	s.probe = finding(contract.Inconclusive)
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
	s.RegisterDelayedCallback(func() {
		s.UpdateWorkflow(contract.ResolveUpdate, "1", &callback{reject: func(err error) { require.NoError(t, err) }},
			contract.Resolution{ID: "d1", Actor: "ann", Outcome: contract.FailedFinding, Evidence: "seen", Version: 2})
	}, 48*time.Hour)
	op := operation()
	op.Probe = probe()
	s.ExecuteWorkflow(contract.ReconcileWorkflow, contract.ReconcileInput{Tenant: "acme", Key: "k/1", Attempt: 1, Operation: op})
	require.NoError(t, s.GetWorkflowError())
	require.Less(t, s.probes, 100, "it looks as seldom as before")
	require.Greater(t, s.probes, 40)
}

func cancelling(then string) contract.Operation {
	op := operation()
	op.Probe = probe()
	op.Probe.URL = ""
	op.Probe.Cancel = &contract.Cancel{Method: "POST", URL: "http://x/{key}", DidNotHappen: "true", Then: then}
	return op
}

func TestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		then, finding string
		phase         contract.Phase
		reason        string
		effects       int
	}{
		"called off":                    {contract.ThenFail, contract.DidNotHappen, contract.PhaseFailed, "cancelled_at_provider", 1},
		"called off, the key is reused": {contract.ThenRetry, contract.DidNotHappen, contract.PhaseSucceeded, "", 2},
		"too late":                      {contract.ThenFail, contract.Happened, contract.PhaseSucceeded, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.outcome, s.probe = inDoubt, finding(c.finding)
			res := s.run(input(cancelling(c.then)))
			require.Equal(t, c.phase, res.Phase, "%+v", res)
			require.Equal(t, c.reason, res.Reason)
			require.Equal(t, []string{contract.ProbeCancel}, s.kinds)
			require.Len(t, s.effects, c.effects)
		})
	}
	t.Run("called off: what a fenced worker saw before counts no more", func(t *testing.T) {
		s := newStage(t)
		s.outcome, s.probe = inDoubt, finding(contract.DidNotHappen)
		late, _ := succeeded()
		s.asked = func(r contract.AttemptRequest) {
			s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: late})
			s.RegisterDelayedCallback(func() { s.grant(r.Attempt) }, time.Minute)
		}
		require.Equal(t, contract.PhaseSucceeded, s.run(input(cancelling(contract.ThenRetry))).Phase)
		require.Len(t, s.effects, 2, "the cancelled effect is no success")
	})
	t.Run("after the look-ups", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		s.probe = func(n int) (contract.Evidence, error) {
			return finding([]string{contract.Inconclusive, contract.DidNotHappen}[n/4])(n)
		}
		op := cancelling(contract.ThenFail)
		op.Probe.URL = "http://x"
		require.Equal(t, "cancelled_at_provider", s.run(input(op)).Reason)
		require.Equal(t, []string{"", "", "", contract.ProbeCancel}, s.kinds)
	})
	t.Run("a worker that knows no cancels has called nothing off", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		s.probe = func(int) (contract.Evidence, error) {
			return contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.DidNotHappen}, nil
		}
		op := cancelling(contract.ThenFail)
		op.Probe.Attempts, op.Probe.Max = 1, contract.Duration(100*time.Hour)
		s.resolveAt(time.Minute, contract.Happened, 3)
		require.Equal(t, contract.PhaseSucceeded, s.run(input(op)).Phase)
		require.Len(t, s.effects, 1)
	})
	t.Run("not while the provider deduplicates", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		op := cancelling(contract.ThenFail)
		op.Replay = contract.Replay{Class: contract.ReplayKeyed, Window: contract.Duration(time.Hour)}
		require.Equal(t, contract.PhaseSucceeded, s.run(input(op)).Phase)
		require.Empty(t, s.kinds)
	})
}

// Once a cancel may have landed, what was seen before it decides nothing: only
// the provider's answer to it does, or a person who knows of it.
func TestAfterACancelEarlierEvidenceDoesNotDecide(t *testing.T) {
	s := newStage(t)
	s.outcome = inDoubt
	s.probe = func(n int) (contract.Evidence, error) {
		return finding([]string{contract.Inconclusive, contract.DidNotHappen}[min(n/9, 1)])(n)
	}
	late, _ := succeeded()
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: late})
	}, time.Minute)
	stale := s.resolveAt(2*time.Minute, contract.Happened, 1)
	res := s.run(input(cancelling(contract.ThenFail)))
	require.Equal(t, "cancelled_at_provider", res.Reason)
	require.False(t, *stale, "version 1 had not seen the cancel")
	require.Len(t, s.effects, 1)
	require.Equal(t, contract.EvidenceLate, res.Evidence[0].Kind, "it is kept all the same")
}

func TestVerify(t *testing.T) {
	accepted := func(int) (contract.Outcome, error) { return succeeded() }
	verified := func(class string) contract.Operation {
		op := operation()
		op.Replay = contract.Replay{Class: class, Window: contract.Duration(time.Hour)}
		op.Probe = probe()
		op.Probe.Verify = true
		return op
	}
	t.Run("an accepted request is a success once it is seen", func(t *testing.T) {
		s := newStage(t)
		s.outcome = accepted
		s.probe = func(n int) (contract.Evidence, error) {
			return finding([]string{contract.Inconclusive, contract.Happened}[n/2])(n)
		}
		res := s.run(input(verified(contract.ReplaySafe)))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Equal(t, "ch_9", res.Reference)
		require.JSONEq(t, `{"id":1}`, string(res.Result), "the answer was not lost")
		require.True(t, res.Available)
		require.Equal(t, []string{contract.EvidenceResponse, contract.EvidenceLookup}, []string{res.Evidence[0].Kind, res.Evidence[1].Kind})
		require.Equal(t, contract.Inconclusive, res.Evidence[0].Finding, "accepted is no more than that")
		require.Equal(t, admission.Succeeded, s.reports[0].Class, "the provider did answer")
	})
	for _, class := range []string{contract.ReplaySafe, contract.ReplayKeyed, contract.ReplayNever} {
		t.Run("one that is never seen is not sent again, "+class, func(t *testing.T) {
			s := newStage(t)
			s.outcome, s.probe = accepted, finding(contract.Inconclusive)
			s.resolveAt(24*time.Hour, contract.Happened, 2)
			require.Equal(t, contract.PhaseSucceeded, s.run(input(verified(class))).Phase)
			require.Len(t, s.effects, 1)
		})
	}
	t.Run("one that came to nothing is tried again", func(t *testing.T) {
		s := newStage(t)
		s.outcome = accepted
		s.probe = func(n int) (contract.Evidence, error) {
			return finding([]string{contract.DidNotHappen, contract.Happened}[n/3])(n)
		}
		res := s.run(input(verified(contract.ReplayNever)))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.effects, 2)
	})
	t.Run("a fenced worker's success stops the retry until it is verified", func(t *testing.T) {
		s := newStage(t)
		s.outcome = inDoubt
		s.probe = func(n int) (contract.Evidence, error) {
			return finding([]string{contract.DidNotHappen, contract.Happened}[n/3])(n)
		}
		late, _ := succeeded()
		s.asked = func(r contract.AttemptRequest) {
			s.grant(r.Attempt) // both before the task listens
			s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: late})
		}
		op := verified(contract.ReplayNever)
		second := contract.Duration(time.Second)
		op.Provider = &contract.Provider{Version: "1", Lookup: &contract.Lookups{Covers: contract.CoversAll, Consistent: true, Lag: &second}}
		require.Equal(t, contract.PhaseSucceeded, s.run(input(op)).Phase)
		require.Len(t, s.effects, 1)
	})
	t.Run("a fenced worker's success is no more than accepted", func(t *testing.T) {
		s := newStage(t)
		s.outcome, s.probe = inDoubt, finding(contract.Inconclusive)
		late, _ := succeeded()
		s.RegisterDelayedCallback(func() {
			s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: late})
		}, time.Hour)
		s.resolveAt(2*time.Hour, contract.FailedFinding, 2)
		require.Equal(t, "resolved_failed", s.run(input(verified(contract.ReplayNever))).Reason)
	})
}
