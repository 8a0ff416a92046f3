package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// Reasons of tasks that ended for want of an approval.
const (
	reasonDeclined        = "approval_declined"
	reasonApprovalExpired = "approval_expired"
)

// asking is a task's question to a person: may the effect be made? It is asked
// after the admission, while the budget holds the task back, and before capacity
// is asked for: people think for hours, and hold no slot meanwhile.
type asking struct {
	stand    contract.ApprovalStand
	open     bool
	decision contract.ApprovalDecision
}

// awaitApproval waits for a person's decision; nil: it is approved, and the
// budget has been asked for the first attempt.
func (t *task) awaitApproval(ctx workflow.Context) *ending {
	began := workflow.GetInfo(ctx).WorkflowStartTime
	t.asking.stand, t.asking.open = contract.NewApprovalStand(t.op, t.in.Hash, began), true
	if t.in.Ticket == nil { // a gateway has noted it already
		t.noteApproval(ctx)
	}
	tctx, stop := workflow.WithCancel(ctx)
	expired := workflow.NewTimer(tctx, t.asking.stand.Expires.Sub(workflow.Now(ctx)))
	for {
		var decision *contract.Decision
		late := false
		s := workflow.NewSelector(ctx)
		s.AddReceive(t.decisions, func(c workflow.ReceiveChannel, _ bool) {
			decision = &contract.Decision{}
			c.Receive(ctx, decision)
		})
		s.AddReceive(t.approved, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) })
		s.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
		s.AddFuture(expired, func(workflow.Future) { late = true })
		s.Select(ctx)
		switch d := t.asking.decision; {
		case decision != nil && decision.Lease != nil:
			// A budget of an earlier build does not hold: what it granted goes back.
			t.withdraw(ctx)
		case decision != nil && decision.Attempt == t.attempt:
			t.asking.open = false
			return t.refused(*decision)
		case ctx.Err() != nil:
			return t.unasked(ctx, &ending{contract.PhaseCancelled, reasonCancelled, "cancelled while it waited for an approval"})
		case d.Outcome == contract.Approved:
			stop()
			t.bound()
			t.note(ctx, contract.PhaseAccepted)
			t.requestApproved(ctx)
			return nil
		case d.Outcome == contract.Declined:
			return t.unasked(ctx, &ending{contract.PhaseFailed, reasonDeclined, "declined by " + d.Actor + ": " + d.Evidence})
		case late:
			return t.unasked(ctx, &ending{contract.PhaseExpired, reasonApprovalExpired,
				"nobody approved it within " + t.op.Approval.Expires.String() + "; nothing was dispatched"})
		}
	}
}

// bound makes the approval's end the task's deadline: what was approved is not
// dispatched at some later time, when it may not be right any more.
func (t *task) bound() {
	if ends := t.asking.stand.Expires; t.in.Deadline == nil || ends.Before(*t.in.Deadline) {
		t.in.Deadline = &ends
	}
}

// unasked ends a task that was not approved: its place in the budget is free.
func (t *task) unasked(ctx workflow.Context, e *ending) *ending {
	t.asking.open = false
	t.withdraw(ctx)
	return e
}

// noteApproval keeps the question where it can be read without a worker.
func (t *task) noteApproval(ctx workflow.Context) {
	setPhase(ctx, contract.WaitsForApproval)
	if err := workflow.UpsertMemo(ctx, map[string]any{contract.ApprovalMemo: t.asking.stand}); err != nil {
		workflow.GetLogger(ctx).Error("question not published", "error", err)
	}
}

func (t *task) validateApproval(_ workflow.Context, in contract.ApprovalDecision) error {
	refuse := func(kind, format string, args ...any) error {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), kind, nil)
	}
	if in.Outcome != contract.Approved && in.Outcome != contract.Declined {
		return refuse(contract.InvalidError, "outcome %q: want approved or declined", in.Outcome)
	}
	if err := checkDecision(in.ID, in.Actor, in.Evidence, t.in.Tenant, t.in.Agent); err != nil {
		return err
	}
	stand := t.asking.stand
	switch {
	case t.asking.decision.ID != "":
		return refuse(contract.StaleError, "it is decided: %s by %s", t.asking.decision.Outcome, t.asking.decision.Actor)
	case !t.asking.open:
		return refuse(contract.StaleError, "the task does not wait for an approval")
	case in.Version != stand.Version:
		return refuse(contract.StaleError, "version %d is not the current one, which is %d", in.Version, stand.Version)
	case in.Hash != stand.Hash:
		return refuse(contract.ChangedError, "the task's payload has the hash %s, not %s", stand.Hash, in.Hash)
	case in.Digest != stand.Digest:
		return refuse(contract.ChangedError, "the operation's declaration has the digest %s, not %s", stand.Digest, in.Digest)
	}
	return nil
}

// approve takes a person's decision, once.
func (t *task) approve(ctx workflow.Context, in contract.ApprovalDecision) (contract.ApprovalReply, error) {
	if err := t.validateApproval(ctx, in); err != nil {
		return contract.ApprovalReply{}, err
	}
	t.asking.decision, t.asking.open = in, false
	t.asking.stand.Version++
	t.approved.SendAsync(struct{}{})
	return contract.ApprovalReply{Outcome: in.Outcome, Version: t.asking.stand.Version}, nil
}
