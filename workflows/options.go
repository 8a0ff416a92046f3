package workflows

import (
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// Every timeout and retry policy of the durable ring is in this file.
const (
	// noWorkerAfter ends an attempt that no worker has taken, so that its lease
	// goes back to tasks that can use it.
	noWorkerAfter = 2 * time.Minute
	// noPlaceAfter does the same for an attempt with an announced lease: it holds
	// nothing that others wait for, but while it waits for a worker its task hears
	// of no other decision.
	noPlaceAfter = 2 * time.Second
	// controlFor bounds the retries of a message to the budget. It is long: the
	// message is how leases come back.
	controlFor = 24 * time.Hour
	// freezeAnswer bounds the wait of a freeze for the holders of leases.
	freezeAnswer = 5 * time.Second
	// findingsAgain is the wait before what findings could not do is tried again.
	findingsAgain = 5 * time.Second
	// intentAgain is the wait between looks at the task of an intent whose window
	// is over.
	intentAgain = time.Hour
	// probeAgainMax is the longest wait between look-ups once a person is asked.
	probeAgainMax = time.Hour
)

// effectOptions runs one attempt, once: a repetition is a new lease.
func effectOptions(op contract.Operation) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              contract.EffectsQueue(op.Type),
		ScheduleToStartTimeout: noWorkerAfter,
		StartToCloseTimeout:    op.AttemptTimeout().D(),
		HeartbeatTimeout:       op.Heartbeat.D(),
		// A cancelled attempt still says itself whether anything was dispatched.
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             op.Name,
	}
}

// probeOptions runs one probe. It waits for a worker as long as it takes; the
// reconciliation plans the repetitions.
func probeOptions(op contract.Operation, kind string) workflow.ActivityOptions {
	summary := "look up " + op.Name
	if kind == contract.ProbeCancel {
		summary = "cancel " + op.Name
	}
	return workflow.ActivityOptions{
		TaskQueue:           contract.EffectsQueue(op.Type),
		StartToCloseTimeout: op.Probe.Timeout.D() + 5*time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             summary,
	}
}

// sweepOptions run an audit's reading where the operation's credentials are. It
// only reads, so that one that was lost begins again.
func sweepOptions(op contract.Operation) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              contract.EffectsQueue(op.Type),
		ScheduleToStartTimeout: noWorkerAfter,
		StartToCloseTimeout:    6*time.Hour + op.SettleFor().D(), // it waits for that first
		HeartbeatTimeout:       time.Minute,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 3},
		Summary:                "audit " + op.Name,
	}
}

// controlOptions are for short calls to the Temporal server from the control
// worker. They are repeated until they succeed.
func controlOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: controlFor,
		StartToCloseTimeout:    10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
	}
}

// deliverOptions are for the budget's batches of decisions. They are local
// activities: a decision is on its way to its task in the same workflow task
// that made it, which saves half of the hand-off's time and of its events. One
// try only: the budget's state makes sure that it comes again.
func deliverOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 8 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// batchOptions are for the budget's batches of inspections. A
// batch answers for each of its items, so a lost batch is only one more try:
// the budget's state, not the activity, makes sure that it comes again.
func batchOptions(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           contract.ControlQueue,
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 2, InitialInterval: 200 * time.Millisecond},
		Summary:             summary,
	}
}

// reconcileOptions: a reconciliation lives and ends with its task, but is not
// cancelled with it: after dispatch, the outcome still decides.
func reconcileOptions(id string) workflow.ChildWorkflowOptions {
	return workflow.ChildWorkflowOptions{
		WorkflowID:        id,
		TaskQueue:         contract.ControlQueue,
		ParentClosePolicy: enums.PARENT_CLOSE_POLICY_TERMINATE,
	}
}

var phaseAttribute = temporal.NewSearchAttributeKeyKeyword(contract.PhaseAttribute)

func setPhase(ctx workflow.Context, phase contract.Phase) {
	if err := workflow.UpsertTypedSearchAttributes(ctx, phaseAttribute.ValueSet(string(phase))); err != nil {
		workflow.GetLogger(ctx).Warn("phase attribute not set", "phase", phase, "error", err)
	}
}
