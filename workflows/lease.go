package workflows

import (
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// A probe that costs something takes a lease of the budget like any attempt, by
// the name of its reconciliation: if that ends, the budget's audit finds no
// holder and the lease comes back.

// lease waits for the lease of the next probe. It is false when a verdict came
// first; refused says why the budget gives none.
func (r *reconciliation) lease(ctx workflow.Context, probe contract.Probe) (granted bool, refused string) {
	if len(probe.Cost) == 0 {
		return true, ""
	}
	r.stand.Leases++
	n := r.stand.Leases
	r.local(ctx, contract.RequestActivity, contract.RequestInput{Budget: r.budget(), Request: contract.AttemptRequest{Request: admission.Request{
		Task: r.holder(ctx), Attempt: n, Tenant: r.in.Tenant, Operation: contract.ProbeOperation(r.in.Operation.Name),
		Hash: r.in.Hash, Cost: probe.Cost, LeaseFor: probe.Timeout + r.in.Operation.Heartbeat}}})
	for r.verdict == "" {
		var d contract.Decision
		if r.decisions.ReceiveAsync(&d) {
			switch {
			case d.Attempt != n: // of an older probe
			case d.Lease != nil:
				return true, ""
			default:
				return false, join(string(d.Reason), d.Detail)
			}
			continue
		}
		// What a cancel that is about to be sent would overtake is heard first.
		if r.drain(ctx); r.verdict != "" {
			break
		}
		if err := workflow.Await(ctx, func() bool { return r.verdict != "" || r.late.Len() > 0 || r.decisions.Len() > 0 }); err != nil {
			break
		}
	}
	r.report(ctx, admission.Report{Task: r.holder(ctx), Attempt: n, Kind: admission.Withdrawn})
	return false, ""
}

// giveBack returns the lease with what the probe showed of the provider: that it
// answered, that it wants less, or that it is not well.
func (r *reconciliation) giveBack(ctx workflow.Context, probe contract.Probe, e contract.Evidence) {
	if len(probe.Cost) == 0 {
		return
	}
	out := admission.Report{Task: r.holder(ctx), Attempt: r.stand.Leases, Kind: admission.Released, Class: admission.Succeeded}
	switch {
	case e.Status == 429:
		out.Class, out.Reason = admission.Refused, "rate_limited"
	case e.Status == 0, e.Status >= 500:
		out.Class, out.Reason = admission.Unknown, reasonNoAnswer
	}
	r.report(ctx, out)
}

func (r *reconciliation) report(ctx workflow.Context, report admission.Report) {
	r.local(ctx, contract.ReportActivity, contract.ReportInput{Budget: r.budget(), Report: report})
}

func (r *reconciliation) holder(ctx workflow.Context) string {
	return workflow.GetInfo(ctx).WorkflowExecution.ID
}

func (r *reconciliation) budget() string {
	if r.in.Budget == "" {
		return contract.DefaultBudget
	}
	return r.in.Budget
}

// local sends a message to the budget; see task.local.
func (r *reconciliation) local(ctx workflow.Context, activity string, in any) {
	lctx := workflow.WithLocalActivityOptions(ctx, controlOptions())
	if err := workflow.ExecuteLocalActivity(lctx, activity, in).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("message to the budget lost", "activity", activity, "error", err)
	}
}
