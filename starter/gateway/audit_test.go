package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/contract"
)

const auditPath = "/v1/operations/charge_card/audit"

func TestStartAudit(t *testing.T) {
	f := &fake{}
	r := do(t, newGateway(f), "POST", auditPath, `{"actor": "mara"}`)
	require.Equal(t, 202, r.StatusCode)
	require.Equal(t, contract.AuditView{Operation: "charge_card", Run: "run-1", State: contract.AuditRunning}, decodeBody[contract.AuditView](t, r))
	require.Equal(t, "audit/charge_card", f.started[0].ID)
	require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, f.started[0].WorkflowIDConflictPolicy)
	require.Equal(t, "mara", f.audits[0].Actor)
	require.Equal(t, "charge_card", f.audits[0].Operation.Name)
	require.Equal(t, 400, do(t, newGateway(f), "POST", "/v1/operations/charge_cart/audit", "").StatusCode)
}

func TestReadAudit(t *testing.T) {
	failed := &script{}
	failed.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{
			Failure: &failurepb.Failure{Message: "activity error", Cause: &failurepb.Failure{Message: "list the tasks: away"}}}}
	})
	done := &script{}
	done.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{
			Result: payloads(contract.AuditReport{Operation: "charge_card", Listing: contract.ListingFailed})}}
	})
	for name, c := range map[string]struct {
		status  enumspb.WorkflowExecutionStatus
		history *script
		state   string
		verdict string
		detail  string
	}{
		"running": {enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, done, contract.AuditRunning, "", ""},
		"done":    {enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, done, contract.AuditDone, contract.AuditUnknown, ""},
		"failed":  {enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, failed, contract.AuditFailed, "", "list the tasks: away"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{histories: map[string][]*historypb.HistoryEvent{"audit/charge_card": c.history.events}}
			f.put(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
				Status: c.status, Execution: &commonpb.WorkflowExecution{WorkflowId: "audit/charge_card", RunId: "run-1"}}})
			r := do(t, newGateway(f), "GET", auditPath+"?run=run-1", "")
			require.Equal(t, 200, r.StatusCode)
			v := decodeBody[contract.AuditView](t, r)
			require.Equal(t, c.state, v.State)
			require.Equal(t, c.verdict, v.Verdict)
			require.Equal(t, c.detail, v.Detail)
		})
	}
	require.Equal(t, "no_audit", decodeBody[contract.Problem](t, do(t, newGateway(&fake{}), "GET", auditPath, "")).Reason)
}

func TestFindings(t *testing.T) {
	view := contract.FindingsView{Operation: "charge_card", Findings: []contract.Finding{{Kind: contract.FindingLost, Task: "task/acme/1"}}}
	for name, c := range map[string]struct {
		err    error
		status int
		want   int
	}{
		"some":         {nil, 200, 1},
		"never told":   {serviceerror.NewNotFound("workflow not found"), 200, 0},
		"out of reach": {serviceerror.NewUnavailable("away"), 503, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{query: func(string, []any) (any, error) { return view, c.err }}
			r := do(t, newGateway(f), "GET", "/v1/operations/charge_card/findings", "")
			require.Equal(t, c.status, r.StatusCode)
			if c.status == 200 {
				require.Len(t, decodeBody[contract.FindingsView](t, r).Findings, c.want)
			}
		})
	}
}
