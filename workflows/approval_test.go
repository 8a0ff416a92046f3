package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

func approvedOperation() contract.Operation {
	op := operation()
	op.Digest = "sha256:op"
	op.Approval = &contract.Approval{Expires: contract.Duration(24 * time.Hour), Resource: "human"}
	return op
}

// held is a task that a gateway has admitted, and that its budget holds.
func held(op contract.Operation) contract.TaskInput {
	in := input(op)
	in.Agent, in.Ticket.Lease = "billing-1", nil
	return in
}

func approval() contract.ApprovalDecision {
	return contract.ApprovalDecision{ID: "d1", Actor: "ann", Outcome: contract.Approved, Evidence: "the invoice is right", Version: 1,
		Hash: "sha256:1", Digest: "sha256:op"}
}

func TestApproval(t *testing.T) {
	const id = "task/acme/k/1"
	t.Run("approved, it asks for capacity and runs", func(t *testing.T) {
		s := newStage(t)
		began := s.Now()
		s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
		a := &answers{t: t, s: s}
		s.RegisterDelayedCallback(func() {
			require.Empty(t, s.requests, "no capacity is asked for while it waits")
			require.Empty(t, s.effects)
			a.send(id, contract.ApproveUpdate, approval())
		}, 20*time.Hour)
		res := s.run(held(approvedOperation()))
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Equal(t, 1, a.taken)
		require.Len(t, s.effects, 1)
		require.Len(t, s.requests, 1)
		require.Equal(t, 24*time.Hour, s.requests[0].Deadline.Sub(began).Round(time.Minute), "the approval's end is the task's")
		require.True(t, s.requests[0].Deadline.Equal(*s.effects[0].Deadline))
		require.Equal(t, []any{1, false, false, ""}, []any{s.requests[0].Attempt, s.requests[0].Hold, s.requests[0].Admit, s.requests[0].HoldOn})
	})
	t.Run("approved, it waits for capacity until the approval is over", func(t *testing.T) {
		s := newStage(t)
		a := &answers{t: t, s: s}
		s.asked = func(r contract.AttemptRequest) { // as the budget does at the deadline
			s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: r.Attempt, Reason: admission.Expired, Detail: "the deadline passed"})
		}
		s.RegisterDelayedCallback(func() { a.send(id, contract.ApproveUpdate, approval()) }, time.Hour)
		res := s.run(held(approvedOperation()))
		require.Equal(t, contract.PhaseExpired, res.Phase)
		require.Empty(t, s.effects)
	})
	t.Run("declined, it has had no effect", func(t *testing.T) {
		s := newStage(t)
		a := &answers{t: t, s: s}
		no := approval()
		no.Outcome, no.Evidence = contract.Declined, "paid already"
		s.RegisterDelayedCallback(func() { a.send(id, contract.ApproveUpdate, no) }, time.Hour)
		res := s.run(held(approvedOperation()))
		require.Equal(t, []any{contract.PhaseFailed, reasonDeclined, "declined by ann: paid already", 0}, []any{res.Phase, res.Reason, res.Detail, res.Attempts})
		require.Equal(t, []admission.Report{{Task: id, Attempt: 1, Kind: admission.Withdrawn}}, s.reports, "its place is free")
		require.Empty(t, s.effects)
	})
	t.Run("nobody decides, it expires", func(t *testing.T) {
		s := newStage(t)
		res := s.run(held(approvedOperation()))
		require.Equal(t, []any{contract.PhaseExpired, reasonApprovalExpired}, []any{res.Phase, res.Reason})
		require.Len(t, s.reports, 1)
		require.Empty(t, s.effects)
	})
	t.Run("its deadline passes", func(t *testing.T) {
		s := newStage(t)
		s.RegisterDelayedCallback(func() {
			s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: 1, Reason: admission.Expired, Detail: "late"})
		}, time.Hour)
		res := s.run(held(approvedOperation()))
		require.Equal(t, []any{contract.PhaseExpired, "expired"}, []any{res.Phase, res.Reason})
		require.Empty(t, s.effects)
	})
	t.Run("it is cancelled", func(t *testing.T) {
		s := newStage(t)
		s.RegisterDelayedCallback(s.CancelWorkflow, time.Hour)
		res := s.run(held(approvedOperation()))
		require.Equal(t, contract.PhaseCancelled, res.Phase)
		require.Len(t, s.reports, 1)
		require.Empty(t, s.effects)
	})
	t.Run("a lease that comes all the same goes back", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
		a := &answers{t: t, s: s}
		s.RegisterDelayedCallback(func() { s.grant(1) }, time.Hour)
		s.RegisterDelayedCallback(func() {
			require.Empty(t, s.effects)
			require.Len(t, s.reports, 2, "that of the ticket, and that of the grant")
			a.send(id, contract.ApproveUpdate, approval())
		}, 2*time.Hour)
		in := held(approvedOperation())
		in.Ticket.Lease = &admission.Lease{ID: "l1"}
		res := s.run(in)
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.effects, 1)
	})
	t.Run("started without the gateway, it asks to be held first", func(t *testing.T) {
		s := newStage(t)
		s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
		s.asked = func(r contract.AttemptRequest) {
			if !r.Hold {
				s.grant(r.Attempt)
			}
		}
		a := &answers{t: t, s: s}
		s.RegisterDelayedCallback(func() { a.send(id, contract.ApproveUpdate, approval()) }, time.Hour)
		in := held(approvedOperation())
		in.Ticket = nil
		res := s.run(in)
		require.Equal(t, contract.PhaseSucceeded, res.Phase)
		require.Len(t, s.requests, 2)
		require.Equal(t, []any{true, true, "human", false, false}, []any{s.requests[0].Admit, s.requests[0].Hold, s.requests[0].HoldOn, s.requests[1].Admit, s.requests[1].Hold})
	})
}

