package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// Reconcile finds out whether one attempt had its effect. It ends with a
// verdict only: by evidence, by the replay class, or by a person. UNKNOWN is
// where it stays as long as there is none.
func Reconcile(ctx workflow.Context, in contract.ReconcileInput) (contract.ReconcileResult, error) {
	r := &reconciliation{in: in, late: workflow.GetSignalChannel(ctx, contract.EvidenceSignal)}
	r.stand = contract.Stand{Version: max(1, in.Version), Phase: contract.PhaseReconciling, Reason: join(in.Outcome.Reason, in.Outcome.Detail), Since: workflow.Now(ctx)}
	if in.Version > 0 {
		r.stand.Cost = in.Operation.Cost
	}
	if in.Stand != nil {
		r.stand = *in.Stand
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.ResolveUpdate, r.resolve,
		workflow.UpdateHandlerOptions{Validator: r.validateResolve}); err != nil {
		return contract.ReconcileResult{}, err
	}
	r.publish(ctx)
	if in.Operation.EscalateAfter > 0 && !r.stand.Overdue {
		workflow.Go(ctx, r.escalate)
	}
	if err := r.run(ctx); err != nil {
		return contract.ReconcileResult{}, err
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return contract.ReconcileResult{}, err
	}
	return contract.ReconcileResult{Verdict: r.verdict, Evidence: r.in.Evidence, Version: r.stand.Version}, nil
}

type reconciliation struct {
	in      contract.ReconcileInput
	stand   contract.Stand
	late    workflow.ReceiveChannel
	verdict string // empty: not decided
}

func (r *reconciliation) run(ctx workflow.Context) error {
	// 1. What may be sent again needs no proof, unless a look-up could spare it.
	if r.in.Operation.Replay.Class == contract.ReplaySafe && r.mayReplay(ctx) {
		r.verdict = contract.VerdictReplay
		return nil
	}
	// 2. Until its worker is fenced and the provider has settled, absence proves nothing.
	if r.in.Operation.Probe != nil && r.stand.Probes == 0 {
		r.wait(ctx, r.settle())
	}
	// 3. Look, as often as declared.
	absent := 0
	for r.verdict == "" && r.in.Operation.Probe != nil && r.stand.Probes < r.in.Operation.Probe.Attempts {
		absent = r.look(ctx, absent)
		if r.verdict == "" {
			r.wait(ctx, probeWait(*r.in.Operation.Probe, r.stand.Probes))
		}
	}
	// 4. Nobody can tell: the replay class decides, else a person.
	if r.verdict == "" && r.mayReplay(ctx) {
		r.verdict = contract.VerdictReplay
	}
	if r.verdict == "" && r.stand.Phase != contract.PhaseUnknown {
		r.ask(ctx)
	}
	// 5. Wait for a word, looking now and then if one can.
	for r.verdict == "" {
		if r.in.Operation.Probe == nil {
			r.wait(ctx, 0)
			continue
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && r.drained(ctx) {
			next := r.in
			next.Stand = &r.stand
			return workflow.NewContinueAsNewError(ctx, contract.ReconcileWorkflow, next)
		}
		absent = r.look(ctx, absent)
		if r.verdict == "" {
			r.wait(ctx, probeWait(*r.in.Operation.Probe, r.stand.Probes))
		}
	}
	return nil
}

// settle is the time from now on after which a look-up that finds nothing says
// something. A lost worker may send until its own fence, one heartbeat timeout
// after its last acknowledged beat, which is before now.
func (r *reconciliation) settle() time.Duration {
	d := r.in.Operation.Probe.Settle.D()
	if r.in.Outcome.Lost {
		d += r.in.Operation.Heartbeat.D()
	}
	return d
}

// probeWait doubles up to the declared maximum, and beyond it up to an hour
// once the declared number of look-ups is spent.
func probeWait(p contract.Probe, made int) time.Duration {
	most := p.Max.D()
	if made >= p.Attempts {
		most = max(most, probeAgainMax)
	}
	wait := p.Base.D()
	for i := 1; i < made && wait < most; i++ {
		wait *= 2
	}
	return min(wait, most)
}

// mayReplay: safe work may be sent again at any time, keyed work while the
// provider certainly remembers the key: the window less a tenth and what one
// attempt may take.
func (r *reconciliation) mayReplay(ctx workflow.Context) bool {
	if !r.in.Replayable {
		return false
	}
	replay := r.in.Operation.Replay
	switch replay.Class {
	case contract.ReplaySafe:
		return true
	case contract.ReplayKeyed:
		closes := r.in.FirstSent.Add(replay.Window.D()*9/10 - r.in.Operation.AttemptTimeout().D())
		return workflow.Now(ctx).Before(closes)
	}
	return false
}

// look makes one look-up. absent is the number of agreeing ones before it that
// found nothing.
func (r *reconciliation) look(ctx workflow.Context, absent int) int {
	e := contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.Inconclusive}
	actx := workflow.WithActivityOptions(ctx, probeOptions(r.in.Operation))
	err := workflow.ExecuteActivity(actx, contract.ProbeActivity, contract.ProbeInput{Tenant: r.in.Tenant, Key: r.in.Key,
		Attempt: r.in.Attempt, ProviderKey: r.in.ProviderKey, Probe: *r.in.Operation.Probe}).Get(ctx, &e)
	if err != nil {
		e = contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.Inconclusive, Detail: err.Error()}
	}
	e.At = workflow.Now(ctx)
	r.stand.Probes++
	r.stand.LastProbe = &e
	switch {
	case r.verdict != "": // decided meanwhile: a late look-up changes nothing
		return absent
	case e.Finding == contract.Happened:
		r.conclude(contract.VerdictHappened, e)
	case e.Finding == contract.DidNotHappen && absent >= 1:
		e.Detail = join("two agreeing look-ups", e.Detail)
		r.conclude(contract.VerdictDidNotHappen, e)
	case e.Finding == contract.DidNotHappen:
		absent++
	default:
		absent = 0
	}
	if r.verdict == "" {
		r.publish(ctx)
	}
	return absent
}

