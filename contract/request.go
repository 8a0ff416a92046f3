package contract

import (
	"time"

	"headgate/admission"
)

// AdmissionRequest is what a budget is asked for one attempt of a task.
// notBefore overrides the task's own for retries; nil: the task's. The first
// attempt of an operation that needs an approval is held; the task asks again,
// without Hold, when it is approved.
func (in TaskInput) AdmissionRequest(op Operation, hash string, attempt int, notBefore *time.Time) admission.Request {
	if notBefore == nil {
		notBefore = in.NotBefore
	}
	r := admission.Request{
		Task:      TaskID(in.Tenant, in.Key),
		Attempt:   attempt,
		Tenant:    in.Tenant,
		Agent:     in.Agent,
		Operation: in.Operation,
		Priority:  in.Priority,
		Hash:      hash,
		Cost:      op.Cost,
		Deadline:  in.Deadline,
		NotBefore: notBefore,
		LeaseFor:  op.AttemptTimeout() + op.Heartbeat,
	}
	if op.Approval != nil && attempt == 1 {
		r.Hold, r.HoldOn = true, op.Approval.Resource
	}
	return r
}

// Report is what a budget is told about an attempt that is over.
func (o Outcome) Report(tenant, key string, attempt int) admission.Report {
	return admission.Report{Task: TaskID(tenant, key), Attempt: attempt, Kind: admission.Released,
		Class: o.Class, Reason: o.Reason, RetryAfter: o.RetryAfter, Cost: o.Cost,
		Successor: o.Successor, Waited: o.Waited}
}

// BudgetName is the pool that the task belongs to.
func (in TaskInput) BudgetName() string {
	if in.Budget == "" {
		return DefaultBudget
	}
	return in.Budget
}

// AttemptTimeout bounds one attempt from claim to return: preparing gets as
// long as one lease time on top of the effect itself, and so does returning.
func (o Operation) AttemptTimeout() Duration { return o.Timeout + 2*o.Heartbeat }
