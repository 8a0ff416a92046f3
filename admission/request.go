package admission

import (
	"errors"
	"fmt"
	"time"
)

// Duration is a time.Duration that reads and writes as text ("1m30s") in JSON
// and YAML, so that histories and files are read the same way.
type Duration time.Duration

// D converts to the standard type.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the standard text form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the standard text form.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %q: want a number with a unit, such as 30s or 5m", b)
	}
	*d = Duration(v)
	return nil
}

// Priority orders tasks. The zero value is Normal.
type Priority int8

// The four priorities.
const (
	Low      Priority = -1
	Normal   Priority = 0
	High     Priority = 1
	Critical Priority = 2
)

// Priorities lists all of them, lowest first.
func Priorities() []Priority { return []Priority{Low, Normal, High, Critical} }

func (p Priority) String() string {
	switch p {
	case Low:
		return "low"
	case High:
		return "high"
	case Critical:
		return "critical"
	case Normal:
		return "normal"
	}
	return fmt.Sprintf("priority(%d)", int8(p))
}

// MarshalText writes the name.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a name; the empty text is Normal.
func (p *Priority) UnmarshalText(b []byte) error {
	switch string(b) {
	case "low":
		*p = Low
	case "normal", "":
		*p = Normal
	case "high":
		*p = High
	case "critical":
		*p = Critical
	default:
		return fmt.Errorf("priority %q: want low, normal, high or critical", b)
	}
	return nil
}

// Cost is an amount of one named resource: slots of a concurrent resource,
// units of an interval one.
type Cost struct {
	Resource string `json:"resource"`
	Amount   int64  `json:"amount"`
}

// Request asks for one attempt of one task to be let through. It carries no
// payload: a decision needs only who, what, when and how much.
type Request struct {
	Task      string     `json:"task"`    // workflow ID
	Attempt   int        `json:"attempt"` // from 1
	Tenant    string     `json:"tenant"`
	Agent     string     `json:"agent,omitempty"`
	Operation string     `json:"operation"`
	Priority  Priority   `json:"priority"`
	Hash      string     `json:"hash"`               // of the payload: a key means one payload
	Cost      []Cost     `json:"cost,omitempty"`     // at most one entry a resource
	Deadline  *time.Time `json:"deadline,omitempty"` // nil: none
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Since keeps the place of a task that waited before and was not served: inside
	// its tenant it counts as arrived then. Nil: it arrives now.
	Since *time.Time `json:"since,omitempty"`
	// Hold keeps the task back until it asks again without: a person decides
	// first. HoldOn names a concurrent resource whose slots bound how many tasks
	// are held at one time; empty: none does.
	Hold   bool   `json:"hold,omitempty"`
	HoldOn string `json:"hold_on,omitempty"`
	// LeaseFor is the longest time that an attempt should hold its lease before
	// the holder is looked at. Zero: one minute.
	LeaseFor Duration `json:"lease_for,omitempty"`
}

// Action is what becomes of a request.
type Action string

// The four verdicts.
const (
	Run    Action = "run"    // a lease at once
	Queue  Action = "queue"  // accepted, waits its turn
	Defer  Action = "defer"  // accepted, held for a stated reason
	Reject Action = "reject" // nothing stored
)

// Reason says why a request was refused or what a task waits on.
type Reason string

// Reasons. The text is part of the HTTP and JSON contract.
const (
	Expired               Reason = "expired"
	TenantClosed          Reason = "tenant_closed"
	TenantPaused          Reason = "tenant_paused"
	TenantLimit           Reason = "tenant_limit"
	AgentLimit            Reason = "agent_limit"
	StaleBacklog          Reason = "stale_backlog"
	DeadlineUnattainable  Reason = "deadline_unattainable"
	QueueFull             Reason = "queue_full"
	OverShare             Reason = "over_share"
	CostAboveLimit        Reason = "cost_above_limit"
	UnknownResource       Reason = "unknown_resource"
	KeyReused             Reason = "key_reused"
	DownstreamUnavailable Reason = "downstream_unavailable"
	UnknownCeiling        Reason = "unknown_ceiling" // too many of the tenant's tasks of the operation are in doubt
	OperationFrozen       Reason = "operation_frozen"
	Superseded            Reason = "superseded"    // a newer task of its kind took its place
	ProviderHold          Reason = "provider_hold" // the provider asked for a pause
	BreakerOpen           Reason = "breaker_open"
	BreakerProbe          Reason = "breaker_probe" // one attempt goes first
	Capacity              Reason = "capacity"
	TurnWait              Reason = "turn"       // capacity exists, others are served first
	NotYet                Reason = "not_before" // its time has not come
	Approval              Reason = "approval"   // a person decides first
	ApprovalsFull         Reason = "approvals_full"
	TenantInFlight        Reason = "tenant_in_flight"
	AgentInFlight         Reason = "agent_in_flight"
	Standby               Reason = "standby" // it takes the place of a task that is about to end
)

// Lease is capacity granted to one attempt of one task.
type Lease struct {
	ID      string    `json:"id"`
	Granted time.Time `json:"granted"`
	// After is set on a lease that is only announced: it begins when the lease of
	// that ID has ended in the worker that holds it, and not before.
	After string `json:"after,omitempty"`
}

// Verdict answers a Request.
type Verdict struct {
	Action   Action `json:"action"`
	Reason   Reason `json:"reason,omitempty"`
	Resource string `json:"resource,omitempty"` // the one that is short, if one is
	Detail   string `json:"detail,omitempty"`
	// RetryAfter is set on a refusal that time can mend; zero means that the
	// same request will be refused again.
	RetryAfter Duration `json:"retry_after,omitempty"`
	// Ticket names the admission; the task must be started by StartBy, else the
	// ticket lapses and its capacity goes back.
	Ticket   string    `json:"ticket,omitempty"`
	StartBy  time.Time `json:"start_by,omitzero"`
	Lease    *Lease    `json:"lease,omitempty"` // set when Action is Run
	Position int       `json:"position,omitempty"`
	Estimate Duration  `json:"estimate,omitempty"` // time to the start, by the measured drain rate; zero: not known
	// OwnBacklog tells, for deadline_unattainable, that the tenant's own queue is the cause.
	OwnBacklog bool `json:"own_backlog,omitempty"`
}

// Accepted tells whether the request was taken.
func (v Verdict) Accepted() bool { return v.Action != Reject }

// ErrPolicy is wrapped by every error of Policy.Validate.
var ErrPolicy = errors.New("policy")
