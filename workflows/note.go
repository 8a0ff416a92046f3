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
	for {
		var late contract.LateEvidence
		if !t.evidence.ReceiveAsync(&late) {
			return phase
		}
		e := evidenceOf(contract.EvidenceLate, late.Outcome, workflow.Now(ctx))
		t.result.Evidence = append(t.result.Evidence, e)
		if e.Finding == contract.Happened && phase != contract.PhaseSucceeded && phase != contract.PhaseRejected {
			t.disagreed(ctx, late.Attempt, e)
			t.succeed(late.Outcome)
			t.hadEffect(late.Attempt)
			phase = contract.PhaseSucceeded
			continue
		}
		end := contract.Settled{Phase: phase, Attempt: t.result.Attempt, Reference: t.result.Reference}
		if kind := contract.Conflict(end, t.op.Replay.Class, late.Attempt, e); kind != "" {
			t.tell(ctx, finding(kind, contract.TaskID(t.in.Tenant, t.in.Key), e, phase))
		}
	}
}

// beforehand takes late evidence that came before a lease did: what has happened
// is not sent again because its decision was read first.
func (t *task) beforehand(ctx workflow.Context) *ending {
	for t.op.OnFinding != "" {
		var late contract.LateEvidence
		if !t.evidence.ReceiveAsync(&late) {
			break
		}
		if ended := t.takeLate(ctx, late); ended != nil {
			return ended
		}
	}
	return nil
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
			found := finding(contract.FindingContradicted, contract.TaskID(t.in.Tenant, t.in.Key), e, contract.PhaseReconciling)
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
			t.tell(ctx, finding(contract.FindingDuplicate, contract.TaskID(t.in.Tenant, t.in.Key), e, contract.PhaseReconciling))
		}
	}
}
