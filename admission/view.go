package admission

import "time"

// View is what a budget shows: the answer of its snapshot query.
type View struct {
	Now       time.Time `json:"now"`
	Depth     int       `json:"depth"` // tasks that wait, retries included
	Soft      int       `json:"soft"`
	Hard      int       `json:"hard"`
	OldestAge Duration  `json:"oldest_age"`        // of the tasks that their own tenant does not hold back
	InFlight  int       `json:"in_flight"`         // leases out
	Standby   int       `json:"standby,omitempty"` // of the waiting ones: each takes the place of a lease that is about to end
	// Handover is how early a successor is chosen now, and how often one lately
	// missed its place; nil: leases are not handed over.
	Handover  *HandoverView  `json:"handover,omitempty"`
	Policy    string         `json:"policy"`   // digest of the one in force
	Interval  Duration       `json:"interval"` // mean time between grants under backlog; zero: not known
	Resources []ResourceView `json:"resources"`
	Tenants   []TenantView   `json:"tenants"`
	Gates     []GateView     `json:"gates,omitempty"`  // operations whose door is not plainly open
	Doubts    []DoubtView    `json:"doubts,omitempty"` // what tasks in doubt hold
	Leases    []LeaseView    `json:"leases,omitempty"` // oldest first, at most MaxLeasesShown
}

// HandoverView is what the budget has learnt about handing leases over.
type HandoverView struct {
	Lead   Duration `json:"lead"`
	Missed int      `json:"missed_percent"`
}

// MaxLeasesShown bounds the list of leases in a View.
const MaxLeasesShown = 200

// ResourceView is one resource and its use.
type ResourceView struct {
	Resource
	Limit int64      `json:"limit"`           // concurrent: in force now; below the declared one while it adapts
	Held  *time.Time `json:"held,omitempty"`  // until then the provider wants nothing
	Used  int64      `json:"used"`            // concurrent: leased now
	Asked int64      `json:"asked,omitempty"` // concurrent: tasks that are held on it, for a person
	Level int64      `json:"level"`           // interval: what may be spent now; negative: a debt
	Next  *time.Time `json:"next,omitempty"`  // interval: when the blocked head fits
	// Reserved is what leases have taken and not settled yet. Of a concurrent
	// resource it is Used.
	Reserved int64 `json:"reserved,omitempty"`
}

// GateView is the door of one operation.
type GateView struct {
	Operation string     `json:"operation"`
	State     Reason     `json:"state"` // operation_frozen, provider_hold, breaker_open or breaker_probe
	Until     *time.Time `json:"until,omitempty"`
	Probe     string     `json:"probe,omitempty"` // the task that goes first
	Frozen    *Freeze    `json:"frozen,omitempty"`
	// Stopping counts the leases of a frozen operation whose holders may still dispatch.
	Stopping int `json:"stopping,omitempty"`
}

// TenantView is one tenant.
type TenantView struct {
	TenantPolicy
	Queued     int             `json:"queued"`
	InFlight   int             `json:"in_flight"`
	Standby    int             `json:"standby,omitempty"`
	ByPriority []PriorityDepth `json:"by_priority,omitempty"`
	OldestAge  Duration        `json:"oldest_age"`
	WaitingOn  Reason          `json:"waiting_on,omitempty"`
	Resource   string          `json:"resource,omitempty"`
	Pause      *Pause          `json:"pause,omitempty"`
}

// PriorityDepth counts the waiting tasks of one priority.
type PriorityDepth struct {
	Priority Priority `json:"priority"`
	Queued   int      `json:"queued"`
}

// LeaseView is one lease.
type LeaseView struct {
	Lease
	Task      string    `json:"task"`
	Attempt   int       `json:"attempt"`
	Tenant    string    `json:"tenant"`
	Agent     string    `json:"agent,omitempty"`
	Operation string    `json:"operation"`
	Cost      []Cost    `json:"cost,omitempty"`
	Due       time.Time `json:"due"`             // then the holder is looked at
	Grace     bool      `json:"grace,omitempty"` // the attempt is over, its worker may be alive
}

// Pause says who paused a tenant, when, why, and until when.
type Pause struct {
	Dispatch  bool       `json:"dispatch"`
	Admission bool       `json:"admission"`
	Reason    string     `json:"reason,omitempty"`
	Actor     string     `json:"actor,omitempty"`
	Since     time.Time  `json:"since"`
	Until     *time.Time `json:"until,omitempty"` // nil: until resumed
}

// Where a task stands in a budget.
const (
	StandAbsent  = "absent"
	StandDelayed = "delayed" // its time has not come
	StandQueued  = "queued"
	StandStandby = "standby" // next for a place that is about to be free
	StandLeased  = "leased"
)

// Why tells what one task waits on.
type Why struct {
	Stand    string     `json:"stand"`
	Attempt  int        `json:"attempt,omitempty"`
	Reason   Reason     `json:"reason,omitempty"`
	Resource string     `json:"resource,omitempty"`
	Detail   string     `json:"detail,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Position int        `json:"position,omitempty"` // 1: the next of its tenant
	Estimate Duration   `json:"estimate,omitempty"`
	Lease    *Lease     `json:"lease,omitempty"`
}