func (r *reconciliation) conclude(verdict string, e contract.Evidence) {
	r.verdict = verdict
	r.in.Evidence = append(r.in.Evidence, e)
}

// ask makes it known that only new evidence or a person can go on.
func (r *reconciliation) ask(ctx workflow.Context) {
	r.stand.Phase = contract.PhaseUnknown
	r.stand.Version++
	r.publish(ctx)
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		_ = workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, contract.UnknownSignal, r.stand).Get(ctx, nil)
	}
}

// publish keeps what is known where it can be read without a worker.
func (r *reconciliation) publish(ctx workflow.Context) {
	if err := workflow.UpsertMemo(ctx, map[string]any{contract.StandMemo: r.stand}); err != nil {
		workflow.GetLogger(ctx).Error("stand not published", "error", err)
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

// drain takes what a fenced worker said after all.
func (r *reconciliation) drain(ctx workflow.Context) {
	for {
		var late contract.LateEvidence
		if !r.late.ReceiveAsync(&late) {
			return
		}
		e := evidenceOf(contract.EvidenceLate, late.Outcome, workflow.Now(ctx))
		switch {
		case r.verdict != "" || late.Attempt != r.in.Attempt || e.Finding == contract.Inconclusive:
			r.in.Evidence = append(r.in.Evidence, e)
		case e.Finding == contract.Happened:
			r.conclude(contract.VerdictHappened, e)
		default:
			r.conclude(contract.VerdictDidNotHappen, e)
		}
	}
}

// drained leaves no signal unread, as a new run must find none.
func (r *reconciliation) drained(ctx workflow.Context) bool {
	r.drain(ctx)
	return r.verdict == ""
}

var resolutions = map[string]string{ // looked up only
	contract.Happened:      contract.VerdictHappened,
	contract.DidNotHappen:  contract.VerdictDidNotHappen,
	contract.FailedFinding: contract.VerdictFailed,
}

func (r *reconciliation) validateResolve(_ workflow.Context, in contract.Resolution) error {
	refuse := func(kind, format string, args ...any) error {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), kind, nil)
	}
	if resolutions[in.Outcome] == "" {
		return refuse(contract.InvalidError, "outcome %q: want happened, did_not_happen or failed", in.Outcome)
	}
	if err := checkDecision(in.ID, in.Actor, in.Evidence, r.in.Tenant, r.in.Agent); err != nil {
		return err
	}
	switch {
	case slices.Contains(r.in.Decided, in.ID):
		return refuse(contract.ReusedError, "the decision %q was made before", in.ID)
	case r.verdict != "":
		return refuse(contract.StaleError, "it is decided: %s", r.verdict)
	case in.Version != r.stand.Version:
		return refuse(contract.StaleError, "version %d is not the current one, which is %d", in.Version, r.stand.Version)
	}
	return nil
}

// resolve takes a person's word, which is evidence like any other.
func (r *reconciliation) resolve(ctx workflow.Context, in contract.Resolution) (contract.ResolveReply, error) {
	if r.verdict != "" {
		return contract.ResolveReply{}, temporal.NewNonRetryableApplicationError("it is decided: "+r.verdict, contract.StaleError, nil)
	}
	r.conclude(resolutions[in.Outcome], contract.Evidence{Kind: contract.EvidencePerson, Finding: in.Outcome,
		At: workflow.Now(ctx), Actor: in.Actor, Decision: in.ID, Detail: in.Evidence})
	r.stand.Version++
	return contract.ResolveReply{Verdict: r.verdict, Version: r.stand.Version}, nil
}
