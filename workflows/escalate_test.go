package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// P38: a doubt becomes overdue when nobody ends it, and stays a doubt.
func TestEscalation(t *testing.T) {
	doubt := func(t *testing.T, decided time.Duration) (*answers, *[]bool) {
		s := newStage(t)
		a := &answers{t: t, s: s}
		s.outcome = func(int) (contract.Outcome, error) {
			return contract.Outcome{}, lostAt(admission.StepDispatching, 1, nil)
		}
		id := contract.ReconcileID("acme", "k/1", 1)
		var overdue []bool
		s.OnUpsertMemo(mock.Anything).Return(nil).Run(func(args mock.Arguments) {
			if stand, ok := args.Get(0).(map[string]any)[contract.StandMemo].(contract.Stand); ok {
				overdue = append(overdue, stand.Overdue)
			}
		})
		s.RegisterDelayedCallback(func() {
			a.send(id, contract.ResolveUpdate, contract.Resolution{ID: "d1", Actor: "ann", Outcome: contract.FailedFinding, Evidence: "not there", Version: 2})
		}, decided)
		return a, &overdue
	}
	op := operation()
	op.EscalateAfter = contract.Duration(time.Hour)
	t.Run("in time", func(t *testing.T) {
		a, overdue := doubt(t, 30*time.Minute)
		require.Equal(t, contract.PhaseFailed, a.s.run(input(op)).Phase)
		require.NotContains(t, *overdue, true)
	})
	t.Run("too late", func(t *testing.T) {
		a, overdue := doubt(t, 48*time.Hour)
		res := a.s.run(input(op))
		require.Equal(t, "resolved_failed", res.Reason, "a person decided, not the clock")
		require.Equal(t, []bool{false, false, true}, *overdue)
		require.Len(t, a.s.effects, 1)
		require.Equal(t, 1, a.taken, "the version is the one that was seen before: %v", a.refused)
	})
}
