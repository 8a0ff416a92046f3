package workflows

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// Each row is an outcome of the attempts and the end that must follow from it.
func TestTaskEnds(t *testing.T) {
	const hb = contract.Duration(2 * time.Second)
	first := func(o contract.Outcome, err error) func(int) (contract.Outcome, error) {
		return func(n int) (contract.Outcome, error) {
			if n == 1 {
				return o, err
			}
			return succeeded()
		}
	}
	always := func(o contract.Outcome) func(int) (contract.Outcome, error) {
		return func(int) (contract.Outcome, error) { return o, nil }
	}
	answered, _ := succeeded()
	rows := []struct {
		name     string
		op       func(*contract.Operation)
		outcome  func(int) (contract.Outcome, error)
		phase    contract.Phase
		reason   string
		attempts int
		retries  []contract.Count
		grace    contract.Duration // of the first report
	}{
		{"success", nil, first(succeeded()), contract.PhaseSucceeded, "", 1, nil, 0},
		{"permanent error", nil, always(contract.Outcome{Class: admission.Failed, Reason: "not_authorised"}), contract.PhaseFailed, "not_authorised", 1, nil, 0},
		{"refused, then success", nil, first(contract.Outcome{Class: admission.Refused, Reason: "rate_limited"}, nil), contract.PhaseSucceeded, "", 2, []contract.Count{{Class: "rate_limited", N: 1}}, 0},
		{"refused for ever", nil, always(contract.Outcome{Class: admission.Refused, Reason: "rate_limited"}), contract.PhaseFailed, "rate_limited", 3, []contract.Count{{Class: "rate_limited", N: 2}}, 0},
		{"refused with a long Retry-After", nil, always(contract.Outcome{Class: admission.Refused, Reason: "rate_limited", RetryAfter: contract.Duration(time.Hour)}), contract.PhaseFailed, "rate_limited", 1, nil, 0},
		{"worker lost before any beat", nil, first(contract.Outcome{}, lostAt(admission.StepNone, 1, nil)), contract.PhaseSucceeded, "", 2, []contract.Count{{Class: "worker_lost", N: 1}}, hb},
		{"worker lost after the claim", nil, first(contract.Outcome{}, lostAt(admission.StepClaimed, 1, nil)), contract.PhaseSucceeded, "", 2, []contract.Count{{Class: "worker_lost", N: 1}}, hb},
		{"worker lost after the response", nil, first(contract.Outcome{}, lostAt(admission.StepResponded, 1, &answered)), contract.PhaseSucceeded, "", 1, nil, hb},
		{"beat of another attempt", nil, first(contract.Outcome{}, lostAt(admission.StepDispatching, 7, nil)), contract.PhaseSucceeded, "", 2, []contract.Count{{Class: "worker_lost", N: 1}}, hb},
		{"worker lost after dispatch, keyed", func(o *contract.Operation) {
			o.Replay = contract.Replay{Class: contract.ReplayKeyed, Window: contract.Duration(time.Hour)}
		}, first(contract.Outcome{}, lostAt(admission.StepDispatching, 1, nil)), contract.PhaseSucceeded, "", 2, []contract.Count{{Class: "replayed", N: 1}}, hb},
		{"provider error, safe", func(o *contract.Operation) { o.Replay.Class = contract.ReplaySafe },
			first(contract.Outcome{Class: admission.Unknown, Reason: "provider_error"}, nil), contract.PhaseSucceeded, "", 2, []contract.Count{{Class: "replayed", N: 1}}, 0},
		{"deadline passed in the worker", nil, always(contract.Outcome{Class: admission.NotDispatched, Reason: "deadline_passed"}), contract.PhaseExpired, "expired", 1, nil, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := newStage(t)
			s.outcome = row.outcome
			op := operation()
			if row.op != nil {
				row.op(&op)
			}
			res := s.run(input(op))
			require.Equal(t, row.phase, res.Phase, "%+v", res)
			require.Equal(t, row.reason, res.Reason)
			require.Equal(t, row.attempts, res.Attempts)
			require.Equal(t, row.retries, res.Retries)
			require.Len(t, s.effects, row.attempts)
			require.Len(t, s.reports, row.attempts, "every lease comes back")
			require.Equal(t, row.grace, s.reports[0].Grace)
			keys := map[string]bool{}
			for i, e := range s.effects {
				require.Equal(t, i+1, e.Attempt)
				keys[e.ProviderKey] = true
			}
			require.Len(t, keys, 1, "the provider's key is stable")
		})
	}
}

