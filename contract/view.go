package contract

import (
	"encoding/json"
	"time"

	"headgate/admission"
)

// SubmitRequest is the body of POST /v1/tasks; the key comes in the
// Idempotency-Key field.
type SubmitRequest struct {
	Tenant    string             `json:"tenant"`
	Agent     string             `json:"agent,omitempty"`
	Operation string             `json:"operation"`
	Priority  admission.Priority `json:"priority,omitempty"`
	Deadline  *time.Time         `json:"deadline,omitempty"`
	NotBefore *time.Time         `json:"not_before,omitempty"`
	Payload   json.RawMessage    `json:"payload,omitempty"`
	// Intent is an optional business key, such as order and action: an earlier task
	// of the tenant that has it is met even with another key. SameIntent: refuse,
	// return or allow; empty: what the operation declares.
	Intent     string `json:"intent,omitempty"`
	SameIntent string `json:"same_intent,omitempty"`
}

// TaskView is the answer about one task, everywhere.
type TaskView struct {
	Tenant          string             `json:"tenant"`
	Key             string             `json:"key"`
	Task            string             `json:"task"`
	Agent           string             `json:"agent,omitempty"`
	Operation       string             `json:"operation"`
	Priority        admission.Priority `json:"priority"`
	PayloadHash     string             `json:"payload_hash,omitempty"`
	Intent          string             `json:"intent,omitempty"`
	SameIntent      bool               `json:"same_intent,omitempty"` // the answer to another key with the same intent
	DeliveryState   string             `json:"delivery_state"`
	ExecutionState  string             `json:"execution_state"`
	Phase           Phase              `json:"phase"`
	Accepted        *time.Time         `json:"accepted_at,omitempty"`
	Ended           *time.Time         `json:"ended_at,omitempty"`
	WaitingOn       []Waiting          `json:"waiting_on,omitempty"`
	Position        int                `json:"position,omitempty"`
	EstimatedStart  *time.Time         `json:"estimated_start,omitempty"`
	Attempts        int                `json:"attempts"`
	Worker          string             `json:"worker,omitempty"` // of the running attempt
	CancelRequested bool               `json:"cancel_requested,omitempty"`
	Result          json.RawMessage    `json:"result,omitempty"`
	Available       bool               `json:"result_available"`
	Reference       string             `json:"reference,omitempty"`
	ErrorClass      string             `json:"error_class,omitempty"`
	Detail          string             `json:"detail,omitempty"`
	Retries         []Count            `json:"retries,omitempty"`
	Evidence        []Evidence         `json:"evidence,omitempty"`
	Reconciliation  *Stand             `json:"reconciliation,omitempty"`
	Approval        *ApprovalStand     `json:"approval,omitempty"`  // while it waits for one
	Held            []admission.Cost   `json:"held,omitempty"`      // what an unknown outcome keeps charged
	NextStep        string             `json:"next_step,omitempty"` // what a person can safely do next
	NextAction      string             `json:"next_action"`
}

// Waiting is one thing that a task waits on.
type Waiting struct {
	Reason   string     `json:"reason"`
	Resource string     `json:"resource,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
}

// Next actions of a client.
const (
	NextWait       = "wait"
	NextUseResult  = "use_result"
	NextRetryLater = "retry_later"
	NextAskHuman   = "ask_human"
	NextDoNotRetry = "do_not_retry"
)

// NextAction tells a client what to do about a task in a phase.
func NextAction(p Phase) string {
	switch p {
	case PhaseSucceeded:
		return NextUseResult
	case PhaseUnknown:
		return NextAskHuman
	case PhaseFailed, PhaseExpired, PhaseCancelled:
		return NextDoNotRetry
	case PhaseRejected:
		return NextRetryLater
	}
	return NextWait
}

// TaskPage is one page of a listing.
type TaskPage struct {
	Tasks  []TaskView `json:"tasks"`
	Cursor string     `json:"cursor,omitempty"` // empty: the last page
	// Overdue counts the tasks of the page that are unknown for too long.
	Overdue int `json:"overdue,omitempty"`
}

// Event is one line of a task's timeline.
type Event struct {
	At      time.Time `json:"at"`
	Name    string    `json:"event"`
	Detail  string    `json:"detail,omitempty"`
	Actor   string    `json:"actor,omitempty"` // worker, person or part of Headgate
	Attempt int       `json:"attempt,omitempty"`
}

// Explanation is a task's timeline, from its history alone, one sentence that says
// where it stands, and what was found wrong about it from outside.
type Explanation struct {
	Task     TaskView  `json:"task"`
	Events   []Event   `json:"events"`
	Sentence string    `json:"sentence"`
	Findings []Finding `json:"findings,omitempty"`
	// FindingsUnread: no worker answered what the findings are. There may be some.
	FindingsUnread bool `json:"findings_unread,omitempty"`
}

// Problem is a problem document (RFC 9457) with Headgate's members.
type Problem struct {
	Type          string    `json:"type"`
	Title         string    `json:"title"`
	Status        int       `json:"status"`
	Detail        string    `json:"detail,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	RetryAfter    int       `json:"retry_after,omitempty"` // seconds
	DeliveryState string    `json:"delivery_state,omitempty"`
	NextAction    string    `json:"next_action,omitempty"`
	Task          *TaskView `json:"task,omitempty"` // the one that the key belongs to
}
