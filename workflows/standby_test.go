package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

// standing plays a task whose first lease is only announced. Its first attempt ends
// as given, the second one succeeds; a minute after the first, the same attempt is
// granted, if the budget is to decide about it again.
func standing(t *testing.T, again bool, first func(s *stage) (contract.Outcome, error)) *stage {
	s := newStage(t)
	s.asked = func(r contract.AttemptRequest) {
		lease := &admission.Lease{ID: "l2", After: "l1"}
		if r.Attempt > 1 {
			lease = &admission.Lease{ID: "l3"}
		}
		s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: r.Attempt, Lease: lease})
	}
	s.outcome = func(n int) (contract.Outcome, error) {
		if n > 1 {
			return succeeded()
		}
		if again {
			s.RegisterDelayedCallback(func() { s.grant(1) }, time.Minute)
		}
		return first(s)
	}
	in := input(operation())
	in.Ticket, in.Logic = nil, contract.LogicNewest
	res := s.run(in)
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.Equal(t, 1, res.Attempts)
	require.Empty(t, res.Retries, "it is nobody's failure")
	require.Len(t, s.effects, 2)
	require.Equal(t, []string{"l1", ""}, []string{s.effects[0].After, s.effects[1].After})
	return s
}

func (s *stage) reported() (kinds []string) {
	for _, r := range s.reports {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// A task that stood by for a place which it did not get waits for the budget's
// next decision about the same attempt: nothing was tried, nothing is reported.
func TestStandbyMissed(t *testing.T) {
	s := standing(t, true, func(*stage) (contract.Outcome, error) {
		return contract.Outcome{Class: admission.NotDispatched, Reason: contract.StandbyMissed}, nil
	})
	require.Equal(t, []int{1, 1}, []int{s.effects[0].Attempt, s.effects[1].Attempt})
	require.Len(t, s.requests, 1)
	require.Equal(t, []string{admission.Released}, s.reported(), "of the attempt that was made")
}

// One that has given up by itself says so, and nothing more.
func TestStandbyDeclined(t *testing.T) {
	s := standing(t, true, func(*stage) (contract.Outcome, error) {
		return contract.Outcome{Class: admission.NotDispatched, Reason: contract.StandbyLate}, nil
	})
	require.Equal(t, []string{admission.Declined, admission.Released}, s.reported())
}

// Where no worker has room for one that stands by, it does not wait for that.
func TestStandbyWithoutRoom(t *testing.T) {
	s := standing(t, true, func(*stage) (contract.Outcome, error) {
		return contract.Outcome{}, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	})
	require.Equal(t, []string{admission.Declined, admission.Released}, s.reported())
}

// A task on standby that is called back goes into the queue again where it was.
func TestStandbyIsCalledBack(t *testing.T) {
	var began time.Time
	s := standing(t, false, func(s *stage) (contract.Outcome, error) {
		began = s.Now()
		s.SignalWorkflow(contract.StopSignal, contract.Stop{Attempt: 1, Lease: "l2"})
		return contract.Outcome{Class: admission.NotDispatched, Reason: "cancelled"}, nil
	})
	require.Equal(t, []string{admission.Released, admission.Released}, s.reported(), "what was announced goes back")
	require.Len(t, s.requests, 2)
	require.Nil(t, s.requests[0].Since)
	require.NotNil(t, s.requests[1].Since)
	require.WithinDuration(t, began, *s.requests[1].Since, time.Minute)
}

// What calls back from a place that was missed anyway is not about the lease that
// the same attempt gets later.
func TestStandbyIsCalledBackTooLate(t *testing.T) {
	s := standing(t, true, func(s *stage) (contract.Outcome, error) {
		s.RegisterDelayedCallback(func() { s.SignalWorkflow(contract.StopSignal, contract.Stop{Attempt: 1, Lease: "l2"}) }, time.Second)
		return contract.Outcome{Class: admission.NotDispatched, Reason: contract.StandbyMissed}, nil
	})
	require.Len(t, s.requests, 1)
	require.Equal(t, []string{admission.Released}, s.reported())
}
