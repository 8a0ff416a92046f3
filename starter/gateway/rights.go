package gateway

import "headgate/contract"

// mayDecide refuses a decision about a task that is not its actor's to make: one
// without the right, and one of those who asked for the task. The workflows
// refuse the second, too.
func (g *Gateway) mayDecide(actor, right string, task contract.TaskView) error {
	if err := g.may(actor, right); err != nil {
		return err
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
