package activities

import (
	"context"
	"time"

	"go.uber.org/zap"

	"headgate/admission"
	"headgate/contract"
)

// Late evidence is sent again until it is taken, for this long.
const (
	lateFor     = time.Minute
	lateRPC     = 10 * time.Second
	latePause   = 100 * time.Millisecond
	latePauseAt = 5 * time.Second // longest
)

// late tells the task what an attempt that lost its claim has learnt: that the
// effect was answered, or that the guard held it back. An attempt that learnt
// nothing is silent.
func (a *attempt) late(ctx context.Context, o contract.Outcome) {
	if o.Class == admission.Unknown && o.Status == 0 {
		return
	}
	task := contract.TaskID(a.in.Tenant, a.in.Key)
	evidence := contract.LateEvidence{Attempt: a.in.Attempt, Outcome: o}
	end := a.now().Add(lateFor)
	for wait := latePause; ; wait = min(2*wait, latePauseAt) {
		rpc, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateRPC)
		err := a.Client.SignalWorkflow(rpc, task, "", contract.EvidenceSignal, evidence)
		cancel()
		switch {
		case err == nil:
			a.log.Info("late evidence sent", zap.String("class", string(o.Class)))
			return
		case gone(err):
			if err = a.tooLate(ctx, task, o); err == nil {
				a.log.Warn("late evidence about a task that has ended", zap.String("class", string(o.Class)))
				return
			}
		}
		if past(a.now(), end) || !pause(ctx, wait) {
			a.log.Error("late evidence not sent", zap.String("class", string(o.Class)), zap.Error(err))
			return
		}
	}
}

// tooLate hands evidence about a task that has ended to the operation's findings,
// which hold it against the end. A task that was pinned before there were findings
// is left alone.
func (a *attempt) tooLate(ctx context.Context, task string, o contract.Outcome) error {
	e := contract.Evidence{Kind: contract.EvidenceLate, Finding: contract.DidNotHappen, At: a.now(), Actor: a.Worker,
		Reference: o.Reference, Status: o.Status, Detail: o.Reason}
	switch {
	case a.in.Operation.OnFinding == "", o.Class == admission.Unknown:
		return nil
	case o.Class == admission.Succeeded:
		e.Finding = contract.Happened
	}
	rpc, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateRPC)
	defer cancel()
	return tellFindings(rpc, a.Client, a.in.Operation.Name, contract.EvidenceSignal, contract.ClosedEvidence{Task: task, Attempt: a.in.Attempt,
		Replay: a.in.Operation.Replay.Class, Evidence: e, Budget: a.in.Budget, Freeze: a.in.Operation.OnFinding == contract.OnFindingFreeze})
}
