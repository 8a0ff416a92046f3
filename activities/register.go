// Package activities is the edge of Headgate: everything that a workflow asks
// of the world. Control serves the budgets and needs only Temporal; Effects
// makes the effects, each under the checkpoint protocol of effect.go, which is
// written once for all types of effects.
//
// What holds here:
//   - no byte of an effect leaves before the server has stored the checkpoint of
//     the running attempt, nor after that checkpoint's send-by time (Guard);
//   - one attempt sends at most one effect: no library retries behind it;
//   - what was seen is an outcome, not an error. Errors are returned by an attempt
//     that has lost its claim only, where nobody reads them.
package activities

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"headgate/contract"
)

// RegisterControl registers the activities of the control queue.
func RegisterControl(r worker.ActivityRegistry, c *Control) {
	register(r, contract.ResolveActivity, c.Resolve)
	register(r, contract.ReportActivity, c.Report)
	register(r, contract.RequestActivity, c.Request)
	register(r, contract.SettleActivity, c.Report)
	register(r, contract.DeliverActivity, c.Deliver)
	register(r, contract.AuditActivity, c.Audit)
	register(r, contract.StopActivity, c.Stop)
	register(r, contract.NoteActivity, c.Note)
	register(r, contract.SettledActivity, c.Settled)
}

// RegisterEffects registers the activities of the queues of effects.
func RegisterEffects(r worker.ActivityRegistry, e *Effects) {
	register(r, contract.EffectActivity, e.Effect)
	register(r, contract.ProbeActivity, e.Probe)
	register(r, contract.SweepActivity, e.Sweep)
}

func register(r worker.ActivityRegistry, name string, activityFunc any) {
	r.RegisterActivityWithOptions(activityFunc, activity.RegisterOptions{Name: name})
}
