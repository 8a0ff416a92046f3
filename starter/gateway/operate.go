package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

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
	body, err := readBody(w, r, maxOrder)
	if err == nil && body != nil {
		err = decodeStrict(body, map[string]any{"actor": &actor, "reason": &reason})
	}
	if err == nil {
		err = checkWords(&actor, reason)
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
	g.log.Info("cancel requested", zap.String("tenant", tenant), zap.String("key", key), zap.String("actor", actor))
	view.CancelRequested = true
	return reply(w, http.StatusAccepted, view)
}

// checkWords bounds what an order says about itself, and names its actor.
func checkWords(actor *string, reason string) error {
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

// resolve is POST /v1/tasks/{tenant}/{key}/resolve: a person's word on an outcome
// that nobody has seen. The same id with the same content is the same decision,
// however often it is sent, also after it was carried out.
func (g *Gateway) resolve(w http.ResponseWriter, r *http.Request) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	word, err := readResolution(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	s, view, err := g.mustFind(ctx, tenant, key)
	if err != nil {
		return err
	}
	child := contract.ReconcileID(tenant, key, max(1, view.Attempts)) // closed: it may know the id
	if open := reconciliation(s.task); open != nil && s.open() {
		child = open.GetWorkflowId()
	}
	var done contract.ResolveReply
	err = g.update(ctx, child, contract.ResolveUpdate, decisionID(word), word, &done)
	var refused *temporal.ApplicationError
	switch {
	case err == nil:
		g.log.Info("outcome resolved", zap.String("tenant", tenant), zap.String("key", key), zap.String("verdict", done.Verdict))
		return reply(w, http.StatusOK, done)
	case errors.As(err, &refused) && refused.Type() == contract.StaleError:
		return about(view, refuse("stale_version", "%s; read the task again and decide on what it shows now", refused.Message()))
	case errors.As(err, &refused) && refused.Type() == contract.InvalidError:
		return refuse("invalid_request", "%s", refused.Message())
	case errors.As(err, &refused) && refused.Type() == updateLost:
		return refuse("stale_version", "the reconciliation ended before it took the decision; read the task again")
	case errors.As(err, &refused):
		return about(view, refuse("resolution_refused", "%s", firstLine(refused.Message())))
	case notFound(err):
		return about(view, refuse("nothing_to_resolve", "the task is %s: no outcome waits for a decision", view.Phase))
	}
	return upstream("temporal_unavailable", err)
}

func readResolution(w http.ResponseWriter, r *http.Request) (contract.Resolution, error) {
	var word contract.Resolution
	body, err := readBody(w, r, maxOrder)
	if err != nil {
		return word, err
	}
	if body == nil {
		return word, refuse("invalid_request", "the body is empty: want outcome, evidence and version")
	}
	err = decodeStrict(body, map[string]any{"id": &word.ID, "actor": &word.Actor, "outcome": &word.Outcome,
		"evidence": &word.Evidence, "version": &word.Version})
	switch {
	case err != nil:
		return word, err
	case word.Outcome != contract.Happened && word.Outcome != contract.DidNotHappen && word.Outcome != contract.FailedFinding:
		return word, refuse("invalid_request", "outcome %.40q: want happened, did_not_happen or failed", word.Outcome)
	case word.Evidence == "":
		return word, refuse("invalid_request", "evidence is required: say how you know")
	case word.Version < 1:
		return word, refuse("invalid_request", "version is required: the one that the task showed (reconciliation.version)")
	case len(word.ID) > 128:
		return word, refuse("invalid_request", "id has at most 128 bytes")
	}
	if word.ID == "" {
		word.ID = rand.Text()
	}
	return word, checkWords(&word.Actor, "")
}

// decisionID names a decision by its id and content, so that Temporal's own
// deduplication answers a repeated one, and another content under the same id is
// judged by itself.
func decisionID(word contract.Resolution) string {
	text, _ := json.Marshal(word) // strings and a number: cannot fail
	sum := sha256.Sum256(text)
	return "resolve-" + hex.EncodeToString(sum[:])
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
	body, err := readBody(w, r, maxOrder)
	if err != nil {
		return err
	}
	if body != nil {
		if err := decodeStrict(body, fields); err != nil {
			return err
		}
	}
	pausing := fields["dispatch"] != nil
	switch {
	case pausing && !order.Dispatch && !order.Admission:
		return refuse("invalid_request", "nothing is paused: set dispatch, admission or both, or call resume")
	case order.Until != nil && !order.Until.After(g.now()):
		return refuse("invalid_time", "until is in the past")
	}
	if err := checkWords(&order.Actor, order.Reason); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	var done contract.PauseRequest
	err = g.update(ctx, contract.BudgetID(g.budget), contract.PauseUpdate, rand.Text(), *order, &done)
	var refused *temporal.ApplicationError
	switch {
	case errors.As(err, &refused) && refused.Type() == contract.InvalidError:
		return refuse("invalid_request", "%s", refused.Message())
	case err != nil:
		return upstream("budget_unavailable", err)
	}
	g.log.Info("tenant order", zap.String("tenant", done.Tenant), zap.Bool("dispatch", done.Dispatch), zap.Bool("admission", done.Admission))
	return reply(w, http.StatusOK, done)
}
