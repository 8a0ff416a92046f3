// Package contract is what histories freeze: names, IDs, messages and the
// shapes that the HTTP API, the logs and the command share. It knows nothing of
// Temporal. A field's name and meaning never change once a history holds it;
// fields are added, with a zero value that means "as before".
package contract

import "headgate/admission"

// Duration reads and writes as text ("30s").
type Duration = admission.Duration

// Task queues. An effect runs on the queue of its operation's type.
const (
	ControlQueue  = "headgate-control"
	effectsPrefix = "headgate-effects-"
)

// EffectsQueue is the task queue of an operation type.
func EffectsQueue(operationType string) string { return effectsPrefix + operationType }

// Workflow types.
const (
	TaskWorkflow      = "Task"
	BudgetWorkflow    = "Budget"
	ReconcileWorkflow = "Reconcile"
	FindingsWorkflow  = "Findings"
	AuditWorkflow     = "Audit"
	IntentWorkflow    = "Intent"
)

// Messages of the Budget workflow.
const (
	AdmitUpdate     = "admit"
	PauseUpdate     = "pause"
	ConfigureUpdate = "configure"
	FreezeUpdate    = "freeze" // an operation; a person's order
	FreezeSignal    = "freeze" // the same, as a finding's consequence
	RequestSignal   = "request"
	ReportSignal    = "report"
	SnapshotQuery   = "snapshot"
	WhyQuery        = "why"
	LeasesQuery     = "leases"
)

// Messages of the Task workflow. Cancellation is Temporal's own request.
const (
	DecisionSignal = "decision" // Budget: granted, expired or rejected
	EvidenceSignal = "evidence" // a fenced worker's late answer; forwarded to Reconcile
	StopSignal     = "stop"     // Budget: do not dispatch this attempt
	UnknownSignal  = "unknown"  // Reconcile: only evidence or a person can go on
)

// ApproveUpdate is a person's decision before the first attempt of a Task.
const ApproveUpdate = "approve"

// Messages of the Reconcile workflow.
const (
	ResolveUpdate = "resolve"
)

// Messages of the Findings workflow, which takes EvidenceSignal too.
const (
	NoteSignal    = "note"
	FindingsQuery = "findings"
)

// Activities, by the names under which they are registered.
const (
	EffectActivity  = "effect"
	ProbeActivity   = "probe"
	ResolveActivity = "resolve-operation" // local
	ReportActivity  = "report"            // local: joins a batched signal to the Budget
	RequestActivity = "request"           // local: joins a batched signal to the Budget
	SettleActivity  = "settle"            // local: report, that a doubt is over
	DeliverActivity = "deliver"
	AuditActivity   = "audit"
	StopActivity    = "stop-attempts"
	NoteActivity    = "note-findings" // local
	SettledActivity = "settled"
	SweepActivity   = "sweep" // an audit's reading
)

// Search attributes.
const (
	TenantAttribute    = "HeadgateTenant"
	OperationAttribute = "HeadgateOperation"
	PriorityAttribute  = "HeadgatePriority"
	PhaseAttribute     = "HeadgatePhase"
	AgentAttribute     = "HeadgateAgent"
)

// WaitsForApproval is the phase attribute of an accepted task that waits for a
// person, so that such tasks can be listed. It is no phase of its own.
const WaitsForApproval = "approval"

// Memo fields of a Task (set at its start) and of a Reconcile (kept current).
const (
	TicketMemo  = "ticket"
	HashMemo    = "payload_hash"
	VersionMemo = "version" // row version of a reconciliation
	StandMemo   = "stand"   // Stand: what a reconciliation knows
	ClaimMemo   = "claim"   // Claim: whose an intent is
	// IntentMemo is a task's intent.
	IntentMemo = "intent"
	// ApprovalMemo is an ApprovalStand: what a task asks a person.
	ApprovalMemo = "approval"
)

// Error types of a Task that did not succeed; the details hold one TaskResult.
const (
	FailedError   = "failed"
	ExpiredError  = "expired"
	RejectedError = "rejected"
)

// Error types of refusals.
const (
	RefusedError = "refused" // admit: every request of the batch; details hold AdmitReply
	StaleError   = "stale"   // a decision: the row version has moved on
	InvalidError = "invalid" // the message breaks a rule of this package
	ReusedError  = "reused"  // a decision: its ID has another content
	RightsError  = "rights"  // a decision: not its actor's to make
	ChangedError = "changed" // an approval: of another payload or declaration
)

// DefaultBudget is the pool that is used when none is named.
const DefaultBudget = "default"
