// Package workflows is the durable ring: thin workflows over the decisions of
// package admission. A workflow keeps what must outlive processes and carries
// effects out through activities, by name; it decides nothing that admission
// could.
package workflows

import (
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
)

// Registry is the part of a worker that takes workflows.
type Registry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register adds every workflow of Headgate under the name that histories hold.
func Register(r Registry) {
	r.RegisterWorkflowWithOptions(Task, workflow.RegisterOptions{Name: contract.TaskWorkflow})
	r.RegisterWorkflowWithOptions(Budget, workflow.RegisterOptions{Name: contract.BudgetWorkflow})
	r.RegisterWorkflowWithOptions(Intent, workflow.RegisterOptions{Name: contract.IntentWorkflow})
	r.RegisterWorkflowWithOptions(Reconcile, workflow.RegisterOptions{Name: contract.ReconcileWorkflow})
	r.RegisterWorkflowWithOptions(Findings, workflow.RegisterOptions{Name: contract.FindingsWorkflow})
	r.RegisterWorkflowWithOptions(Audit, workflow.RegisterOptions{Name: contract.AuditWorkflow})
}
