package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/contract"
)

// maxLooked bounds how many tasks with a lease one count looks at.
const maxLooked = 100

// phases is GET /v1/phases: how many tasks are in each phase. Temporal's index
// tells what it knows; how far an attempt is, the tasks with a lease do. The key
// of one tenant counts that one's.
func (g *Gateway) phases(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*readTimeout)
	defer cancel()
	tenant := ""
	if c := who(r); c.bound() {
		tenant = c.tenant
	}
	counts, err := g.countPhases(ctx, tenant)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, counts)
}

// countPhases counts the tasks of one tenant, or of all for the empty name.
func (g *Gateway) countPhases(ctx context.Context, tenant string) (contract.PhaseCounts, error) {
	var now QueueView
	if err := g.ask(ctx, &now.View, contract.SnapshotQuery); err != nil {
		return contract.PhaseCounts{}, err
	}
	of := ""
	if tenant != "" {
		now, of = now.own(tenant), "AND "+contract.TenantAttribute+" = "+quote(tenant)+" "
	}
	running, unlooked, err := g.countRunning(ctx, now.View)
	if err != nil {
		return contract.PhaseCounts{}, err
	}
	byStatus, _, err := g.count(ctx, of+"GROUP BY ExecutionStatus")
	if err != nil {
		return contract.PhaseCounts{}, err
	}
	noted := map[contract.Phase]int{}
	for phase, status := range map[contract.Phase]string{
		contract.PhaseReconciling: "Running", contract.PhaseUnknown: "Running", contract.PhaseExpired: "Failed", contract.PhaseRejected: "Failed",
	} {
		_, n, err := g.count(ctx, of+"AND ExecutionStatus = '"+status+"' AND "+contract.PhaseAttribute+" = "+quote(string(phase)))
		if err != nil {
			return contract.PhaseCounts{}, err
		}
		noted[phase] = n
	}
	_, total, err := g.count(ctx, of)
	if err != nil {
		return contract.PhaseCounts{}, err
	}

	counts := contract.PhaseCounts{At: g.now(), Total: total, Unlooked: unlooked, Outside: byStatus["Terminated"] + byStatus["TimedOut"]}
	noted[contract.PhaseSucceeded], noted[contract.PhaseCancelled] = byStatus["Completed"], byStatus["Canceled"]
	noted[contract.PhaseFailed] = max(0, byStatus["Failed"]-noted[contract.PhaseExpired]-noted[contract.PhaseRejected])
	waiting := byStatus["Running"] + byStatus["Paused"] - noted[contract.PhaseReconciling] - noted[contract.PhaseUnknown] - unlooked
	for phase, n := range running {
		noted[phase] = n
		waiting -= n
	}
	noted[contract.PhaseAccepted] = max(0, waiting) // the index is behind the leases
	for _, phase := range contract.Phases() {
		counts.Phases = append(counts.Phases, contract.PhaseCount{Phase: phase, Tasks: noted[phase]})
	}
	return counts, nil
}

// countRunning looks at the tasks that hold a lease, the oldest first.
func (g *Gateway) countRunning(ctx context.Context, now admission.View) (running map[contract.Phase]int, unlooked int, err error) {
	var seen []string
	var found []*workflowpb.WorkflowExecutionInfo
	for _, l := range now.Leases {
		if slices.Contains(seen, l.Task) {
			continue // a probe's, or one that is about to end
		}
		if seen = append(seen, l.Task); len(found) < maxLooked {
			found = append(found, &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
				Execution: &commonpb.WorkflowExecution{WorkflowId: l.Task}})
		}
	}
	views, err := g.look(ctx, found)
	if err != nil {
		return nil, 0, err
	}
	running = map[contract.Phase]int{}
	for _, v := range views {
		switch v.Phase {
		case contract.PhaseLeased, contract.PhaseClaimed, contract.PhaseDispatched:
			running[v.Phase]++
		}
	}
	return running, max(0, len(seen)-len(found)) + max(0, now.InFlight-len(now.Leases)), nil
}

// count counts tasks in Temporal's index; groups are by the status, if the query
// asks for them.
func (g *Gateway) count(ctx context.Context, rest string) (groups map[string]int, n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := g.client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: strings.TrimSpace("WorkflowType = " + quote(contract.TaskWorkflow) + " " + rest)})
	if err != nil {
		return nil, 0, upstream("temporal_unavailable", err)
	}
	groups = map[string]int{}
	for _, group := range found.GetGroups() {
		var status string
		if values := group.GetGroupValues(); len(values) == 1 && decodeOne(values[0], &status) {
			groups[status] += int(group.GetCount())
		}
	}
	return groups, int(found.GetCount()), nil
}
