package workflows

import (
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// escalate makes a doubt overdue that only a person can end and nobody has: one
// line in the log, and a mark in the inbox. It decides nothing.
func (r *reconciliation) escalate(ctx workflow.Context) {
	settled := func() bool { return r.verdict != "" }
	if err := workflow.Await(ctx, func() bool { return settled() || r.stand.Phase == contract.PhaseUnknown }); err != nil || settled() {
		return
	}
	at := r.stand.Since.Add(r.in.Operation.EscalateAfter.D())
	if ok, err := workflow.AwaitWithTimeout(ctx, max(at.Sub(workflow.Now(ctx)), 0), settled); ok || err != nil {
		return
	}
	r.stand.Overdue = true
	r.publish(ctx)
	r.measureEscalation(ctx)
	workflow.GetLogger(ctx).Warn("outcome is unknown for too long", "tenant", r.in.Tenant, "key", r.in.Key,
		"task", contract.TaskID(r.in.Tenant, r.in.Key), "attempt", r.in.Attempt, "operation", r.in.Operation.Name,
		"since", r.stand.Since, "version", r.stand.Version)
}
