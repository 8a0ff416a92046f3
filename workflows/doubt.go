package workflows

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// reconcile finds out about a possible effect, as long as it takes.
func (t *task) reconcile(ctx workflow.Context, o contract.Outcome) (*ending, time.Duration) {
	res := t.findOut(ctx, t.attempt, o, func() bool { return o.Class != admission.Succeeded && t.replayable(ctx) })
	if res.Verdict != contract.VerdictReplay { // the replay's own answer ends that doubt
		t.settled(ctx)
		t.unproven = nil // all attempts have one key
	}
	t.keep(ctx, res)
	last := res.Last()
	if last.Kind == contract.EvidenceCancel {
		t.calledOff = t.attempt // what was seen of it before says nothing any more
	} else if res.Verdict != contract.VerdictHappened {
		if ended := t.heard(ctx); ended != nil {
			return ended, 0
		}
	}
	if res.Verdict == contract.VerdictReplay {
		// The attempt limit was looked at before; cancelling comes too late.
		t.count(ctx, reasonReplay)
		if t.op.Replay.Class == contract.ReplayKeyed {
			t.unproven = &unproven{t.attempt, o}
		}
		return nil, backoff(t.op.Retry, t.counted, t.id())
	}
	if ended := t.concluded(res, t.attempt, o); ended != nil {
		return ended, 0
	}
	reason := reasonAbsent
	if o.Reason != "" {
		reason = o.Reason
	}
	return t.again(ctx, reason, "it did not happen: "+last.Detail, o.RetryAfter.D())
}

// unproven is an attempt that may have had its effect, and was replayed. The
// answer to a replay is the answer to it; without one the doubt is as it was.
type unproven struct {
	attempt int
	outcome contract.Outcome
}

// prove finds out about an attempt whose replays have told nothing, before the
// task ends as if it had had no effect: by look-ups, or by a person.
func (t *task) prove(ctx workflow.Context, e ending) ending {
	doubt := t.unproven
	if doubt == nil {
		return e
	}
	t.unproven = nil
	res := t.findOut(ctx, doubt.attempt, doubt.outcome, func() bool { return false })
	t.keep(ctx, res)
	if ended := t.concluded(res, doubt.attempt, doubt.outcome); ended != nil {
		return *ended
	}
	return e
}

// findOut runs reconciliations of an attempt until one ends with a verdict. Only an
// operator's terminate, or a fault of ours, ends one without: the doubt is not
// resolved by that.
func (t *task) findOut(ctx workflow.Context, attempt int, o contract.Outcome, replayable func() bool) contract.ReconcileResult {
	for {
		t.note(ctx, contract.PhaseReconciling)
		res, err := t.child(ctx, attempt, o, replayable())
		if err == nil {
			return res
		}
		workflow.GetLogger(ctx).Error("reconciliation ended without a verdict", "attempt", attempt, "error", err)
		dctx, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Sleep(dctx, time.Minute)
		t.version++ // of a decision that it may have taken
	}
}

// keep takes over what a reconciliation has seen.
func (t *task) keep(ctx workflow.Context, res contract.ReconcileResult) {
	t.version = max(t.version, res.Version)
	t.result.Evidence = append(t.result.Evidence, res.Evidence...)
	t.countedTwice(ctx, res.Evidence)
}

// concluded is the end that a verdict about an attempt makes; nil: none, as it did
// not happen.
func (t *task) concluded(res contract.ReconcileResult, attempt int, o contract.Outcome) *ending {
	last := res.Last()
	switch {
	case res.Verdict == contract.VerdictHappened:
		t.result.Reference, t.result.Result = last.Reference, last.Result
		if o.Class == admission.Succeeded && len(last.Result) == 0 {
			t.result.Reference, t.result.Result = cmp.Or(last.Reference, o.Reference), o.Result
		}
		t.result.Available = len(t.result.Result) > 0
		t.hadEffect(attempt)
		return &ending{phase: contract.PhaseSucceeded}
	case res.Verdict == contract.VerdictFailed && last.Kind == contract.EvidenceCancel:
		return &ending{contract.PhaseFailed, reasonCalledOff, join("the provider cancelled it", last.Detail)}
	case res.Verdict == contract.VerdictFailed:
		return &ending{contract.PhaseFailed, "resolved_failed", last.Detail}
	}
	t.disproved = append(t.disproved, attempt)
	return nil
}

