package workflows

import (
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// What a workflow measures goes through the SDK's handler, which is silent while a
// history is replayed. No command comes of it, and nothing is decided by it.

// tags are the labels of a task's metric: its operation, and pairs of name and
// value. A task that was refused before its operation was known may name anything.
func (t *task) tags(pairs ...string) map[string]string {
	operation := t.op.Name
	if operation == "" {
		operation = contract.OtherLabel
	}
	tags := map[string]string{contract.OperationLabel: operation}
	for i := 0; i+1 < len(pairs); i += 2 {
		tags[pairs[i]] = pairs[i+1]
	}
	return tags
}

// measureStart tells how long the task waited, once its first claim is known. The
// claim is on the worker's clock.
func (t *task) measureStart(ctx workflow.Context, o contract.Outcome) {
	if !t.claimed.IsZero() || o.Claimed.IsZero() {
		return
	}
	t.claimed = o.Claimed
	waited := o.Claimed.Sub(workflow.GetInfo(ctx).WorkflowStartTime)
	workflow.GetMetricsHandler(ctx).WithTags(t.tags(contract.PriorityLabel, t.in.Priority.String())).
		Timer(contract.StartMetric).Record(max(0, waited))
}

func (t *task) measureRetry(ctx workflow.Context, reason string) {
	workflow.GetMetricsHandler(ctx).WithTags(t.tags(contract.ReasonLabel, contract.MetricReason(reason))).
		Counter(contract.RetriesMetric).Inc(1)
}

// measureEnd tells how the task ended, and how long after its first claim its
// outcome was certain.
func (t *task) measureEnd(ctx workflow.Context) {
	metrics, phase, reason := workflow.GetMetricsHandler(ctx), string(t.result.Phase), t.result.Reason
	if t.result.Phase == contract.PhaseSucceeded {
		reason = ""
	}
	metrics.WithTags(t.tags(contract.PhaseLabel, phase, contract.ReasonLabel, contract.MetricReason(reason))).
		Counter(contract.EndsMetric).Inc(1)
	if !t.claimed.IsZero() {
		metrics.WithTags(t.tags(contract.PhaseLabel, phase)).
			Timer(contract.ConfirmMetric).Record(max(0, workflow.Now(ctx).Sub(t.claimed)))
	}
}

func (r *reconciliation) measureEscalation(ctx workflow.Context) {
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{contract.OperationLabel: r.in.Operation.Name}).
		Counter(contract.EscalationsMetric).Inc(1)
}

func (f *findings) measure(ctx workflow.Context, kind string) {
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{contract.OperationLabel: f.in.Operation, contract.KindLabel: kind}).
		Counter(contract.FindingsMetric).Inc(1)
}
