package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// looks tells whether the provider can be asked what happened.
func (r *reconciliation) looks() bool {
	return r.in.Operation.Probe.Looks()
}

// cancels tells whether an effect may be called off. One that has been accepted
// and is only to be verified is wanted, so it is left alone.
func (r *reconciliation) cancels() bool {
	return r.in.Operation.Probe != nil && r.in.Operation.Probe.Cancel != nil && !r.verifying()
}

// asks tells whether anything can be asked at all.
func (r *reconciliation) asks() bool { return r.looks() || r.cancels() }

// verifying tells that the provider has accepted the request, and that this is
// about what came of it.
func (r *reconciliation) verifying() bool {
	return r.in.Outcome.Class == admission.Succeeded && r.in.Operation.Verifies()
}

// settle is the time from now on after which a look-up that finds nothing says
// something. A lost worker may send until its own fence, one heartbeat timeout
// after its last acknowledged beat, which is before now.
func (r *reconciliation) settle() time.Duration {
	return r.in.Operation.SettleFor().D() + r.fence()
}

func (r *reconciliation) fence() time.Duration {
	if r.in.Outcome.Lost {
		return r.in.Operation.Heartbeat.D()
	}
	return 0
}

// fenced is the time, on the server's clock, from which on nothing of the attempt
// leaves any more.
func (r *reconciliation) fenced() time.Time { return r.stand.Since.Add(r.fence()) }

// look makes one look-up, and judges it together with those before it.
func (r *reconciliation) look(ctx workflow.Context) {
	var at time.Time
	e, answered := r.probe(ctx, contract.ProbeLookup, func() { at = workflow.Now(ctx) })
	if !answered {
		return
	}
	r.stand.Probes++
	r.stand.LastProbe = &e
	if r.verdict != "" { // decided meanwhile: a late look-up changes nothing
		return
	}
	switch e.Finding {
	case contract.Happened:
		r.take(contract.VerdictHappened, e)
	case contract.DidNotHappen:
		r.missed(at, e)
	default:
		r.misses = nil
	}
	if r.verdict == "" {
		r.publish(ctx)
	}
}

// missed is a look-up that found nothing.
func (r *reconciliation) missed(at time.Time, e contract.Evidence) {
	r.misses = append(r.misses, at)
	if n := len(r.misses); n > 16 {
		r.misses = r.misses[n-16:]
	}
	doubt := admission.Absent(r.in.Operation.Reads(), r.in.FirstSent, r.fenced(), r.misses)
	if doubt == admission.NoDoubt {
		e.Detail = join("two agreeing look-ups", e.Detail)
		r.take(contract.VerdictDidNotHappen, e)
		return
	}
	r.stand.LastProbe.Detail = join("not found, which proves nothing: "+string(doubt), e.Detail)
}

// take concludes by evidence of the provider. Once a cancel was sent it may land
// at any time, so what was seen of the effect before that says nothing any more.
func (r *reconciliation) take(verdict string, e contract.Evidence) {
	if r.stand.Cancels > 0 && e.Kind != contract.EvidenceCancel {
		r.note(e)
		return
	}
	r.conclude(verdict, e)
}

// cancel asks the provider to call the effect off. Its answer decides, whatever
// else is heard meanwhile.
func (r *reconciliation) cancel(ctx workflow.Context) {
	e, answered := r.probe(ctx, contract.ProbeCancel, func() {
		if r.stand.Cancels++; r.stand.Cancels == 1 {
			r.stand.Version++ // whoever has seen it before has not seen this
		}
		r.calling = true
		r.publish(ctx)
	})
	r.calling = false
	if !answered {
		return
	}
	r.stand.LastProbe = &e
	switch {
	case e.Finding == contract.Happened:
		r.take(contract.VerdictHappened, e)
	case e.Finding == contract.DidNotHappen && r.in.Operation.Probe.Cancel.Then == contract.ThenRetry:
		r.take(contract.VerdictDidNotHappen, e)
	case e.Finding == contract.DidNotHappen:
		r.take(contract.VerdictFailed, e)
	default:
		r.publish(ctx)
	}
}

// probe asks the provider once, under a lease if a probe costs something; begin
// is called just before. answered is false if a verdict came before the lease.
func (r *reconciliation) probe(ctx workflow.Context, kind string, begin func()) (e contract.Evidence, answered bool) {
	probe := *r.in.Operation.Probe
	e = contract.Evidence{Kind: evidenceKind(kind), Finding: contract.Inconclusive}
	lease, refused := r.lease(ctx, probe)
	switch {
	case refused != "":
		e.At, e.Detail = workflow.Now(ctx), "the budget refused the probe: "+refused
		return e, true
	case !lease:
		return e, false
	}
	begin()
	actx := workflow.WithActivityOptions(ctx, probeOptions(r.in.Operation, kind))
	err := workflow.ExecuteActivity(actx, contract.ProbeActivity, contract.ProbeInput{Tenant: r.in.Tenant, Key: r.in.Key,
		Attempt: r.in.Attempt, ProviderKey: r.in.ProviderKey, Probe: probe, Kind: kind}).Get(ctx, &e)
	switch {
	case err != nil:
		e = contract.Evidence{Finding: contract.Inconclusive, Detail: err.Error()}
	case kind == contract.ProbeCancel && e.Kind != contract.EvidenceCancel:
		// A worker that knows no cancels has looked it up.
		e = contract.Evidence{Finding: contract.Inconclusive, Detail: "the worker cannot cancel: update it"}
	}
	e.Kind, e.At = evidenceKind(kind), workflow.Now(ctx)
	r.giveBack(ctx, probe, e)
	return e, true
}

func evidenceKind(probe string) string {
	if probe == contract.ProbeCancel {
		return contract.EvidenceCancel
	}
	return contract.EvidenceLookup
}