// child runs the reconciliation and passes on to it what the task is told.
func (t *task) child(ctx workflow.Context, attempt int, o contract.Outcome, replayable bool) (contract.ReconcileResult, error) {
	dctx, _ := workflow.NewDisconnectedContext(ctx)
	id := contract.ReconcileID(t.in.Tenant, t.in.Key, attempt)
	run := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(dctx, reconcileOptions(id)), contract.ReconcileWorkflow,
		contract.ReconcileInput{Tenant: t.in.Tenant, Key: t.in.Key, Attempt: attempt,
			ProviderKey: contract.ProviderKey(t.in.Tenant, t.in.Key), Operation: t.op, Hash: t.in.Hash,
			Outcome: o, FirstSent: t.firstSent, Budget: t.in.Budget, Version: t.version + 1, Agent: t.in.Agent, Decided: t.decided(),
			Replayable: replayable})
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
			if err := run.SignalChildWorkflow(dctx, contract.EvidenceSignal, *late).Get(dctx, nil); err != nil {
				t.missed = append(t.missed, *late) // it has its verdict already
			}
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

// verify finds out what came of a request that the provider has accepted.
func (t *task) verify(ctx workflow.Context, o contract.Outcome) (*ending, time.Duration) {
	e := evidenceOf(contract.EvidenceResponse, o, workflow.Now(ctx))
	e.Finding, e.Detail, e.Result = contract.Inconclusive, "accepted", nil // kept in the outcome
	t.result.Evidence = append(t.result.Evidence, e)
	o.Reason = reasonToVerify
	return t.reconcile(ctx, o)
}

// verifyLate is verify for a fenced worker's answer, which comes while a further
// attempt is asked for: that one is given up first.
func (t *task) verifyLate(ctx workflow.Context, o contract.Outcome) *ending {
	if t.asked {
		t.withdraw(ctx)
	}
	ended, wait := t.verify(ctx, o)
	if ended == nil && t.asked {
		t.next(ctx, wait)
	}
	return ended
}

// nextLate is the oldest evidence that nobody has taken yet.
func (t *task) nextLate() (late contract.LateEvidence, ok bool) {
	if len(t.missed) > 0 {
		late, t.missed = t.missed[0], t.missed[1:]
		return late, true
	}
	ok = t.evidence.ReceiveAsync(&late)
	return late, ok
}

// heard takes what has come while the task was not listening, before anything is
// sent or said to have failed: a provider that has said by itself that it happened
// is not asked again. Tasks whose declarations know of no callbacks, no
// provider and no findings were made before this rule, and go by the order of their histories.
func (t *task) heard(ctx workflow.Context) *ending {
	if t.op.OnFinding == "" && t.op.Provider == nil && (t.op.Probe == nil || t.op.Probe.Callback == nil) {
		return nil
	}
	for {
		late, ok := t.nextLate()
		if !ok {
			return nil
		}
		if ended := t.takeLate(ctx, late); ended != nil {
			return ended
		}
	}
}

// called takes a callback that comes while no reconciliation is open, once.
func (t *task) called(ctx workflow.Context, e contract.Evidence) *ending {
	known := slices.ContainsFunc(t.result.Evidence, func(seen contract.Evidence) bool { return seen.ID != "" && seen.ID == e.ID })
	if known || len(t.result.Evidence) >= maxNotes && e.Finding != contract.Happened {
		return nil
	}
	e.Kind, e.At = contract.EvidenceCallback, workflow.Now(ctx)
	t.result.Evidence = append(t.result.Evidence, e)
	if e.Finding != contract.Happened || t.calledOff > 0 {
		return nil // it may be about any attempt, also about a cancelled one
	}
	t.result.Result, t.result.Reference, t.result.Available = e.Result, e.Reference, len(e.Result) > 0
	return &ending{phase: contract.PhaseSucceeded}
}