// F8, P37: an approval is of what was seen, by somebody else, and used once.
func TestApprovalFailsClosed(t *testing.T) {
	const id = "task/acme/k/1"
	s := newStage(t)
	s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
	s.asked = func(contract.AttemptRequest) {} // no lease: the task stays open
	a := &answers{t: t, s: s}
	send := func(change func(*contract.ApprovalDecision)) {
		d := approval()
		change(&d)
		a.send(id, contract.ApproveUpdate, d)
	}
	s.RegisterDelayedCallback(func() {
		send(func(d *contract.ApprovalDecision) { d.Hash = "sha256:2" })   // arguments or amount changed
		send(func(d *contract.ApprovalDecision) { d.Digest = "sha256:o" }) // the operation changed
		send(func(d *contract.ApprovalDecision) { d.Hash, d.Digest = "", "" })
		send(func(d *contract.ApprovalDecision) { d.Actor = "billing-1" }) // own approval
		send(func(d *contract.ApprovalDecision) { d.Actor = "acme" })
		send(func(d *contract.ApprovalDecision) { d.Version = 2 })
		send(func(d *contract.ApprovalDecision) { d.Outcome = "maybe" })
		send(func(d *contract.ApprovalDecision) { d.ID = "" })
		send(func(d *contract.ApprovalDecision) { d.Evidence = "" })
		require.Zero(t, a.taken)
		require.Empty(t, s.requests)
		send(func(*contract.ApprovalDecision) {})
		send(func(d *contract.ApprovalDecision) { d.ID, d.Actor = "d2", "bob" }) // double vote
		send(func(d *contract.ApprovalDecision) { d.ID, d.Actor, d.Outcome = "d3", "bob", contract.Declined })
	}, time.Hour)
	s.RegisterDelayedCallback(func() {
		require.Len(t, s.requests, 1, "one approval, one request")
		send(func(d *contract.ApprovalDecision) { d.ID, d.Version = "d4", 2 })
		s.CancelWorkflow() // an approval is revoked by cancelling, as long as nothing was sent
	}, 2*time.Hour)
	res := s.run(held(approvedOperation()))
	require.Equal(t, contract.PhaseCancelled, res.Phase)
	require.Empty(t, s.effects)
	require.Equal(t, 1, a.taken)
	changed, rights, stale, invalid := contract.ChangedError, contract.RightsError, contract.StaleError, contract.InvalidError
	require.Equal(t, []string{changed, changed, changed, rights, rights, stale, invalid, invalid, invalid, stale, stale, stale}, a.refused)
}

// An operation that needs no approval takes none.
func TestNobodyAsked(t *testing.T) {
	s := newStage(t)
	s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
	s.asked = func(contract.AttemptRequest) {}
	a := &answers{t: t, s: s}
	s.RegisterDelayedCallback(func() { a.send("task/acme/k/1", contract.ApproveUpdate, approval()) }, time.Hour)
	s.RegisterDelayedCallback(s.CancelWorkflow, 2*time.Hour)
	in := held(operation())
	res := s.run(in)
	require.Equal(t, contract.PhaseCancelled, res.Phase)
	require.Equal(t, []string{contract.StaleError}, a.refused)
}
