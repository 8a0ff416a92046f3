package contract

import "strings"

// Metrics of the workers, as the Temporal SDK's handler takes them: a counter is
// shown with _total behind its name, a timer with _seconds. Their labels are the
// constants below and those that the SDK sets (namespace, task queue, and type of
// workflow or activity). A workflow counts nothing while it is replayed; what was
// counted in a workflow task that the server then refused is counted again.
const (
	AttemptsMetric    = "headgate_attempts"            // counter: attempts that ended in a worker, by operation, class and reason
	EffectMetric      = "headgate_effect"              // timer: from the checkpoint to the outcome, by operation and class
	StartMetric       = "headgate_task_start"          // timer: from the acceptance to the first claim, by operation and priority
	ConfirmMetric     = "headgate_task_confirm"        // timer: from the first claim to the end, by operation and phase
	EndsMetric        = "headgate_tasks_ended"         // counter: by operation, phase and reason
	RetriesMetric     = "headgate_retries"             // counter: by operation and reason
	EscalationsMetric = "headgate_escalations"         // counter: doubts that became overdue, by operation
	FindingsMetric    = "headgate_findings"            // counter: findings, each once, by operation and kind
	DeliveriesMetric  = "headgate_decisions_delivered" // counter: decisions about waiting tasks, by decision and reason
)

// WorkerMetrics are the names under which the above are shown.
func WorkerMetrics() []string {
	return []string{AttemptsMetric + "_total", EffectMetric + "_seconds", StartMetric + "_seconds", ConfirmMetric + "_seconds",
		EndsMetric + "_total", RetriesMetric + "_total", EscalationsMetric + "_total", FindingsMetric + "_total", DeliveriesMetric + "_total"}
}

// Labels of metrics.
const (
	OperationLabel = "operation"
	PriorityLabel  = "priority"
	PhaseLabel     = "phase"
	ClassLabel     = "class"
	ReasonLabel    = "reason"
	KindLabel      = "kind"
	DecisionLabel  = "decision"
	TenantLabel    = "tenant"
	ResourceLabel  = "resource"
)

// OtherLabel stands for the values that have no series of their own.
const OtherLabel = "other"

// MetricReason is a reason as the value of a label: "none" for no reason, and
// OtherLabel for what is not a plain word. Reasons of types of your own can hold
// anything, and each value of a label is a series for ever.
func MetricReason(reason string) string {
	if reason == "" {
		return "none"
	}
	plain := func(r rune) bool { return r == '_' || r >= 'a' && r <= 'z' }
	if len(reason) > 32 || strings.IndexFunc(reason, func(r rune) bool { return !plain(r) }) >= 0 {
		return OtherLabel
	}
	return reason
}
