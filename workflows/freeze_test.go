package workflows

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"headgate/admission"
	"headgate/contract"
)

// A stopped attempt goes back to the queue and counts against nothing. (That one
// which was dispatched is decided by its outcome needs a server: the test
// environment does not wait for cancelled activities.)
func TestTaskIsStopped(t *testing.T) {
	stop := func(s *stage, attempt int) {
		s.SignalWorkflow(contract.StopSignal, contract.Stop{Task: "task/acme/k/1", Attempt: attempt, Operation: "charge"})
	}
	op := operation()
	op.Retry.MaxAttempts = 1
	t.Run("before the dispatch", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(n int) (contract.Outcome, error) {
			if n <= 3 { // more often than the operation may be tried
				stop(s, n)
				stop(s, n)
				return contract.Outcome{Class: admission.NotDispatched, Reason: reasonCancelled}, nil
			}
			return succeeded()
		}
		res := s.run(input(op))
		require.Equal(t, contract.PhaseSucceeded, res.Phase, "%+v", res)
		require.Equal(t, []contract.Count{{Class: reasonFrozen, N: 3}}, res.Retries)
		require.Len(t, s.requests, 3)
	})
	t.Run("an older attempt's stop is none of this one's", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) {
			stop(s, 7)
			return contract.Outcome{Class: admission.NotDispatched, Reason: "connection_failed"}, nil
		}
		res := s.run(input(op))
		require.Equal(t, contract.PhaseFailed, res.Phase)
	})
	t.Run("and a cancel request ends it", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) {
			stop(s, 1)
			s.CancelWorkflow()
			return contract.Outcome{Class: admission.NotDispatched, Reason: reasonCancelled}, nil
		}
		require.Equal(t, contract.PhaseCancelled, s.run(input(op)).Phase)
	})
}

// The answer to a freeze waits for the holders, and says when they could not be
// asked; a finding's freeze is the same.
func TestBudgetFreezes(t *testing.T) {
	for name, answers := range map[string][]string{"asked": {contract.Delivered}, "out of reach": {contract.NotDelivered}, "asked at last": {contract.NotDelivered, contract.Delivered}} {
		t.Run(name, func(t *testing.T) {
			b := newTill(t)
			asked, lease := 0, ""
			b.RegisterActivityWithOptions(func(_ context.Context, in contract.Stops) (contract.DeliverReply, error) {
				require.Equal(t, []contract.Stop{{Task: "task/acme/1", Attempt: 1, Lease: lease, Operation: "op", Reason: "look"}}, in.Items)
				asked++
				return contract.DeliverReply{Answers: []string{answers[min(asked, len(answers))-1]}}, nil
			}, activity.RegisterOptions{Name: contract.StopActivity})
			reply := contract.FreezeReply{}
			snap := b.play(
				func() {
					b.admit(func(v []admission.Verdict) {
						require.Equal(t, admission.Run, v[0].Action)
						lease = v[0].Lease.ID
					}, slot(1))
				},
				func() {
					b.UpdateWorkflow(contract.FreezeUpdate, "f1", &answered{t, func(out any) { reply = out.(contract.FreezeReply) }},
						contract.FreezeRequest{Operation: "op", Frozen: true, Reason: "look", Actor: "ann"})
				},
				func() {
					b.admit(func(v []admission.Verdict) { require.Equal(t, admission.OperationFrozen, v[0].Reason) }, slot(2))
				},
				func() {},
				func() {},
				func() {},
				func() {
					b.SignalWorkflow(contract.ReportSignal, contract.ReportBatch{Reports: []admission.Report{
						{Task: "task/acme/1", Attempt: 1, Kind: admission.Released, Class: admission.NotDispatched}}})
					b.SignalWorkflow(contract.FreezeSignal, contract.FreezeRequest{Operation: "other", Frozen: true, Actor: "audit"})
					b.SignalWorkflow(contract.FreezeSignal, contract.FreezeRequest{Operation: "op", Actor: "audit"}) // only a person may
				},
			)
			require.Equal(t, "op", reply.Operation)
			require.Equal(t, "ann", reply.Freeze.Actor)
			left := 0
			if answers[len(answers)-1] != contract.Delivered {
				left = 1
			}
			require.Equal(t, left, reply.Stopping)
			var frozen []string
			for _, g := range snap.Gates {
				if g.Frozen != nil {
					frozen = append(frozen, g.Name+" by "+g.Frozen.Actor)
				}
			}
			require.Equal(t, []string{"op by ann", "other by audit"}, frozen)
		})
	}
}

// answered takes the result of an update that must succeed.
type answered struct {
	t    *testing.T
	then func(any)
}

func (a *answered) Accept()          {}
func (a *answered) Reject(err error) { require.NoError(a.t, err) }
func (a *answered) Complete(out any, err error) {
	require.NoError(a.t, err)
	a.then(out)
}

// A budget that should begin a new run finishes the freeze first: its loop asks the
// holders.
func TestBudgetFreezesBeforeANewRun(t *testing.T) {
	b := newTill(t)
	b.RegisterActivityWithOptions(func(context.Context, contract.Stops) (contract.DeliverReply, error) {
		return contract.DeliverReply{Answers: []string{contract.Delivered}}, nil
	}, activity.RegisterOptions{Name: contract.StopActivity})
	reply := contract.FreezeReply{Stopping: -1}
	snap := b.play(
		func() { b.admit(func(v []admission.Verdict) { require.Equal(t, admission.Run, v[0].Action) }, slot(1)) },
		func() {
			b.SetContinueAsNewSuggested(true)
			b.UpdateWorkflow(contract.FreezeUpdate, "f1", &answered{t, func(out any) { reply = out.(contract.FreezeReply) }},
				contract.FreezeRequest{Operation: "op", Frozen: true, Reason: "look", Actor: "ann"})
		},
	)
	require.Zero(t, reply.Stopping)
	require.NotNil(t, reply.Freeze)
	require.Len(t, snap.Gates, 1)
}
