package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

const (
	// maxCallbacks bounds the IDs that are remembered: a provider repeats its
	// latest messages, not its oldest.
	maxCallbacks = 100
	maxNotes     = 50 // evidence that does not decide
)

// pause waits for the next probe, unless the last one decided.
func (r *reconciliation) pause(ctx workflow.Context, made int) {
	if r.verdict == "" {
		r.wait(ctx, probeWait(*r.in.Operation.Probe, made))
	}
}

// await gives a declared callback its time before a person is asked.
func (r *reconciliation) await(ctx workflow.Context) {
	probe := r.in.Operation.Probe
	if r.verdict != "" || probe == nil || probe.Callback == nil || r.stand.Phase == contract.PhaseUnknown {
		return
	}
	if left := r.stand.Since.Add(probe.Callback.Within.D()).Sub(workflow.Now(ctx)); left > 0 {
		r.wait(ctx, left)
	}
}

// wait sleeps for d, or for ever if d is zero; late evidence and a resolution
// end it.
func (r *reconciliation) wait(ctx workflow.Context, d time.Duration) {
	r.stand.NextProbe = nil
	ready := func() bool { return r.verdict != "" || r.late.Len() > 0 }
	if d > 0 {
		at := workflow.Now(ctx).Add(d)
		r.stand.NextProbe = &at
	}
	for {
		if d > 0 {
			left := r.stand.NextProbe.Sub(workflow.Now(ctx))
			if got, err := workflow.AwaitWithTimeout(ctx, max(left, 0), ready); err != nil || !got {
				return
			}
		} else if err := workflow.Await(ctx, ready); err != nil {
			return
		}
		r.drain(ctx)
		if r.verdict != "" {
			return
		}
	}
}

// drain takes what a fenced worker said after all, and what the provider said by
// itself.
func (r *reconciliation) drain(ctx workflow.Context) {
	for {
		var late contract.LateEvidence
		if !r.late.ReceiveAsync(&late) {
			return
		}
		if late.Callback != nil {
			r.called(ctx, *late.Callback)
			continue
		}
		e := evidenceOf(contract.EvidenceLate, late.Outcome, workflow.Now(ctx))
		if r.in.Operation.Verifies() && e.Finding == contract.Happened {
			e.Finding = contract.Inconclusive // it was accepted: no more than that
		}
		switch {
		case r.verdict != "" || late.Attempt != r.in.Attempt || e.Finding == contract.Inconclusive:
			r.in.Evidence = append(r.in.Evidence, e)
		case e.Finding == contract.Happened:
			r.take(contract.VerdictHappened, e)
		default:
			r.take(contract.VerdictDidNotHappen, e)
		}
	}
}

// called takes a callback, once. It is about the key, not about an attempt: that
// it happened decides in any case, that it did not only if nothing was sent
// before this attempt, since it may be about that.
func (r *reconciliation) called(ctx workflow.Context, e contract.Evidence) {
	if slices.Contains(r.stand.Callbacks, e.ID) {
		return
	}
	r.stand.Callbacks = append(r.stand.Callbacks, e.ID)
	if n := len(r.stand.Callbacks); n > maxCallbacks {
		r.stand.Callbacks = r.stand.Callbacks[n-maxCallbacks:]
	}
	e.Kind, e.At = contract.EvidenceCallback, workflow.Now(ctx)
	only := !r.in.Outcome.Dispatching.IsZero() && r.in.Outcome.Dispatching.Equal(r.in.FirstSent)
	// A key that is used again after a cancel has had two effects to speak of.
	probe := r.in.Operation.Probe
	twice := probe != nil && probe.Cancel != nil && probe.Cancel.Then == contract.ThenRetry && !only
	switch {
	case r.verdict != "", twice:
		r.note(e)
	case e.Finding == contract.Happened:
		r.take(contract.VerdictHappened, e)
	case e.Finding == contract.DidNotHappen && only:
		r.take(contract.VerdictDidNotHappen, e)
	default:
		r.note(e)
	}
}

// note keeps evidence that does not decide, without the provider's whole answer.
func (r *reconciliation) note(e contract.Evidence) {
	if e.Result = nil; len(r.in.Evidence) < maxNotes {
		r.in.Evidence = append(r.in.Evidence, e)
	}
}

// reconsider takes what has come in the last moment: that it happened is worth
// more than any reason to send it again.
func (r *reconciliation) reconsider(ctx workflow.Context) {
	if r.verdict != contract.VerdictDidNotHappen && r.verdict != contract.VerdictReplay || r.stand.Cancels > 0 {
		return
	}
	before := r.verdict
	r.verdict = ""
	if r.drain(ctx); r.verdict != contract.VerdictHappened {
		r.verdict = before
	}
}

// drained leaves no signal unread, as a new run must find none.
func (r *reconciliation) drained(ctx workflow.Context) bool {
	r.drain(ctx)
	return r.verdict == ""
}