func TestTaskReconciles(t *testing.T) {
	lost := func(n int) (contract.Outcome, error) {
		if n == 1 {
			return contract.Outcome{}, lostAt(admission.StepDispatching, 1, nil)
		}
		return succeeded()
	}
	found := func(finding string) func(int) (contract.Evidence, error) {
		return func(int) (contract.Evidence, error) {
			return contract.Evidence{Kind: contract.EvidenceLookup, Finding: finding, Reference: "ch_9"}, nil
		}
	}
	t.Run("it happened", func(t *testing.T) {
		s := newStage(t)
		s.outcome, s.probe = lost, found(contract.Happened)
		op := operation()
		op.Probe = probe()
		res := s.run(input(op))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Equal(t, "ch_9", res.Reference)
		require.False(t, res.Available, "the answer was lost")
		require.Equal(t, 1, s.probes)
		require.Len(t, s.effects, 1)
	})
	t.Run("it did not happen, by two look-ups", func(t *testing.T) {
		s := newStage(t)
		s.outcome, s.probe = lost, found(contract.DidNotHappen)
		op := operation()
		op.Probe = probe()
		res := s.run(input(op))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Equal(t, 2, s.probes, "one read is no proof of absence")
		require.Len(t, s.effects, 2)
		require.Equal(t, []contract.Count{{Class: "no_answer", N: 1}}, res.Retries)
	})
	t.Run("alternating reads prove nothing", func(t *testing.T) {
		s := newStage(t)
		s.outcome = lost
		s.probe = func(n int) (contract.Evidence, error) {
			if n >= 6 {
				return found(contract.Happened)(n)
			}
			return found([]string{contract.DidNotHappen, contract.Inconclusive}[n%2])(n)
		}
		op := operation()
		op.Probe = probe()
		res := s.run(input(op))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.effects, 1, "nothing is sent again without proof")
	})
	for outcome, phase := range map[string]contract.Phase{
		contract.Happened: contract.PhaseSucceeded, contract.DidNotHappen: contract.PhaseSucceeded, contract.FailedFinding: contract.PhaseFailed,
	} {
		t.Run("a person says "+outcome, func(t *testing.T) {
			s := newStage(t)
			s.outcome = lost
			id := contract.ReconcileID("acme", "k/1", 1)
			refused := 0
			s.RegisterDelayedCallback(func() {
				for i, r := range []contract.Resolution{
					{ID: "d1", Actor: "ann", Outcome: outcome, Evidence: "seen", Version: 1},
					{ID: "d1", Actor: "ann", Outcome: outcome, Version: 2},
					{ID: "d1", Outcome: outcome, Evidence: "seen", Version: 2},
					{Actor: "ann", Outcome: outcome, Evidence: "seen", Version: 2},
					{ID: "d1", Actor: "acme", Outcome: outcome, Evidence: "seen", Version: 2},
					{ID: "d1", Actor: "ann", Outcome: "perhaps", Evidence: "seen", Version: 2},
				} {
					require.NoError(t, s.UpdateWorkflowByID(id, contract.ResolveUpdate, strconv.Itoa(i), &callback{reject: func(error) { refused++ }}, r))
				}
			}, time.Hour)
			s.RegisterDelayedCallback(func() {
				require.NoError(t, s.UpdateWorkflowByID(id, contract.ResolveUpdate, "last", &callback{}, contract.Resolution{ID: "d1", Actor: "ann", Outcome: outcome, Evidence: "seen", Version: 2}))
			}, 2*time.Hour)
			op := operation()
			op.Retry.MaxAge = contract.Duration(24 * time.Hour)
			res := s.run(input(op))
			require.Equal(t, phase, res.Phase)
			require.Equal(t, 6, refused, "stale or incomplete resolutions, and the asker's own, are refused")
			require.Equal(t, "ann", res.Evidence[0].Actor)
			want := 1
			if outcome == contract.DidNotHappen {
				want = 2
			}
			require.Len(t, s.effects, want)
		})
	}
	t.Run("a fenced worker answers late", func(t *testing.T) {
		s := newStage(t)
		s.outcome = lost
		late, _ := succeeded()
		s.RegisterDelayedCallback(func() {
			s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: late})
		}, time.Hour)
		res := s.run(input(operation()))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.True(t, res.Available)
		require.Equal(t, contract.EvidenceLate, res.Evidence[0].Kind)
		require.Len(t, s.effects, 1)
	})
}

