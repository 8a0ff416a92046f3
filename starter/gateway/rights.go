package gateway

import (
	"net/http"
	"slices"

	"headgate/config"
	"headgate/contract"
)

// mayDecide refuses a decision about a task that is not its actor's to make: one
// without the right, and one of those who asked for the task. The workflows
// refuse the second, too. A key that may ask for tasks is taken for one that did.
func (g *Gateway) mayDecide(r *http.Request, actor, right string, task contract.TaskView) error {
	if err := g.may(actor, right); err != nil {
		return err
	}
	if c := who(r); c.name != "" && right != config.RightPause && slices.Contains(c.roles, config.RoleSubmit) {
		return refuse("not_allowed", "the key may ask for tasks itself: somebody else decides, with a key that may not")
	}
	if actor == task.Tenant || task.Agent != "" && actor == task.Agent {
		return refuse("not_allowed", "%.128q asks for this task: somebody else decides", actor)
	}
	return nil
}

// may refuses an order of somebody who does not hold the right.
func (g *Gateway) may(actor, right string) error {
	if !g.people.May(actor, right) {
		return refuse("not_allowed", "%.128q does not hold the right to %s", actor, right)
	}
	return nil
}
