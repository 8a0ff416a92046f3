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
			a.log.Warn("late evidence found no open task", zap.String("class", string(o.Class)))
			return
		case past(a.now(), end) || !pause(ctx, wait):
			a.log.Error("late evidence not sent", zap.String("class", string(o.Class)), zap.Error(err))
			return
		}
	}
}
