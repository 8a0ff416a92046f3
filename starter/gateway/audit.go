package gateway

import (
	"context"
	"net/http"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"headgate/contract"
)

// declared finds an operation of the path.
func (g *Gateway) declared(r *http.Request) (contract.Operation, error) {
	name := r.PathValue("operation")
	if err := contract.CheckName("operation", name); err != nil {
		return contract.Operation{}, refuse("invalid_name", "%v", err)
	}
	op, ok := g.operations.Operation(name)
	if !ok {
		return contract.Operation{}, refuse("unknown_operation", "there is no operation %q in the configuration", name)
	}
	return op.Declared, nil
}

// startAudit is POST /v1/operations/{operation}/audit. One that is under way is
// joined.
func (g *Gateway) startAudit(w http.ResponseWriter, r *http.Request) error {
	op, err := g.declared(r)
	if err != nil {
		return err
	}
	in := contract.AuditInput{Operation: op, Budget: g.budget}
	err = readOrder(w, r, map[string]any{"actor": &in.Actor})
	if err == nil {
		err = checkWords(r, &in.Actor, "")
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	run, err := g.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       contract.AuditID(op.Name),
		TaskQueue:                contract.ControlQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            "audit " + op.Name,
	}, contract.AuditWorkflow, in)
	if err != nil {
		return upstream("temporal_unavailable", err)
	}
	return reply(w, http.StatusAccepted, contract.AuditView{Operation: op.Name, Run: run.GetRunID(), State: contract.AuditRunning})
}

// lastAudit is GET /v1/operations/{operation}/audit: the last one, or that of ?run=.
func (g *Gateway) lastAudit(w http.ResponseWriter, r *http.Request) error {
	op, err := g.declared(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	seen, err := g.client.DescribeWorkflowExecution(ctx, contract.AuditID(op.Name), r.URL.Query().Get("run"))
	switch {
	case notFound(err):
		return refuse("no_audit", "no audit of %s is stored: POST starts one", op.Name)
	case err != nil:
		return upstream("temporal_unavailable", err)
	}
	info := seen.GetWorkflowExecutionInfo()
	view := contract.AuditView{Operation: op.Name, Run: info.GetExecution().GetRunId(), State: contract.AuditRunning}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return reply(w, http.StatusOK, view)
	}
	end, err := g.history(ctx, contract.AuditID(op.Name), view.Run, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	if err != nil {
		return upstream("temporal_unavailable", err)
	}
	view.State, view.Detail = contract.AuditFailed, "the audit was ended from outside"
	if len(end) > 0 {
		last := end[len(end)-1]
		var report contract.AuditReport
		if decode(last.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &report) {
			view.State, view.Detail, view.Report, view.Verdict = contract.AuditDone, "", &report, report.Verdict()
		} else if failure := last.GetWorkflowExecutionFailedEventAttributes().GetFailure(); failure != nil {
			for failure.GetCause() != nil {
				failure = failure.GetCause()
			}
			view.Detail = firstLine(failure.GetMessage())
		}
	}
	return reply(w, http.StatusOK, view)
}

// findings is GET /v1/operations/{operation}/findings.
func (g *Gateway) findings(w http.ResponseWriter, r *http.Request) error {
	op, err := g.declared(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	view, err := g.findingsOf(ctx, op.Name)
	if err != nil {
		return upstream("temporal_unavailable", err)
	}
	return reply(w, http.StatusOK, view)
}

// findingsOf asks for an operation's findings. No error if none was ever told.
func (g *Gateway) findingsOf(ctx context.Context, operation string) (contract.FindingsView, error) {
	view := contract.FindingsView{Operation: operation, Findings: []contract.Finding{}}
	value, err := g.client.QueryWorkflow(ctx, contract.FindingsID(operation), "", contract.FindingsQuery)
	if err == nil {
		err = value.Get(&view)
	}
	if notFound(err) {
		err = nil
	}
	return view, err
}

// contradicted hands a callback about a task that has ended to the operation's
// findings, which hold it against the end. It returns once they have it.
func (g *Gateway) contradicted(ctx context.Context, operation, task string, e contract.Evidence) error {
	op, ok := g.operations.Operation(operation)
	if !ok {
		return nil
	}
	e.Kind, e.At, e.Result = contract.EvidenceCallback, g.now(), nil
	id := contract.FindingsID(operation)
	_, err := g.client.SignalWithStartWorkflow(ctx, id, contract.EvidenceSignal, contract.ClosedEvidence{Task: task, Evidence: e,
		Replay: op.Declared.Replay.Class, Budget: g.budget, Freeze: op.Declared.OnFinding == contract.OnFindingFreeze},
		client.StartWorkflowOptions{ID: id, TaskQueue: contract.ControlQueue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE},
		contract.FindingsWorkflow, contract.FindingsInput{Operation: operation})
	return err
}
