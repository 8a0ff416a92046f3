package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/temporal"

	"headgate/contract"
)

// decision is what a person decides about one task. Each has an ID that the
// person's client chose: with the same content it is the same decision, however
// often it is sent, also after it was carried out; with another it is refused.
type decision interface {
	comparable
	DecisionID() string
}

// order is a decision on its way to the workflow that takes it.
type order[D decision] struct {
	view     contract.TaskView // of the task that it is about
	workflow string
	update   string
	word     D
	// past are the events among which decisions that were taken earlier are.
	past func(ctx context.Context) ([]*historypb.HistoryEvent, error)
	none string // the reason when no workflow waits for a decision
}

// decide hands a decision over and reads the answer into done.
func decide[D decision, R any](ctx context.Context, g *Gateway, o order[D], done *R) error {
	err := g.update(ctx, o.workflow, o.update, updateID(o.update, o.word), o.word, done)
	var failure *temporal.ApplicationError
	var refusal *problemError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		switch failure.Type() {
		case contract.StaleError:
			refusal = refuse("stale_version", "%s; read the task again and decide on what it shows now", failure.Message())
		case contract.ReusedError:
			refusal = refuse("decision_reused", "%s", failure.Message())
		case updateLost:
			refusal = refuse("stale_version", "the workflow ended before it took the decision; read the task again")
		case contract.InvalidError:
			return refuse("invalid_request", "%s", failure.Message())
		case contract.RightsError:
			return about(o.view, refuse("not_allowed", "%s", failure.Message()))
		case contract.ChangedError:
			return about(o.view, refuse("approval_mismatch", "%s; nothing has changed. Read the task again, and decide on what it shows", failure.Message()))
		default:
			return about(o.view, refuse("resolution_refused", "%s", firstLine(failure.Message())))
		}
	case notFound(err):
		refusal = refuse(o.none, "the task is %s: nothing waits for this decision", o.view.Phase)
	default:
		return upstream("temporal_unavailable", err)
	}
	// What is refused now may have been taken before.
	events, err := o.past(ctx)
	if err != nil && !notFound(err) {
		return upstream("temporal_unavailable", err)
	}
	switch first, answer, found := taken[D, R](events, o.update, o.word.DecisionID()); {
	case found && first == o.word:
		*done = answer
		return nil
	case found:
		return about(o.view, refuse("decision_reused", "the decision %q was made with another content; nothing has changed. A new decision needs a new id", o.word.DecisionID()))
	}
	return about(o.view, refusal)
}

// updateID names a decision by its content, so that Temporal's own deduplication
// answers a repeated one, and another content under the same id is judged by itself.
func updateID(name string, word any) string {
	text, _ := json.Marshal(word) // strings, numbers and flags: cannot fail
	sum := sha256.Sum256(text)
	return name + "-" + hex.EncodeToString(sum[:])
}

// taken finds a decision that was carried out, and its answer, among events.
func taken[D decision, R any](events []*historypb.HistoryEvent, update, id string) (word D, answer R, found bool) {
	became := outcomes(events)
	for _, e := range events {
		var seen D
		input := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
		if input.GetName() != update || !decode(input.GetArgs(), &seen) || seen.DecisionID() != id {
			continue
		}
		if done := became[e.GetEventId()].GetSuccess(); done != nil {
			decode(done, &answer)
			return seen, answer, true
		}
	}
	return word, answer, false
}

// outcomes tell what became of updates, by the event that accepted each. Of two
// that were accepted at once the second may still be refused.
func outcomes(events []*historypb.HistoryEvent) map[int64]*updatepb.Outcome {
	all := map[int64]*updatepb.Outcome{}
	for _, e := range events {
		if done := e.GetWorkflowExecutionUpdateCompletedEventAttributes(); done != nil {
			all[done.GetAcceptedEventId()] = done.GetOutcome()
		}
	}
	return all
}
