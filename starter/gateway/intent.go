package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"headgate/admission"
	api "headgate/client"
	"headgate/contract"
)

const (
	// intentTries bounds the looks at an intent that changes hands meanwhile.
	intentTries = 20
	// intentPause is the wait for a task whose intent is claimed and that is about
	// to be started.
	intentPause = 100 * time.Millisecond
)

// claim is an intent that is taken.
type claim struct {
	contract.Claim
	run string // of the Intent workflow
}

// claimOf looks an intent up: nil if nobody has it.
func (g *Gateway) claimOf(ctx context.Context, tenant, intent string) (*claim, error) {
	d, err := g.client.DescribeWorkflowExecution(ctx, contract.IntentID(tenant, intent), "")
	switch {
	case notFound(err):
		return nil, nil
	case err != nil:
		return nil, upstream("temporal_unavailable", err)
	case d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return nil, nil
	}
	info := d.GetWorkflowExecutionInfo()
	return &claim{Claim: memo[contract.Claim](info.GetMemo(), contract.ClaimMemo), run: info.GetExecution().GetRunId()}, nil
}

// holder is the task that a claim is for, as long as the claim holds: until it
// has ended without an effect, or can no longer be started.
//
//	there, open or with an effect, or in doubt   it holds
//	there, ended without an effect               it does not
//	not there, may still be started              pending
//	not there, its ticket has lapsed             it does not
func (g *Gateway) holder(ctx context.Context, tenant string, c *claim) (view *contract.TaskView, pending bool, err error) {
	s, err := g.find(ctx, tenant, c.Key)
	if err != nil {
		return nil, false, err
	}
	if s == nil {
		return nil, g.now().Before(c.StartBy.Add(admission.TicketMargin)), nil
	}
	v, err := g.read(ctx, s)
	if err != nil {
		return nil, false, err
	}
	switch v.Phase {
	case contract.PhaseFailed, contract.PhaseExpired, contract.PhaseCancelled, contract.PhaseRejected:
		return nil, false, nil
	}
	return &v, false, nil
}

// meet looks for an earlier task with the intent of a request, before the budget
// is asked: so one that will be met takes nobody's place. Only claim decides.
func (g *Gateway) meet(ctx context.Context, in contract.TaskInput) (*contract.TaskView, error) {
	c, err := g.claimOf(ctx, in.Tenant, in.Intent)
	if c == nil || err != nil || c.Key == in.Key {
		return nil, err
	}
	view, _, err := g.holder(ctx, in.Tenant, c)
	return view, err
}

// claim takes an intent for an admitted task that is about to be started, or
// gives the task that has it. Temporal lets one workflow of an ID be open, so that
// of many who claim at once one succeeds; a claim that holds no longer is ended by
// its run, so that nobody ends the claim that took its place.
func (g *Gateway) claim(ctx context.Context, in contract.TaskInput) (*contract.TaskView, error) {
	for range intentTries {
		_, err := g.client.ExecuteWorkflow(ctx, intentOptions(in), contract.IntentWorkflow, contract.IntentInput{
			Tenant: in.Tenant, Intent: in.Intent, Key: in.Key, Window: in.Pinned.Intent.Window})
		var taken *serviceerror.WorkflowExecutionAlreadyStarted
		switch {
		case err == nil:
			return nil, nil
		case !errors.As(err, &taken):
			return nil, upstream("temporal_unavailable", err)
		case in.Pinned.Intent.Same == contract.SameAllow:
			return nil, nil
		}
		c, err := g.claimOf(ctx, in.Tenant, in.Intent)
		switch {
		case err != nil:
			return nil, err
		case c == nil: // its window has ended just now
			continue
		case c.Key == in.Key && c.StartBy.Equal(in.Ticket.StartBy): // the same admission, told twice
			return nil, nil
		case c.Key != in.Key:
			view, pending, err := g.holder(ctx, in.Tenant, c)
			if view != nil || err != nil {
				return view, err
			}
			if pending {
				select {
				case <-ctx.Done():
				case <-g.after(intentPause):
				}
				continue
			}
		}
		err = g.client.TerminateWorkflow(ctx, contract.IntentID(in.Tenant, in.Intent), c.run, "its task had no effect, or was never started")
		if err != nil && !notFound(err) {
			return nil, upstream("temporal_unavailable", err)
		}
	}
	return nil, refuse("gateway_busy", "another request with this intent is being taken; nothing was stored, and the same key is safe to send again").soon()
}

func intentOptions(in contract.TaskInput) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                                       contract.IntentID(in.Tenant, in.Intent),
		TaskQueue:                                contract.ControlQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     map[string]any{contract.ClaimMemo: contract.Claim{Key: in.Key, StartBy: in.Ticket.StartBy}},
		StaticSummary:                            fmt.Sprintf("the intent of %s", contract.TaskID(in.Tenant, in.Key)),
	}
}

// sameIntent answers a request whose intent an earlier task has.
func sameIntent(w http.ResponseWriter, in contract.TaskInput, same string, earlier *contract.TaskView) error {
	w.Header().Set("Location", api.TaskPath(earlier.Tenant, earlier.Key))
	earlier.SameIntent = true
	if same == contract.SameReturn {
		return reply(w, http.StatusAccepted, earlier)
	}
	return rejected(about(*earlier, refuse("same_intent", "the intent %q is that of task %s, which was sent %s under another key; nothing was stored for this one",
		in.Intent, earlier.Task, when(earlier.Accepted))))
}
