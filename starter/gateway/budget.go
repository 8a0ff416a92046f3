package gateway

import (
	"context"
	"net/http"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"headgate/admission"
	"headgate/contract"
)

// queue is GET /v1/queue: the budget as it stands.
func (g *Gateway) queue(w http.ResponseWriter, r *http.Request) error {
	var view admission.View
	if err := g.ask(r.Context(), &view, contract.SnapshotQuery); err != nil {
		return err
	}
	return reply(w, http.StatusOK, view)
}

// why is GET /v1/tasks/{tenant}/{key}/why: what the budget says about one task.
func (g *Gateway) why(w http.ResponseWriter, r *http.Request) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	var why admission.Why
	if err := g.ask(r.Context(), &why, contract.WhyQuery, contract.WhyRequest{Task: contract.TaskID(tenant, key)}); err != nil {
		return err
	}
	if why.Stand == admission.StandAbsent {
		// The budget knows nothing of tasks that have ended: tell those from tasks
		// that never were.
		s, err := g.find(r.Context(), tenant, key)
		if err != nil {
			return err
		}
		if s == nil {
			return noTask(tenant, key)
		}
	}
	return reply(w, http.StatusOK, why)
}

// ask queries the budget.
func (g *Gateway) ask(ctx context.Context, answer any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	value, err := g.client.QueryWorkflow(ctx, contract.BudgetID(g.budget), "", query, args...)
	if err == nil {
		err = value.Get(answer)
	}
	if err != nil {
		return upstream("budget_unavailable", err)
	}
	return nil
}

type health struct {
	Status string `json:"status"`
}

// healthz tells that the process answers.
func (g *Gateway) healthz(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, health{"ok"})
}

// readyRoute is asked often, and a refusal is its ordinary answer.
const readyRoute = "GET /readyz"

// readyz tells that submissions can be admitted: Temporal answers and the budget
// is there. It does not tell whether a worker is.
func (g *Gateway) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	if _, err := g.client.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return upstream("temporal_unavailable", err)
	}
	budget, err := g.client.DescribeWorkflowExecution(ctx, contract.BudgetID(g.budget), "")
	if err != nil {
		return upstream("budget_unavailable", err)
	}
	if budget.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return refuse("budget_unavailable", "the budget is not running; an operator must start a control worker (headgate worker --role control)").soon()
	}
	return reply(w, http.StatusOK, health{"ready"})
}
