package contract

import (
	"encoding/json"
	"time"

	"headgate/admission"
)

// MaxPayload is the largest payload, in bytes of its canonical form.
const MaxPayload = 256 << 10

// TaskInput starts a Task workflow, whose ID must be TaskID(Tenant, Key). A
// plain client fills in the first block; the gateway adds the rest.
type TaskInput struct {
	Tenant    string             `json:"tenant"`
	Key       string             `json:"key"`
	Agent     string             `json:"agent,omitempty"`
	Operation string             `json:"operation"`
	Priority  admission.Priority `json:"priority,omitempty"`
	Deadline  *time.Time         `json:"deadline,omitempty"`
	NotBefore *time.Time         `json:"not_before,omitempty"`
	Payload   json.RawMessage    `json:"payload,omitempty"` // I-JSON; canonical when Hash is set

	// Intent is a business key: an earlier task of the tenant that has it is met.
	// SameIntent says what happens then; empty: what the operation declares. Both
	// are for requests that come through a gateway.
	Intent     string `json:"intent,omitempty"`
	SameIntent string `json:"same_intent,omitempty"`

	Budget string     `json:"budget,omitempty"` // empty: DefaultBudget
	Hash   string     `json:"hash,omitempty"`
	Pinned *Operation `json:"pinned,omitempty"`
	Ticket *Ticket    `json:"ticket,omitempty"`
	// Logic numbers how Task behaves where it has changed: who starts a task sets
	// the newest that it knows, so that a history replays as it was made.
	Logic int `json:"logic,omitempty"`
}

// Logic numbers of Task.
const (
	// LogicQuietGrant: a grant is not noted in the phase attribute. The budget
	// knows who holds a lease, and each note costs an event and a write of the index.
	LogicQuietGrant = 1
	// LogicProvenEnd: a task whose replays have told nothing is not said to have
	// failed, or to be cancelled, before the attempt that was replayed is known to
	// have had no effect.
	LogicProvenEnd = 2
	// LogicNewest is what a gateway sets.
	LogicNewest = LogicProvenEnd
)

// Ticket proves that a budget has admitted the task. It is valid only for a
// workflow that was started by StartBy.
type Ticket struct {
	ID      string           `json:"id"`
	StartBy time.Time        `json:"start_by"`
	Lease   *admission.Lease `json:"lease,omitempty"` // of attempt 1, if capacity was free
}

// Resolved is what ResolveActivity answers for a direct start.
type Resolved struct {
	Operation *Operation      `json:"operation,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"` // canonical
	Hash      string          `json:"hash,omitempty"`
	Refused   string          `json:"refused,omitempty"` // why the input is invalid; the rest is empty
	Logic     int             `json:"logic,omitempty"`   // for a start that names none
}

// Delivery states: did Headgate durably take the work?
const (
	DeliveryRejected = "REJECTED"
	DeliveryAccepted = "ACCEPTED"
	DeliveryExpired  = "EXPIRED"
)

// Execution states: did the effect happen?
const (
	ExecutionPending   = "PENDING"
	ExecutionRunning   = "RUNNING"
	ExecutionSucceeded = "SUCCEEDED"
	ExecutionFailed    = "FAILED"
	ExecutionUnknown   = "UNKNOWN"
	ExecutionCancelled = "CANCELLED"
)

// Phase is the finer view of the two states, for operators.
type Phase string

// Phases. Unknown is an end that evidence can still leave.
const (
	PhaseRejected    Phase = "rejected" // only of a task started without the gateway
	PhaseAccepted    Phase = "accepted"
	PhaseLeased      Phase = "leased"
	PhaseClaimed     Phase = "claimed"
	PhaseDispatched  Phase = "dispatched"
	PhaseReconciling Phase = "reconciling"
	PhaseSucceeded   Phase = "succeeded"
	PhaseFailed      Phase = "failed"
	PhaseExpired     Phase = "expired"
	PhaseUnknown     Phase = "unknown"
	PhaseCancelled   Phase = "cancelled"
)

// Phases lists them in the order of a task's life.
func Phases() []Phase {
	return []Phase{PhaseAccepted, PhaseLeased, PhaseClaimed, PhaseDispatched, PhaseReconciling,
		PhaseSucceeded, PhaseFailed, PhaseExpired, PhaseUnknown, PhaseCancelled, PhaseRejected}
}

// States gives the two states of a phase.
func (p Phase) States() (delivery, execution string) {
	switch p {
	case PhaseRejected:
		return DeliveryRejected, ExecutionPending
	case PhaseExpired:
		return DeliveryExpired, ExecutionPending
	case PhaseLeased, PhaseClaimed, PhaseDispatched, PhaseReconciling:
		return DeliveryAccepted, ExecutionRunning
	case PhaseSucceeded:
		return DeliveryAccepted, ExecutionSucceeded
	case PhaseFailed:
		return DeliveryAccepted, ExecutionFailed
	case PhaseUnknown:
		return DeliveryAccepted, ExecutionUnknown
	case PhaseCancelled:
		return DeliveryAccepted, ExecutionCancelled
	}
	return DeliveryAccepted, ExecutionPending
}

// End tells whether no further transition is expected without new evidence.
func (p Phase) End() bool {
	switch p {
	case PhaseSucceeded, PhaseFailed, PhaseExpired, PhaseUnknown, PhaseCancelled, PhaseRejected:
		return true
	}
	return false
}

// TaskResult is what a Task returns: as its result when it succeeded, as the
// details of the error otherwise.
type TaskResult struct {
	Phase     Phase           `json:"phase"`
	Reason    string          `json:"reason,omitempty"` // error class, or why it was refused
	Detail    string          `json:"detail,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // the provider's answer
	Available bool            `json:"result_available"` // false: it happened, the answer was lost
	Reference string          `json:"reference,omitempty"`
	Attempts  int             `json:"attempts"`
	Attempt   int             `json:"attempt,omitempty"` // succeeded: the one that had the effect; zero: not recorded
	Retries   []Count         `json:"retries,omitempty"` // why attempts were repeated, by class
	Evidence  []Evidence      `json:"evidence,omitempty"`
	// RetryAfter is set on a refusal that time can mend.
	RetryAfter Duration `json:"retry_after,omitempty"`
}

// Count is a number of occurrences of one class.
type Count struct {
	Class string `json:"class"`
	N     int    `json:"n"`
}

// Decision is what a budget tells a task about one attempt. It is sent until
// the task's history holds it, so it may come more than once.
type Decision struct {
	Attempt    int              `json:"attempt"`
	Lease      *admission.Lease `json:"lease,omitempty"`  // granted
	Reason     admission.Reason `json:"reason,omitempty"` // refused: expired, or why it was rejected
	Detail     string           `json:"detail,omitempty"`
	RetryAfter Duration         `json:"retry_after,omitempty"`
}
