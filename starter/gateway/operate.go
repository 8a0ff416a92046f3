package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"headgate/config"
	"headgate/contract"
)

// orderTimeout bounds an operator's order.
const orderTimeout = 10 * time.Second

// someone is the actor of an order that names none.
const someone = "unnamed"

// cancel is POST /v1/tasks/{tenant}/{key}/cancel. Cancelling is a request: a
// task that is dispatched meanwhile still ends by its outcome.
func (g *Gateway) cancel(w http.ResponseWriter, r *http.Request) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	var actor, reason string
	err = readOrder(w, r, map[string]any{"actor": &actor, "reason": &reason})
	if err == nil {
		err = checkWords(r, &actor, reason)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	s, view, err := g.mustFind(ctx, tenant, key)
	if err != nil {
		return err
	}
	switch {
	case view.Phase == contract.PhaseDispatched, view.Phase == contract.PhaseReconciling, s.open() && view.Phase == contract.PhaseUnknown:
		return about(view, refuse("already_dispatched", "attempt %d has been dispatched: cancelling cannot take the effect back, and the outcome decides", view.Attempts))
	case view.Phase.End():
		return about(view, refuse("already_ended", "the task has ended as %s", view.Phase))
	}
	id, run := s.run()
	switch err := g.client.CancelWorkflowWithOptions(ctx, client.CancelWorkflowOptions{WorkflowID: id, RunID: run, Reason: join("by "+actor, reason)}); {
	case notFound(err):
		return refuse("already_ended", "the task has ended just now").because(err)
	case err != nil:
		return upstream("temporal_unavailable", err)
	}
	view.CancelRequested = true
	return reply(w, http.StatusAccepted, view)
}

// readOrder reads an order's body into the named fields; it may be empty.
func readOrder(w http.ResponseWriter, r *http.Request, fields map[string]any) error {
	body, err := readBody(w, r, maxOrder)
	if err != nil || body == nil {
		return err
	}
	return decodeStrict(body, fields)
}

// checkWords bounds what an order says about itself, and names its actor.
func checkWords(r *http.Request, actor *string, reason string) error {
	signOrder(r, actor)
	return checkLengths(actor, reason)
}

func checkLengths(actor *string, reason string) error {
	if len(*actor) > 128 || len(reason) > 1000 {
		return refuse("invalid_request", "actor has at most 128 bytes, reason at most 1000")
	}
	if *actor == "" {
		*actor = someone
	}
	return nil
}

// about adds the task that a problem is about.
func about(view contract.TaskView, p *problemError) *problemError {
	p.Task, p.NextAction = &view, view.NextAction
	return p
}

// pause is POST /v1/tenants/{tenant}/pause. An empty body pauses the dispatch.
func (g *Gateway) pause(w http.ResponseWriter, r *http.Request) error {
	order := contract.PauseRequest{Dispatch: true}
	return g.order(w, r, &order, map[string]any{"dispatch": &order.Dispatch, "admission": &order.Admission,
		"reason": &order.Reason, "actor": &order.Actor, "until": &order.Until})
}

// resume is POST /v1/tenants/{tenant}/resume: dispatch and admission both.
func (g *Gateway) resume(w http.ResponseWriter, r *http.Request) error {
	order := contract.PauseRequest{}
	return g.order(w, r, &order, map[string]any{"reason": &order.Reason, "actor": &order.Actor})
}

func (g *Gateway) order(w http.ResponseWriter, r *http.Request, order *contract.PauseRequest, fields map[string]any) error {
	order.Tenant = r.PathValue("tenant")
	if err := contract.CheckName("tenant", order.Tenant); err != nil {
		return refuse("invalid_name", "%v", err)
	}
	if err := readOrder(w, r, fields); err != nil {
		return err
	}
	pausing := fields["dispatch"] != nil
	switch {
	case pausing && !order.Dispatch && !order.Admission:
		return refuse("invalid_request", "nothing is paused: set dispatch, admission or both, or call resume")
	case order.Until != nil && !order.Until.After(g.now()):
		return refuse("invalid_time", "until is in the past")
	}
	if err := checkWords(r, &order.Actor, order.Reason); err != nil {
		return err
	}
	if err := g.mayDecide(r, order.Actor, config.RightPause, contract.TaskView{Tenant: order.Tenant}); err != nil {
		return err
	}
	var done contract.PauseRequest
	if err := g.orderBudget(r.Context(), contract.PauseUpdate, *order, &done); err != nil {
		return err
	}
	note(r, zap.Bool("dispatch", done.Dispatch), zap.Bool("admission", done.Admission))
	return reply(w, http.StatusOK, done)
}

// orderBudget gives the budget an order and reads its answer into done.
func (g *Gateway) orderBudget(ctx context.Context, update string, order, done any) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	err := g.updateBudget(ctx, update, rand.Text(), order, done)
	var refused *temporal.ApplicationError
	switch {
	case errors.As(err, &refused) && refused.Type() == contract.InvalidError:
		return refuse("invalid_request", "%s", refused.Message())
	case err != nil:
		return upstream("budget_unavailable", err)
	}
	return nil
}
