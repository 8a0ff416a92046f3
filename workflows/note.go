package workflows

import (
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// tell keeps findings of the task's own operation.
func (t *task) tell(ctx workflow.Context, found ...contract.Finding) {
	if t.op.OnFinding == "" {
		return // pinned before there were findings
	}
	t.local(ctx, contract.NoteActivity, contract.FindingNote{Operation: t.in.Operation, Budget: t.in.BudgetName(),
		Freeze: t.op.OnFinding == contract.OnFindingFreeze, Findings: found})
}

// leftovers take late evidence that nobody waited for. A task that would end as if
// nothing had happened ends by it; what else it says against the end is a finding.
// A signal that comes while the task closes makes the server ask it once more, so
// that none is lost.
func (t *task) leftovers(ctx workflow.Context, phase contract.Phase) contract.Phase {
	if t.op.OnFinding == "" {
		return phase
	}
	if phase != contract.PhaseSucceeded && phase != contract.PhaseRejected && !t.op.Verifies() && t.heard(ctx) != nil {
		phase = contract.PhaseSucceeded
	}
	for {
		late, ok := t.nextLate()
		if !ok {
			return phase
		}
		e := evidenceOf(contract.EvidenceLate, late.Outcome, workflow.Now(ctx))
		switch {
		case late.Callback != nil:
			e = *late.Callback
			e.Kind, e.At = contract.EvidenceCallback, workflow.Now(ctx)
		case t.op.Verifies() && e.Finding == contract.Happened, late.Attempt <= t.calledOff:
			e.Finding = contract.Inconclusive // accepted, no more than that; or called off
		}
		t.result.Evidence = append(t.result.Evidence, e)
		end := contract.Settled{Phase: phase, Attempt: t.result.Attempt, Reference: t.result.Reference}
		if kind := contract.Conflict(end, t.op.Replay.Class, late.Attempt, e); kind != "" {
			t.tell(ctx, against(kind, t.id(), e, phase))
		}
	}
}

// hadEffect remembers the attempt that a task succeeded by.
func (t *task) hadEffect(attempt int) {
	if t.op.OnFinding != "" {
		t.result.Attempt = attempt
	}
}

// disagreed tells of evidence that an effect was there after its absence had been
// proven: the provider's reads are not what they are declared to be.
func (t *task) disagreed(ctx workflow.Context, attempt int, e contract.Evidence) {
	for _, n := range t.disproved {
		if n == attempt {
			found := against(contract.FindingContradicted, t.id(), e, contract.PhaseReconciling)
			found.Detail = "its absence was proven, and late evidence says that it happened"
			t.tell(ctx, found)
			return
		}
	}
}

// countedTwice tells of evidence that shows more than one effect.
func (t *task) countedTwice(ctx workflow.Context, all []contract.Evidence) {
	for _, e := range all {
		if e.Count > 1 {
			t.tell(ctx, against(contract.FindingDuplicate, t.id(), e, contract.PhaseReconciling))
		}
	}
}
