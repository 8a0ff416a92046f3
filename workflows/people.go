package workflows

import (
	"go.temporal.io/sdk/temporal"

	"headgate/contract"
)

// What all decisions of people have in common.

// checkDecision refuses a decision that does not say who made it and why, and
// one of those who asked for the task.
func checkDecision(id, actor, evidence, tenant, agent string) error {
	refuse := func(kind, text string) error {
		return temporal.NewNonRetryableApplicationError(text, kind, nil)
	}
	switch {
	case id == "":
		return refuse(contract.InvalidError, "the id of the decision is empty")
	case actor == "":
		return refuse(contract.InvalidError, "the actor is empty")
	case evidence == "":
		return refuse(contract.InvalidError, "the evidence is empty: say how you know")
	case actor == tenant || actor == agent:
		return refuse(contract.RightsError, "who asks for a task does not decide about it: "+actor)
	}
	return nil
}

// decided lists the decisions that were made about the task so far.
func (t *task) decided() []string {
	var ids []string
	if id := t.asking.decision.ID; id != "" {
		ids = append(ids, id)
	}
	for _, e := range t.result.Evidence {
		if e.Decision != "" {
			ids = append(ids, e.Decision)
		}
	}
	return ids
}
