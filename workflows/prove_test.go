package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// A replay that gets no answer does not answer for the attempt that it repeats:
// the task is not said to have failed, expired or been cancelled before that one
// is known to have had no effect.
func TestReplaysThatTellNothing(t *testing.T) {
	keyed := func() contract.TaskInput {
		op := operation()
		op.Replay = contract.Replay{Class: contract.ReplayKeyed, Window: contract.Duration(time.Hour)}
		in := input(op)
		in.Logic = contract.LogicNewest
		return in
	}
	then := func(s *stage, o contract.Outcome) func(int) (contract.Outcome, error) {
		return func(n int) (contract.Outcome, error) {
			if n == 1 {
				return contract.Outcome{Class: admission.Unknown, Reason: "no_answer", Dispatching: s.Now()}, nil
			}
			return o, nil
		}
	}
	// The first reconciliation ends with the replay, so the version of the second is 2, and 3 when it asks.
	const asked = 3
	for name, c := range map[string]struct {
		o    contract.Outcome
		end  contract.Phase // as if nothing had been sent
		tune func(s *stage, in *contract.TaskInput)
	}{
		"refused":            {contract.Outcome{Class: admission.Refused, Reason: "rate_limited"}, contract.PhaseFailed, nil},
		"not dispatched":     {contract.Outcome{Class: admission.NotDispatched, Reason: "connection_failed"}, contract.PhaseFailed, nil},
		"credential revoked": {contract.Outcome{Class: admission.Failed, Reason: "not_authorised"}, contract.PhaseFailed, nil},
		"cancelled while it waits": {contract.Outcome{}, contract.PhaseCancelled, func(s *stage, _ *contract.TaskInput) {
			s.asked = func(contract.AttemptRequest) { s.CancelWorkflow() }
		}},
		"expired while it waits": {contract.Outcome{}, contract.PhaseFailed, func(s *stage, _ *contract.TaskInput) {
			s.asked = func(r contract.AttemptRequest) {
				s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: r.Attempt, Reason: admission.Expired})
			}
		}},
	} {
		for outcome, phase := range map[string]contract.Phase{
			contract.Happened: contract.PhaseSucceeded, contract.DidNotHappen: c.end, contract.FailedFinding: contract.PhaseFailed,
		} {
			t.Run(name+", "+outcome, func(t *testing.T) {
				s := newStage(t)
				s.outcome = then(s, c.o)
				in := keyed()
				if c.tune != nil {
					c.tune(s, &in)
				}
				accepted := s.resolveAt(30*time.Minute, outcome, asked)
				res := s.run(in)
				require.True(t, *accepted, "it is UNKNOWN until a person says more")
				require.Equal(t, phase, res.Phase, "%+v", res)
				require.Equal(t, "ann", res.Evidence[len(res.Evidence)-1].Actor)
			})
		}
	}
	t.Run("an answer to the replay is the answer", func(t *testing.T) {
		s := newStage(t)
		answer, _ := succeeded()
		s.outcome = then(s, answer)
		res := s.run(keyed())
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.effects, 2)
	})
	t.Run("a proof for a later attempt is one for all: they have one key", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(n int) (contract.Outcome, error) {
			return contract.Outcome{Class: admission.Unknown, Reason: "no_answer", Dispatching: s.Now()}, nil
		}
		s.probe = finding(contract.DidNotHappen)
		in := keyed()
		in.Pinned.Probe = probe()
		res := s.run(in)
		require.Equal(t, contract.PhaseFailed, res.Phase)
		require.Len(t, s.effects, in.Pinned.Retry.MaxAttempts)
	})
}
