package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// reconcile finds out about a possible effect, as long as it takes.
func (t *task) reconcile(ctx workflow.Context, o contract.Outcome) (*ending, time.Duration) {
	t.note(ctx, contract.PhaseReconciling)
	res, err := t.child(ctx, o)
	if err != nil {
		// Only an operator's terminate, or a fault of ours, ends a child without a
		// verdict. The doubt is not resolved by that: begin again.
		workflow.GetLogger(ctx).Error("reconciliation ended without a verdict", "attempt", t.attempt, "error", err)
		dctx, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Sleep(dctx, time.Minute)
		t.version++ // of a decision that it may have taken
		return t.reconcile(ctx, o)
	}
	if res.Verdict != contract.VerdictReplay { // the replay's own answer ends that doubt
		t.settled(ctx)
	}
	t.version = max(t.version, res.Version)
	t.result.Evidence = append(t.result.Evidence, res.Evidence...)
	t.countedTwice(ctx, res.Evidence)
	last := contract.Evidence{}
	if n := len(res.Evidence); n > 0 {
		last = res.Evidence[n-1]
	}
	switch res.Verdict {
	case contract.VerdictHappened:
		t.result.Reference, t.result.Result = last.Reference, last.Result
		t.result.Available = len(last.Result) > 0
		t.hadEffect(t.attempt)
		return &ending{phase: contract.PhaseSucceeded}, 0
	case contract.VerdictFailed:
		return &ending{contract.PhaseFailed, "resolved_failed", last.Detail}, 0
	case contract.VerdictReplay:
		// The attempt limit was looked at before; cancelling comes too late.
		t.count(reasonReplay)
		return nil, backoff(t.op.Retry, t.counted, contract.TaskID(t.in.Tenant, t.in.Key))
	}
	t.disproved = append(t.disproved, t.attempt)
	reason := reasonAbsent
	if o.Reason != "" {
		reason = o.Reason
	}
	return t.again(ctx, reason, "it did not happen: "+last.Detail, o.RetryAfter.D())
}

// child runs the reconciliation and passes on to it what the task is told.
func (t *task) child(ctx workflow.Context, o contract.Outcome) (contract.ReconcileResult, error) {
	dctx, _ := workflow.NewDisconnectedContext(ctx)
	id := contract.ReconcileID(t.in.Tenant, t.in.Key, t.attempt)
	run := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(dctx, reconcileOptions(id)), contract.ReconcileWorkflow,
		contract.ReconcileInput{Tenant: t.in.Tenant, Key: t.in.Key, Attempt: t.attempt,
			ProviderKey: contract.ProviderKey(t.in.Tenant, t.in.Key), Operation: t.op, Hash: t.in.Hash,
			Outcome: o, FirstSent: t.firstSent, Replayable: t.replayable(ctx), Version: t.version + 1, Agent: t.in.Agent, Decided: t.decided()})
	for t.unknown.ReceiveAsync(nil) { // of an earlier attempt
	}
	for {
		var late *contract.LateEvidence
		done := false
		s := workflow.NewSelector(dctx)
		s.AddFuture(run, func(workflow.Future) { done = true })
		s.AddReceive(t.evidence, func(c workflow.ReceiveChannel, _ bool) {
			late = &contract.LateEvidence{}
			c.Receive(dctx, late)
		})
		s.AddReceive(t.unknown, func(c workflow.ReceiveChannel, _ bool) {
			var stand contract.Stand
			c.Receive(dctx, &stand)
			t.version = max(t.version, stand.Version)
			setPhase(dctx, contract.PhaseUnknown)
		})
		s.Select(dctx)
		if done {
			var res contract.ReconcileResult
			err := run.Get(dctx, &res)
			return res, err
		}
		if late != nil {
			// A child that has closed meanwhile has its verdict already.
			_ = run.SignalChildWorkflow(dctx, contract.EvidenceSignal, *late).Get(dctx, nil)
		}
	}
}

// replayable tells whether a further attempt may be made at all.
func (t *task) replayable(ctx workflow.Context) bool {
	r := t.op.Retry
	return ctx.Err() == nil && t.counted < r.MaxAttempts &&
		(r.MaxAge <= 0 || workflow.Now(ctx).Sub(t.began) < r.MaxAge.D()) &&
		(t.in.Deadline == nil || t.in.Deadline.After(workflow.Now(ctx)))
}
