package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"headgate/contract"
)

// lostClaim is the class of an attempt whose outcome was no longer asked for: it
// went to the task as late evidence.
const lostClaim = "fenced"

// meter is the worker's, of its connection; whoever calls an activity as a plain
// function is not measured.
func meter(ctx context.Context) client.MetricsHandler {
	if !activity.IsActivity(ctx) {
		return client.MetricsNopHandler
	}
	return activity.GetMetricsHandler(ctx)
}

// measureAttempt counts an attempt, and times what was dispatched.
func measureAttempt(ctx context.Context, in contract.EffectInput, o contract.Outcome, err error) {
	class := string(o.Class)
	if err != nil {
		class = lostClaim
	}
	metrics := meter(ctx)
	tags := map[string]string{contract.OperationLabel: in.Operation.Name, contract.ClassLabel: class}
	if !o.Dispatching.IsZero() {
		metrics.WithTags(tags).Timer(contract.EffectMetric).Record(max(0, o.Ended.Sub(o.Dispatching)))
	}
	tags[contract.ReasonLabel] = contract.MetricReason(o.Reason)
	metrics.WithTags(tags).Counter(contract.AttemptsMetric).Inc(1)
}

// Decisions about waiting tasks, as they are counted.
const (
	leasedDecision  = "lease"
	refusedDecision = "refuse"
)

func measureDeliveries(ctx context.Context, in contract.Deliveries, reply contract.DeliverReply) {
	for i, item := range in.Items {
		if reply.Answers[i] != contract.Delivered {
			continue
		}
		decision := refusedDecision
		if item.Decision.Lease != nil {
			decision = leasedDecision
		}
		meter(ctx).WithTags(map[string]string{contract.DecisionLabel: decision,
			contract.ReasonLabel: contract.MetricReason(string(item.Decision.Reason))}).Counter(contract.DeliveriesMetric).Inc(1)
	}
}
