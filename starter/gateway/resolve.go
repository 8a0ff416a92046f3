package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"

	historypb "go.temporal.io/api/history/v1"
	"go.uber.org/zap"

	"headgate/config"
	"headgate/contract"
)

// resolve is POST /v1/tasks/{tenant}/{key}/resolve: a person's word on an outcome
// that nobody has seen.
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
	if err := g.mayDecide(r, word.Actor, config.RightResolve, view); err != nil {
		return err
	}
	child := contract.ReconcileID(tenant, key, max(1, view.Attempts)) // closed: it may know the id
	if open := reconciliation(s.task); open != nil && s.open() {
		child = open.GetWorkflowId()
	}
	var done contract.ResolveReply
	err = decide(ctx, g, order[contract.Resolution]{view: view, workflow: child, update: contract.ResolveUpdate, word: word, none: "nothing_to_resolve",
		past: func(ctx context.Context) ([]*historypb.HistoryEvent, error) { return g.reconciliations(ctx, s) }}, &done)
	if err != nil {
		return err
	}
	note(r, zap.String("decision", word.ID), zap.String("verdict", done.Verdict))
	done.NextAction = contract.NextWait // the task goes on, or ends, by the verdict
	return reply(w, http.StatusOK, done)
}

// reconciliations reads the events of all reconciliations of a task.
func (g *Gateway) reconciliations(ctx context.Context, s *sighting) ([]*historypb.HistoryEvent, error) {
	if err := g.readPast(ctx, s); err != nil {
		return nil, err
	}
	var all []*historypb.HistoryEvent
	for _, child := range slices.Backward(s.past.reconcile) {
		events, err := g.runs(ctx, child.workflow, child.run)
		switch {
		case notFound(err): // not started yet, or deleted
		case err != nil:
			return nil, err
		default:
			all = append(all, events...)
		}
	}
	return all, nil
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
	case word.Version < 1:
		return word, refuse("invalid_request", "version is required: the one that the task showed (reconciliation.version)")
	}
	return word, checkDecision(r, &word.ID, &word.Actor, word.Evidence)
}

// checkDecision bounds what a decision says about itself. One without an id gets
// one, and cannot be repeated.
func checkDecision(r *http.Request, id, actor *string, evidence string) error {
	switch {
	case evidence == "":
		return refuse("invalid_request", "evidence is required: say how you know")
	case len(evidence) > 4000:
		return refuse("invalid_request", "evidence has at most 4000 bytes")
	case len(*id) > 128:
		return refuse("invalid_request", "id has at most 128 bytes")
	}
	if *id == "" {
		*id = rand.Text()
	}
	return checkWords(r, actor, "")
}
