package contract

import (
	"encoding/json"
	"time"
)

// Approval is what an operation declares about a person's word before dispatch.
type Approval struct {
	// Rule is a CEL rule over the payload; empty: every task needs an approval. In
	// a task's history it is there only if the task needs one.
	Rule string `json:"rule,omitempty"`
	// Expires ends a task so long after its start, if nobody has decided.
	Expires Duration `json:"expires"`
	// Resource is a concurrent resource that bounds how many tasks wait for a
	// person at one time; empty: none does.
	Resource string `json:"resource,omitempty"`
}

// Outcomes of an approval.
const (
	Approved = "approved"
	Declined = "declined" // the task ends FAILED, without an effect
)

// ApprovalDecision is a person's decision about a task that waits for one. It is
// bound to what the person has seen: the payload's hash, the digest of the
// operation's declaration, and the row version. It is used once: for this task.
type ApprovalDecision struct {
	ID       string `json:"id"`
	Actor    string `json:"actor"`
	Outcome  string `json:"outcome"` // approved or declined
	Evidence string `json:"evidence"`
	Version  int    `json:"version"`
	Hash     string `json:"payload_hash"`
	Digest   string `json:"operation_digest"`
}

// DecisionID is the name that the person's client gave the decision.
func (d ApprovalDecision) DecisionID() string { return d.ID }

// ApprovalReply answers an ApprovalDecision.
type ApprovalReply struct {
	Outcome string `json:"outcome"`
	Version int    `json:"version"`
	// NextAction is set by the gateway.
	NextAction string `json:"next_action,omitempty"`
}

// ApprovalStand is what a task asks a person; kept in its memo.
type ApprovalStand struct {
	Version int       `json:"version"`
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires_at"`
	Hash    string    `json:"payload_hash"`
	Digest  string    `json:"operation_digest"`
}

// ApprovalView is what a person reads before a decision.
type ApprovalView struct {
	Task    TaskView        `json:"task"`
	Payload json.RawMessage `json:"payload"` // as it will be sent
	Rule    string          `json:"rule,omitempty"`
}

// NewApprovalStand is what a task asks that waits since a time.
func NewApprovalStand(op Operation, hash string, since time.Time) ApprovalStand {
	return ApprovalStand{Version: 1, Since: since, Expires: since.Add(op.Approval.Expires.D()), Hash: hash, Digest: op.Digest}
}
