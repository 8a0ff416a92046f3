package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uber-go/tally/v4"
	contribtally "go.temporal.io/sdk/contrib/tally"

	"headgate/admission"
	"headgate/contract"
)

// countsOf sums the counters of a name over the values of one label.
func countsOf(scope tally.TestScope, name, label string) map[string]int64 {
	sums := map[string]int64{}
	for _, c := range scope.Snapshot().Counters() {
		if c.Name() == name {
			sums[c.Tags()[label]] += c.Value()
		}
	}
	return sums
}

func TestTaskIsMeasured(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	s := newMeasuredStage(t, contribtally.NewMetricsHandler(scope))
	s.outcome = func(n int) (contract.Outcome, error) {
		if n == 1 {
			return contract.Outcome{Class: admission.Refused, Reason: "rate_limited", Claimed: s.Now().Add(3 * time.Second), Ended: s.Now()}, nil
		}
		return contract.Outcome{Class: admission.Succeeded, Claimed: s.Now(), Ended: s.Now()}, nil
	}
	require.Equal(t, contract.PhaseSucceeded, s.run(input(operation())).Phase)
	require.Equal(t, map[string]int64{"rate_limited": 1}, countsOf(scope, contract.RetriesMetric, contract.ReasonLabel))
	require.Equal(t, map[string]int64{"succeeded": 1}, countsOf(scope, contract.EndsMetric, contract.PhaseLabel))
	timers := map[string]int{}
	for _, timer := range scope.Snapshot().Timers() {
		timers[timer.Name()] += len(timer.Values())
		if timer.Name() == contract.StartMetric {
			require.Equal(t, []time.Duration{3 * time.Second}, timer.Values(), "to the first claim")
			require.Equal(t, operation().Name, timer.Tags()[contract.OperationLabel])
			require.Equal(t, "normal", timer.Tags()[contract.PriorityLabel])
		}
	}
	require.Equal(t, 1, timers[contract.StartMetric])
	require.Equal(t, 1, timers[contract.ConfirmMetric])
}

// A direct start may name anything: no series comes of it.
func TestRefusedTaskHasNoLabelOfItsOwn(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	s := newMeasuredStage(t, contribtally.NewMetricsHandler(scope))
	in := input(operation())
	in.Operation, in.Pinned, in.Ticket = "unheard", nil, nil
	require.Equal(t, contract.PhaseRejected, s.run(in).Phase)
	require.Equal(t, map[string]int64{contract.OtherLabel: 1}, countsOf(scope, contract.EndsMetric, contract.OperationLabel))
	require.Equal(t, map[string]int64{"invalid_request": 1}, countsOf(scope, contract.EndsMetric, contract.ReasonLabel))
}
