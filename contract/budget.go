package contract

import (
	"time"

	"headgate/admission"
)

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

// FreezeRequest freezes an operation, or ends its freeze.
type FreezeRequest struct {
	Operation string `json:"operation"`
	Frozen    bool   `json:"frozen"`
	Reason    string `json:"reason,omitempty"`
	Actor     string `json:"actor"`
}

// FreezeReply answers it. Stopping counts the attempts that may still dispatch,
// since it is not known yet that their holders were asked to stop. At zero nothing
// of the operation is dispatched any more.
type FreezeReply struct {
	Operation string            `json:"operation"`
	Freeze    *admission.Freeze `json:"freeze,omitempty"` // nil: it is not frozen
	Stopping  int               `json:"stopping"`
}

// Stop asks a task not to dispatch an attempt. It is sent until the server would
// answer the attempt's checkpoint with it.
type Stop struct {
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
	Lease     string `json:"lease,omitempty"` // that is not to be used; empty: any
	Operation string `json:"operation"`
	Reason    string `json:"reason,omitempty"`
}

// Stops is a batch of them, answered by a DeliverReply.
type Stops struct {
	Items []Stop `json:"items"`
}

// ConfigureRequest puts another policy in force.
type ConfigureRequest struct {
	Policy admission.Policy `json:"policy"`
	Actor  string           `json:"actor"`
}

// ConfigureReply names the policies before and after.
type ConfigureReply struct {
	Before string `json:"before"`
	After  string `json:"after"`
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

// ReportInput is one report for a budget.
type ReportInput struct {
	Budget string           `json:"budget"`
	Report admission.Report `json:"report"`
}

// RequestInput is one request for a budget.
type RequestInput struct {
	Budget  string         `json:"budget"`
	Request AttemptRequest `json:"request"`
}

// LeasesRequest asks for leases in the order of their tasks' IDs.
type LeasesRequest struct {
	After string `json:"after,omitempty"` // only tasks whose ID comes after it
	Limit int    `json:"limit"`
}
