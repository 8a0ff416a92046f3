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

// A task that stood by for a place which it did not get waits for the budget's
// next decision about the same attempt: nothing was tried, nothing is reported.
func TestStandbyMissed(t *testing.T) {
	s := newStage(t)
	s.asked = func(r contract.AttemptRequest) {
		s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: 1, Lease: &admission.Lease{ID: "l2", After: "l1"}})
	}
	s.outcome = func(n int) (contract.Outcome, error) {
		if n == 1 {
			s.RegisterDelayedCallback(func() { s.grant(1) }, time.Minute)
			return contract.Outcome{Class: admission.NotDispatched, Reason: contract.StandbyMissed}, nil
		}
		return succeeded()
	}
	in := input(operation())
	in.Ticket, in.Logic = nil, contract.LogicNewest
	res := s.run(in)
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.Equal(t, 1, res.Attempts)
	require.Empty(t, res.Retries)
	require.Len(t, s.effects, 2)
	require.Equal(t, []string{"l1", ""}, []string{s.effects[0].After, s.effects[1].After})
	require.Equal(t, []int{1, 1}, []int{s.effects[0].Attempt, s.effects[1].Attempt})
	require.Len(t, s.requests, 1)
	require.Len(t, s.reports, 1, "of the attempt that was made")
}

// One that has given up by itself says so, and nothing more.
func TestStandbyDeclined(t *testing.T) {
	s := newStage(t)
	s.asked = func(contract.AttemptRequest) {
		s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: 1, Lease: &admission.Lease{ID: "l2", After: "l1"}})
	}
	s.outcome = func(n int) (contract.Outcome, error) {
		if n == 1 {
			s.RegisterDelayedCallback(func() { s.grant(1) }, time.Minute)
			return contract.Outcome{Class: admission.NotDispatched, Reason: contract.StandbyLate}, nil
		}
		return succeeded()
	}
	in := input(operation())
	in.Ticket, in.Logic = nil, contract.LogicNewest
	res := s.run(in)
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.Equal(t, 1, res.Attempts)
	require.Len(t, s.reports, 2)
	require.Equal(t, []string{admission.Declined, admission.Released}, []string{s.reports[0].Kind, s.reports[1].Kind})
}

// Where no worker has room for one that stands by, it does not wait for that.
func TestStandbyWithoutRoom(t *testing.T) {
	s := newStage(t)
	s.asked = func(contract.AttemptRequest) {
		s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: 1, Lease: &admission.Lease{ID: "l2", After: "l1"}})
	}
	s.outcome = func(n int) (contract.Outcome, error) {
		if n == 1 {
			s.RegisterDelayedCallback(func() { s.grant(1) }, time.Minute)
			return contract.Outcome{}, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		return succeeded()
	}
	in := input(operation())
	in.Ticket, in.Logic = nil, contract.LogicNewest
	res := s.run(in)
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.Empty(t, res.Retries)
	require.Equal(t, admission.Declined, s.reports[0].Kind)
}

// A task on standby that is called back goes into the queue again where it was.
func TestStandbyIsCalledBack(t *testing.T) {
	s := newStage(t)
	s.asked = func(r contract.AttemptRequest) {
		lease := &admission.Lease{ID: "l2", After: "l1"}
		if r.Attempt > 1 {
			lease = &admission.Lease{ID: "l3"}
		}
		s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: r.Attempt, Lease: lease})
	}
	s.outcome = func(n int) (contract.Outcome, error) {
		if n == 1 {
			s.SignalWorkflow(contract.StopSignal, contract.Stop{Attempt: 1})
			return contract.Outcome{Class: admission.NotDispatched, Reason: "cancelled"}, nil
		}
		return succeeded()
	}
	began := s.Now()
	in := input(operation())
	in.Ticket, in.Logic = nil, contract.LogicNewest
	res := s.run(in)
	require.Equal(t, contract.PhaseSucceeded, res.Phase)
	require.Equal(t, 1, res.Attempts)
	require.Empty(t, res.Retries, "it is nobody's failure")
	require.Len(t, s.reports, 2, "what was announced goes back")
	require.Len(t, s.requests, 2)
	require.Nil(t, s.requests[0].Since)
	require.NotNil(t, s.requests[1].Since)
	require.WithinDuration(t, began, *s.requests[1].Since, time.Minute)
}