// callback ignores what it is not given.
type callback struct {
	reject   func(error)
	complete func(any, error)
}

func (c *callback) Accept() {}
func (c *callback) Reject(err error) {
	if c.reject != nil {
		c.reject(err)
	}
}
func (c *callback) Complete(answer any, err error) {
	if c.complete != nil {
		c.complete(answer, err)
	}
}

func TestTaskStartedWithoutTheGateway(t *testing.T) {
	direct := contract.TaskInput{Tenant: "acme", Key: "k/1", Operation: "charge", Payload: []byte(`{}`)}
	t.Run("asks for admission", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
		res := s.run(direct)
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.True(t, s.requests[0].Admit, "it may be refused")
	})
	t.Run("is refused", func(t *testing.T) {
		s := newStage(t)
		s.asked = func(r contract.AttemptRequest) {
			s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: 1, Reason: admission.QueueFull, RetryAfter: contract.Duration(time.Second)})
		}
		res := s.run(direct)
		require.Equal(t, contract.PhaseRejected, res.Phase)
		require.Equal(t, "queue_full", res.Reason)
		require.NotZero(t, res.RetryAfter)
		require.Empty(t, s.effects)
	})
	t.Run("names an unknown operation", func(t *testing.T) {
		s := newStage(t)
		in := direct
		in.Operation = "unheard"
		require.Equal(t, contract.PhaseRejected, s.run(in).Phase)
		require.Empty(t, s.requests)
	})
	t.Run("has another ID than its key", func(t *testing.T) {
		s := newStage(t)
		s.ExecuteWorkflow(contract.TaskWorkflow, direct)
		require.ErrorContains(t, s.GetWorkflowError(), "workflow ID")
		require.Empty(t, s.requests)
	})
}

func TestTaskWithALapsedTicketAsksAgainAndIsNotRefused(t *testing.T) {
	s := newStage(t)
	s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
	in := input(operation())
	in.Ticket.StartBy = time.Unix(0, 0)
	require.Equal(t, contract.PhaseSucceeded, s.run(in).Phase)
	require.Len(t, s.requests, 1)
	require.False(t, s.requests[0].Admit)
}

func TestTaskIsCancelled(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) {
		s := newStage(t)
		in := input(operation())
		in.Ticket.Lease = nil
		s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
		res := s.run(in)
		require.Equal(t, contract.PhaseCancelled, res.Phase)
		require.Empty(t, s.effects)
		require.Equal(t, admission.Withdrawn, s.reports[0].Kind)
	})
	t.Run("while it waits for a retry", func(t *testing.T) {
		s := newStage(t)
		s.asked = func(contract.AttemptRequest) {}
		s.outcome = func(int) (contract.Outcome, error) {
			return contract.Outcome{Class: admission.Refused, Reason: "rate_limited"}, nil
		}
		s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
		res := s.run(input(operation()))
		require.Equal(t, contract.PhaseCancelled, res.Phase)
		require.Len(t, s.effects, 1)
		require.Len(t, s.reports, 2)
	})
	t.Run("after dispatch the outcome decides", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) {
			return contract.Outcome{}, lostAt(admission.StepDispatching, 1, nil)
		}
		s.probe = func(int) (contract.Evidence, error) { return contract.Evidence{Finding: contract.Happened}, nil }
		op := operation()
		op.Probe = probe()
		s.RegisterDelayedCallback(s.CancelWorkflow, 100*time.Millisecond)
		res := s.run(input(op))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
	})
	t.Run("a proven absence after a cancel request is not repeated", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) {
			return contract.Outcome{}, lostAt(admission.StepDispatching, 1, nil)
		}
		s.probe = func(int) (contract.Evidence, error) {
			return contract.Evidence{Finding: contract.DidNotHappen}, nil
		}
		op := operation()
		op.Probe = probe()
		s.RegisterDelayedCallback(s.CancelWorkflow, 1500*time.Millisecond)
		res := s.run(input(op))
		require.Equal(t, contract.PhaseCancelled, res.Phase)
		require.Len(t, s.effects, 1)
	})
}

func TestDecisionsOfOtherAttemptsAreIgnored(t *testing.T) {
	s := newStage(t)
	s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
	in := input(operation())
	in.Ticket.Lease = nil
	s.RegisterDelayedCallback(func() { s.grant(9); s.grant(0) }, time.Minute)
	s.RegisterDelayedCallback(func() { s.grant(1); s.grant(1) }, 2*time.Minute)
	res := s.run(in)
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.Len(t, s.effects, 1)
}
