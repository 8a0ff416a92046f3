package gateway

import (
	"context"
	"net/http"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"headgate/admission"
	"headgate/contract"
)

// QueueView is the answer of GET /v1/queue.
type QueueView struct {
	admission.View
	// File is the digest of the policy in this gateway's file, if it is not the
	// one in force.
	File string `json:"file_policy,omitempty"`
}

// queue is GET /v1/queue: the budget as it stands.
func (g *Gateway) queue(w http.ResponseWriter, r *http.Request) error {
	var view QueueView
	if err := g.ask(r.Context(), &view.View, contract.SnapshotQuery); err != nil {
		return err
	}
	if g.digest != view.Policy {
		view.File = g.digest
	}
	if c := who(r); c.bound() {
		view = view.own(c.tenant)
	}
	return reply(w, http.StatusOK, view)
}

// WhyView is the answer of GET /v1/tasks/{tenant}/{key}/why.
type WhyView struct {
	admission.Why
	Until *time.Time `json:"until,omitempty"` // what it waits on ends then, as far as is known
	First string     `json:"first,omitempty"` // the task that is tried before all others
	Next  string     `json:"next_action"`
}

// why is GET /v1/tasks/{tenant}/{key}/why: what the budget says about one task.
func (g *Gateway) why(w http.ResponseWriter, r *http.Request) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	var why WhyView
	if err := g.ask(r.Context(), &why.Why, contract.WhyQuery, contract.WhyRequest{Task: contract.TaskID(tenant, key)}); err != nil {
		return err
	}
	why.Next = contract.NextWait
	if who(r).bound() {
		why = why.own(tenant)
	}
	if why.Stand == admission.StandLeased || why.Stand == admission.StandDelayed {
		return reply(w, http.StatusOK, why)
	}
	s, err := g.find(r.Context(), tenant, key)
	switch {
	case err != nil:
		return err
	case why.Stand == admission.StandQueued:
		var now admission.View
		if err := g.ask(r.Context(), &now, contract.SnapshotQuery); err != nil {
			return err
		}
		why.Until, why.First = heldBy(now, why.Why, tenant, s.operation())
		if who(r).bound() {
			why = why.own(tenant)
		}
	case s == nil: // the budget knows nothing of tasks that have ended, nor of those that never were
		return noTask(tenant, key)
	default:
		view, err := g.read(r.Context(), s)
		if err != nil {
			return err
		}
		why.Next = view.NextAction
	}
	return reply(w, http.StatusOK, why)
}

// heldBy finds what holds a task up, and until when.
func heldBy(now admission.View, why admission.Why, tenant, operation string) (until *time.Time, first string) {
	switch why.Reason {
	case admission.TenantPaused:
		for _, t := range now.Tenants {
			if t.Name == tenant && t.Pause != nil {
				return t.Pause.Until, ""
			}
		}
	case admission.BreakerOpen, admission.BreakerProbe, admission.ProviderHold, admission.Capacity:
		for _, r := range now.Resources {
			if why.Resource == "" || r.Name != why.Resource {
				continue
			}
			if r.Held != nil {
				return r.Held, ""
			}
			return r.Next, ""
		}
		for _, g := range now.Gates {
			if g.Operation == operation {
				return g.Until, g.Probe
			}
		}
	}
	return nil, ""
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
