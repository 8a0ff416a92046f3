package workflows

import (
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// Findings keeps what was found wrong about one operation's effects, beside the
// tasks, whose histories it never touches. Evidence about tasks that have ended
// comes here too, and is held against their ends. Nothing takes a finding back.
func Findings(ctx workflow.Context, in contract.FindingsInput) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx) // only a terminate ends it
	f := &findings{in: in, notes: workflow.GetSignalChannel(ctx, contract.NoteSignal),
		evidence: workflow.GetSignalChannel(ctx, contract.EvidenceSignal)}
	if err := workflow.SetQueryHandler(ctx, contract.FindingsQuery, f.view); err != nil {
		return err
	}
	for {
		// 1. Take what was found, and what was said about tasks that have ended.
		f.drain(ctx)
		// 2. A finding's freeze comes before everything that takes long.
		f.freeze(ctx)
		// 3. Hold evidence against the ends of its tasks, which may find more.
		left := f.settle(ctx)
		left = f.freeze(ctx) || left
		// 4. Begin a new run before the history grows too long.
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && f.notes.Len() == 0 && f.evidence.Len() == 0 {
			return workflow.NewContinueAsNewError(ctx, contract.FindingsWorkflow, f.in)
		}
		// 5. Wait for more, or to try again what is left.
		more := func() bool { return f.notes.Len() > 0 || f.evidence.Len() > 0 }
		if left {
			_, _ = workflow.AwaitWithTimeout(ctx, findingsAgain, more)
		} else {
			_ = workflow.Await(ctx, more)
		}
	}
}

type findings struct {
	in       contract.FindingsInput
	notes    workflow.ReceiveChannel
	evidence workflow.ReceiveChannel
}

func (f *findings) view() (contract.FindingsView, error) {
	return contract.FindingsView{Operation: f.in.Operation, Findings: append([]contract.Finding{}, f.in.Findings...),
		Dropped: f.in.Dropped, Pending: len(f.in.Pending)}, nil
}

func (f *findings) drain(ctx workflow.Context) {
	for {
		var note contract.FindingNote
		if !f.notes.ReceiveAsync(&note) {
			break
		}
		for _, found := range note.Findings {
			f.add(ctx, found, note.Budget, note.Freeze)
		}
	}
	for {
		var said contract.ClosedEvidence
		if !f.evidence.ReceiveAsync(&said) {
			return
		}
		f.in.Pending = append(f.in.Pending, said)
	}
}

// add keeps a finding once. One that is there is not taken back by a lesser one,
// and freezes nothing again: a person has seen it.
func (f *findings) add(ctx workflow.Context, found contract.Finding, budget string, freeze bool) {
	for i := range f.in.Findings {
		old := &f.in.Findings[i]
		if old.Kind == found.Kind && old.Task == found.Task && (found.Task != "" || old.Effect == found.Effect) {
			old.Count = max(old.Count, found.Count)
			return
		}
	}
	if found.At.IsZero() {
		found.At = workflow.Now(ctx)
	}
	if len(f.in.Findings) < contract.MaxFindings {
		f.in.Findings = append(f.in.Findings, found)
	} else {
		f.in.Dropped++
	}
	f.measure(ctx, found.Kind)
	workflow.GetLogger(ctx).Error("finding", "operation", f.in.Operation, "kind", found.Kind, "task", found.Task, "detail", found.Detail)
	if !freeze {
		return
	}
	for _, o := range f.in.Freezes {
		if o.Budget == budget {
			return
		}
	}
	f.in.Freezes = append(f.in.Freezes, contract.FreezeOrder{Budget: budget, Request: contract.FreezeRequest{
		Operation: f.in.Operation, Frozen: true, Actor: contract.FindingsID(f.in.Operation),
		Reason: join(found.Kind, join(found.Task, found.Effect))}})
}

// freeze gives the orders that are not given yet, and tells whether some are left.
func (f *findings) freeze(ctx workflow.Context) bool {
	var left []contract.FreezeOrder
	for _, o := range f.in.Freezes {
		name := o.Budget
		if name == "" {
			name = contract.DefaultBudget
		}
		err := workflow.SignalExternalWorkflow(ctx, contract.BudgetID(name), "", contract.FreezeSignal, o.Request).Get(ctx, nil)
		if err != nil {
			workflow.GetLogger(ctx).Error("operation not frozen", "operation", f.in.Operation, "error", err)
			left = append(left, o)
		}
	}
	f.in.Freezes = left
	return len(left) > 0
}

// settle holds what is pending against the ends of its tasks, and tells whether
// some could not be. A task that is open after all takes its evidence itself.
func (f *findings) settle(ctx workflow.Context) bool {
	pending := f.in.Pending
	f.in.Pending = nil
	var left []contract.ClosedEvidence
	for _, said := range pending {
		var end contract.Settled
		actx := workflow.WithActivityOptions(ctx, batchOptions("read the end of "+said.Task))
		err := workflow.ExecuteActivity(actx, contract.SettledActivity, contract.SettledRequest{Task: said.Task}).Get(ctx, &end)
		switch {
		case err != nil || end.State == contract.AuditUnclear || end.State == contract.AuditOpen:
			left = append(left, said)
		case end.State == contract.AuditClosed:
			if kind := contract.Conflict(end, said.Replay, said.Attempt, said.Evidence); kind != "" {
				f.add(ctx, against(kind, said.Task, said.Evidence, end.Phase), said.Budget, said.Freeze)
			}
		case said.Evidence.Finding == contract.Happened: // its task is not there any more
			f.add(ctx, contract.Finding{Kind: contract.FindingOrphaned, Effect: said.Evidence.Reference, Task: said.Task,
				Actor: said.Evidence.Actor, Detail: "evidence of an effect whose task is not stored any more"}, said.Budget, said.Freeze)
		}
	}
	f.in.Pending = append(left, f.in.Pending...)
	return len(left) > 0
}

// against words what evidence says against an end.
func against(kind, task string, e contract.Evidence, phase contract.Phase) contract.Finding {
	text := map[string]string{ // looked up only
		contract.FindingDuplicate:    "more than one effect",
		contract.FindingContradicted: "evidence against the end",
		contract.FindingLost:         "the effect is not there",
	}[kind]
	count := e.Count
	if kind == contract.FindingDuplicate {
		count = max(count, 2)
	}
	return contract.Finding{Kind: kind, Task: task, Effect: e.Reference, Count: count, Actor: e.Actor, At: e.At,
		Detail: join(text, join("the task is "+string(phase)+", and a "+e.Kind+" says "+e.Finding, e.Detail))}
}
