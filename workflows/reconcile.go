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
	ctx, _ = workflow.NewDisconnectedContext(ctx) // a doubt is not resolved by a cancel request
	r := &reconciliation{in: in, late: workflow.GetSignalChannel(ctx, contract.EvidenceSignal),
		decisions: workflow.GetSignalChannel(ctx, contract.DecisionSignal)}
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
	r.reconsider(ctx)
	return contract.ReconcileResult{Verdict: r.verdict, Evidence: r.in.Evidence, Version: r.stand.Version}, nil
}

type reconciliation struct {
	in        contract.ReconcileInput
	stand     contract.Stand
	late      workflow.ReceiveChannel
	decisions workflow.ReceiveChannel
	misses    []time.Time // when the latest look-ups in a row that found nothing began
	calling   bool        // a cancel is under way
	verdict   string      // empty: not decided
}

func (r *reconciliation) run(ctx workflow.Context) error {
	// 1. What may be sent again needs no proof, unless a look-up could spare it.
	if r.in.Operation.Replay.Class == contract.ReplaySafe && r.mayReplay(ctx) {
		r.verdict = contract.VerdictReplay
		return nil
	}
	// 2. Until its worker is fenced and the provider has settled, absence proves nothing.
	if r.asks() && r.stand.Probes == 0 && r.stand.Cancels == 0 {
		r.wait(ctx, r.settle())
	}
	// 3. Look, as often as declared.
	for r.verdict == "" && r.looks() && r.stand.Probes < r.in.Operation.Probe.Attempts {
		r.look(ctx)
		r.pause(ctx, r.stand.Probes)
	}
	// 4. Nobody can tell: the replay class decides.
	if r.verdict == "" && r.stand.Cancels == 0 && r.mayReplay(ctx) {
		r.verdict = contract.VerdictReplay
	}
	// 5. Else call it off, if that is declared, or let the provider speak.
	for made := r.stand.Cancels; r.verdict == "" && r.cancels() && made < r.in.Operation.Probe.Attempts; {
		r.cancel(ctx)
		made++
		r.pause(ctx, made)
	}
	r.await(ctx)
	// 6. Else a person.
	if r.verdict == "" && r.stand.Phase != contract.PhaseUnknown {
		r.ask(ctx)
	}
	// 7. Wait for a word, asking now and then if one can.
	for r.verdict == "" {
		if !r.asks() {
			r.wait(ctx, 0)
			continue
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && r.drained(ctx) {
			next := r.in
			next.Stand = &r.stand
			return workflow.NewContinueAsNewError(ctx, contract.ReconcileWorkflow, next)
		}
		if r.cancels() && (r.stand.Cancels > 0 || !r.looks()) {
			r.cancel(ctx)
		} else {
			r.look(ctx)
		}
		r.pause(ctx, max(r.stand.Probes, r.stand.Cancels))
	}
	return nil
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
	if !r.in.Replayable || r.spent() {
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

// spent tells that the provider has stored an error under the key, so that to
// send it again would only show that error again.
func (r *reconciliation) spent() bool {
	p := r.in.Operation.Provider
	return p != nil && p.ErrorsCached && r.in.Operation.Replay.Class == contract.ReplayKeyed && r.in.Outcome.Status >= 400
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

const cancelUnderWay = "the provider is being asked to cancel it: wait for the answer"

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
	case r.calling:
		// Its answer may overtake what the person has seen.
		return refuse(contract.StaleError, cancelUnderWay)
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
	if r.calling { // since it was validated
		return contract.ResolveReply{}, temporal.NewNonRetryableApplicationError(cancelUnderWay, contract.StaleError, nil)
	}
	r.conclude(resolutions[in.Outcome], contract.Evidence{Kind: contract.EvidencePerson, Finding: in.Outcome,
		At: workflow.Now(ctx), Actor: in.Actor, Decision: in.ID, Detail: in.Evidence})
	r.stand.Version++
	return contract.ResolveReply{Verdict: r.verdict, Version: r.stand.Version}, nil
}
