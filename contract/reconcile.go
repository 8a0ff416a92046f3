package contract

import (
	"time"

	"headgate/admission"
)

// ReconcileInput starts the reconciliation of one attempt.
type ReconcileInput struct {
	Tenant      string    `json:"tenant"`
	Key         string    `json:"key"`
	Attempt     int       `json:"attempt"`
	ProviderKey string    `json:"provider_key"`
	Operation   Operation `json:"operation"`
	Hash        string    `json:"hash"`
	Outcome     Outcome   `json:"outcome"` // the unknown one
	// FirstSent is when the key was first sent: a replay window starts there.
	FirstSent time.Time `json:"first_sent"`
	// Replayable tells that the task has attempts and age left for a replay.
	Replayable bool       `json:"replayable"`
	Evidence   []Evidence `json:"evidence,omitempty"` // that came before the start
}

// Verdicts of a reconciliation.
const (
	VerdictHappened     = "happened"
	VerdictDidNotHappen = "did_not_happen" // the attempt may be repeated
	VerdictFailed       = "failed"         // it did not happen and shall not be tried again
	VerdictReplay       = "replay"         // the replay class allows to send it again
)

// ReconcileResult is how a reconciliation ended.
type ReconcileResult struct {
	Verdict  string     `json:"verdict"`
	Evidence []Evidence `json:"evidence"` // the last one decided
}

// Stand is what a reconciliation knows while it is open; kept in its memo so
// that it can be read without a worker.
type Stand struct {
	Version   int        `json:"version"`
	Phase     Phase      `json:"phase"`  // reconciling or unknown
	Reason    string     `json:"reason"` // why the outcome is not known
	Since     time.Time  `json:"since"`
	Probes    int        `json:"probes"`
	LastProbe *Evidence  `json:"last_probe,omitempty"`
	NextProbe *time.Time `json:"next_probe,omitempty"` // nil: none is planned
}

// Resolution is a person's decision. The evidence text is required; Version is
// the one that the person has seen.
type Resolution struct {
	ID       string `json:"id"`
	Actor    string `json:"actor"`
	Outcome  string `json:"outcome"` // happened, did_not_happen or failed
	Evidence string `json:"evidence"`
	Version  int    `json:"version"`
}

// ResolveReply answers a resolution.
type ResolveReply struct {
	Verdict string `json:"verdict"`
	Version int    `json:"version"`
}

// ProbeInput asks for one look-up.
type ProbeInput struct {
	Tenant      string `json:"tenant"`
	Key         string `json:"key"`
	Attempt     int    `json:"attempt"`
	ProviderKey string `json:"provider_key"`
	Probe       Probe  `json:"probe"`
}

// BudgetInput starts a Budget workflow.
type BudgetInput struct {
	Name   string           `json:"name"`
	Policy admission.Policy `json:"policy"`
	// Snapshot is set by continue-as-new.
	Snapshot *admission.Snapshot `json:"snapshot,omitempty"`
}

// AdmitRequest is a batch of requests from one gateway.
type AdmitRequest struct {
	Requests []admission.Request `json:"requests"`
}

// AdmitReply has one verdict a request, in order.
type AdmitReply struct {
	Verdicts []admission.Verdict `json:"verdicts"`
}

// RequestBatch asks for attempts of running tasks: direct starts and retries.
type RequestBatch struct {
	Requests []AttemptRequest `json:"requests"`
}

// AttemptRequest is a request of a task that runs. Admit tells that the task
// has no ticket, so that the request may be refused.
type AttemptRequest struct {
	admission.Request
	Admit bool `json:"admit,omitempty"`
}

// ReportBatch tells what became of leases and tickets.
type ReportBatch struct {
	Reports []admission.Report `json:"reports"`
}

// PauseRequest pauses or resumes a tenant.
type PauseRequest struct {
	Tenant    string     `json:"tenant"`
	Dispatch  bool       `json:"dispatch"`  // no new lease
	Admission bool       `json:"admission"` // nothing new is accepted
	Reason    string     `json:"reason,omitempty"`
	Actor     string     `json:"actor"`
	Until     *time.Time `json:"until,omitempty"` // nil: until resumed
}

// WhyRequest asks about one task.
type WhyRequest struct {
	Task string `json:"task"`
}

// Deliveries is a batch of decisions for tasks.
type Deliveries struct {
	Budget string     `json:"budget"`
	Items  []Delivery `json:"items"`
}

// Delivery is one decision for one task.
type Delivery struct {
	Task     string   `json:"task"`
	Decision Decision `json:"decision"`
}

// Delivery answers, in the order of the items.
const (
	Delivered    = "delivered"
	TaskGone     = "gone"   // no open workflow has this ID
	NotDelivered = "failed" // try again
)

// DeliverReply answers Deliveries.
type DeliverReply struct {
	Answers []string `json:"answers"`
}

// AuditRequest asks whether holders of leases and tickets are alive.
type AuditRequest struct {
	Tasks []string `json:"tasks"`
}

// Audit answers.
const (
	AuditOpen    = "open"
	AuditClosed  = "closed"
	AuditMissing = "missing"
	AuditUnclear = "unclear" // the server could not be asked
)

// AuditReply has one entry a task, in order.
type AuditReply struct {
	Answers []AuditAnswer `json:"answers"`
}

// AuditAnswer is what a look at one task showed.
type AuditAnswer struct {
	State  string `json:"state"`
	Ticket string `json:"ticket,omitempty"` // from the task's memo
}
