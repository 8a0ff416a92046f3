package admission

// Report kinds.
const (
	Released  = "released"  // the attempt is over, the lease comes back
	Declined  = "declined"  // it stood by in vain, and waits again; nothing else is meant by it
	Withdrawn = "withdrawn" // the task no longer wants this attempt, leased or not
	Resolved  = "resolved"  // the task is no longer in doubt, whatever the attempt
)

// Report tells what became of one attempt.
type Report struct {
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	// Ticket, when set, must be the one that the attempt was admitted with: a
	// gateway that lost the race for a key returns its own ticket only.
	Ticket string `json:"ticket,omitempty"`
	Kind   string `json:"kind"`
	Class  Class  `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"`
	// RetryAfter is the provider's wish; zero: none.
	RetryAfter Duration `json:"retry_after,omitempty"`
	Cost       []Cost   `json:"cost,omitempty"` // the real one; empty: as reserved
	// Doubt tells, of class unknown, that the task will say when the doubt is over.
	// Only such doubts count against the ceiling.
	Doubt bool `json:"doubt,omitempty"`
	// Grace holds the lease for so long yet, since the worker may still be alive.
	Grace Duration `json:"grace,omitempty"`
	// Successor is the announced lease that has begun in this one's place, and
	// Waited for how long its attempt had stood by. Empty: none has.
	Successor string   `json:"successor,omitempty"`
	Waited    Duration `json:"waited,omitempty"`
}
