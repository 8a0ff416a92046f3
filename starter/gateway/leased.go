package gateway

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/contract"
)

// byLease marks a cursor of a page that comes from the budget's leases.
const byLease = "lease:"

// leased is a page of the tasks that hold a lease, in the order of their IDs. The
// budget knows them, of all the open tasks the few; the index does not. ok is
// false if the phase is another one, or if no worker answers for the budget: then
// the index finds them among all that are open.
func (g *Gateway) leased(ctx context.Context, f filter) (page contract.TaskPage, ok bool, err error) {
	switch f.phase {
	case contract.PhaseLeased, contract.PhaseClaimed, contract.PhaseDispatched:
	default:
		return page, false, nil
	}
	after, ours := strings.CutPrefix(string(f.cursor), byLease)
	if len(f.cursor) > 0 && !ours {
		return page, false, nil // the first page came from the index
	}
	// A tenant's tasks stand together in that order: the cursor never names another's.
	own := ""
	if f.tenant != "" {
		own = contract.TaskID(f.tenant, "")
		after = max(after, own)
	}
	var leases []admission.LeaseView
	if err := g.ask(ctx, &leases, contract.LeasesQuery, contract.LeasesRequest{After: after, Limit: f.limit}); err != nil {
		if ours {
			return page, false, err
		}
		g.log.Info("leases are looked for in the index", zap.Error(err))
		return page, false, nil
	}
	page.Tasks = []contract.TaskView{}
	if i := slices.IndexFunc(leases, func(l admission.LeaseView) bool { return !strings.HasPrefix(l.Task, own) }); i >= 0 {
		leases = leases[:i]
	}
	if len(leases) == f.limit {
		page.Cursor = base64.RawURLEncoding.EncodeToString([]byte(byLease + leases[len(leases)-1].Task))
	}
	var found []*workflowpb.WorkflowExecutionInfo
	for _, l := range leases {
		if (f.tenant == "" || l.Tenant == f.tenant) && (f.operation == "" || l.Operation == f.operation) {
			found = append(found, &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
				Execution: &commonpb.WorkflowExecution{WorkflowId: l.Task}})
		}
	}
	views, err := g.look(ctx, found)
	if err != nil {
		return page, false, err
	}
	for _, v := range views {
		if v.Task != "" && v.Phase == f.phase && (f.priority == "" || v.Priority.String() == f.priority) {
			page.Tasks = append(page.Tasks, v)
		}
	}
	return page, true, nil
}
