package workflows

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

// answers collects what a decision was told.
type answers struct {
	t       *testing.T
	s       *stage
	sent    int
	taken   int
	refused []string // types of the refusals, in order
}

func (a *answers) send(workflow, update string, word any) {
	a.sent++
	require.NoError(a.t, a.s.UpdateWorkflowByID(workflow, update, strconv.Itoa(a.sent), &callback{
		reject: a.refuse,
		complete: func(_ any, err error) {
			if err != nil {
				a.refuse(err)
			} else {
				a.taken++
			}
		},
	}, word))
}

func (a *answers) refuse(err error) {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		a.refused = append(a.refused, app.Type())
	} else {
		a.refused = append(a.refused, err.Error())
	}
}

// F7: null is a result, and not the absence of one.
func TestNullIsAResult(t *testing.T) {
	s := newStage(t)
	s.outcome = func(int) (contract.Outcome, error) {
		return contract.Outcome{Class: admission.Succeeded, Result: []byte("null")}, nil
	}
	res := s.run(input(operation()))
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.True(t, res.Available)
	require.JSONEq(t, "null", string(res.Result))
}

// F7: a decision about one attempt is worth one attempt. The row version goes on
// over the reconciliations of a task, so that no old decision fits a new doubt,
// and an ID is used once.
func TestOneGrantIsOneAttempt(t *testing.T) {
	s := newStage(t)
	s.outcome = func(n int) (contract.Outcome, error) {
		if n <= 2 {
			return contract.Outcome{}, lostAt(admission.StepDispatching, n, nil)
		}
		return succeeded()
	}
	a := &answers{t: t, s: s}
	absent := contract.Resolution{ID: "d1", Actor: "ann", Outcome: contract.DidNotHappen, Evidence: "not in the portal", Version: 2}
	first, second := contract.ReconcileID("acme", "k/1", 1), contract.ReconcileID("acme", "k/1", 2)
	s.RegisterDelayedCallback(func() {
		a.send(first, contract.ResolveUpdate, absent)
		other := absent
		other.ID, other.Actor = "d2", "bob"
		a.send(first, contract.ResolveUpdate, other) // the reconciliation has ended: nobody takes it
	}, time.Hour)
	s.RegisterDelayedCallback(func() {
		require.Len(t, s.effects, 2, "one grant, one attempt")
		a.send(second, contract.ResolveUpdate, absent) // replayed: the ID is used
		replayed := absent
		replayed.ID = "d3"
		a.send(second, contract.ResolveUpdate, replayed) // the version is of the first doubt
		reworded := absent
		reworded.Version = 5
		a.send(second, contract.ResolveUpdate, reworded) // the same ID, another content
	}, 2*time.Hour)
	s.RegisterDelayedCallback(func() {
		require.Len(t, s.effects, 2, "nothing has been sent again")
		a.send(second, contract.ResolveUpdate, contract.Resolution{ID: "d4", Actor: "ann", Outcome: contract.DidNotHappen, Evidence: "still not there", Version: 5})
	}, 3*time.Hour)
	op := operation()
	op.Retry.MaxAge = contract.Duration(24 * time.Hour)
	res := s.run(input(op))
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.Len(t, s.effects, 3)
	require.Equal(t, 2, a.taken)
	require.Equal(t, []string{contract.ReusedError, contract.StaleError, contract.ReusedError}, a.refused)
	require.Equal(t, []string{"d1", "d4"}, []string{res.Evidence[0].Decision, res.Evidence[1].Decision})
}
