package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"headgate/contract"
)

// leastStart is the time before a ticket's end within which no task is started:
// a task that starts too late is not bound by the verdict.
const leastStart = time.Second

// start makes an admitted task durable. It returns nil when this request's task
// is known to be stored, the other task when the key was taken meanwhile, and an
// error when neither is known.
//
// The budget gives two requests for one task the same ticket. So a ticket goes
// back only when the key's task is seen to hold another one; in every other case
// it lapses by itself.
func (g *Gateway) start(ctx context.Context, in contract.TaskInput) (*sighting, error) {
	left := in.Ticket.StartBy.Sub(g.now())
	if left < leastStart {
		return nil, rejected(refuse("gateway_busy", "the admission lapsed before the task could be started; nothing was stored, and the same key is safe to send again").soon())
	}
	startCtx, cancel := context.WithTimeout(ctx, min(left, startTimeout/2))
	_, err := g.client.ExecuteWorkflow(startCtx, startOptions(in, g.now()), contract.TaskWorkflow, in)
	cancel()
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &taken):
		return g.lostRace(ctx, in)
	case refusedByServer(err):
		return nil, rejected(refuse("internal", "Temporal refused to store the task; the log has the cause").because(err))
	}
	return g.findOut(ctx, in, err)
}

// lostRace is called when the key has a task that this request did not start.
func (g *Gateway) lostRace(ctx context.Context, in contract.TaskInput) (*sighting, error) {
	winner, err := g.find(ctx, in.Tenant, in.Key)
	if err != nil {
		return nil, err
	}
	if winner == nil { // its retention ended just now
		return nil, rejected(refuse("not_confirmed", "the key's earlier task has just been deleted; send the request again").soon())
	}
	if winner.ticket() != in.Ticket.ID {
		g.giveBack(ctx, in)
	}
	return winner, nil
}

// findOut is called when it is not known whether the task was stored.
func (g *Gateway) findOut(ctx context.Context, in contract.TaskInput, cause error) (*sighting, error) {
	seen, err := g.find(ctx, in.Tenant, in.Key)
	switch {
	case err == nil && seen != nil && seen.ticket() == in.Ticket.ID:
		return nil, nil
	case err == nil && seen != nil:
		g.giveBack(ctx, in)
		return seen, nil
	}
	// The start may still be on its way: the ticket is left to lapse, so that a
	// task that does arrive is not without one.
	g.log.Warn("start not confirmed", zap.String("tenant", in.Tenant), zap.String("key", in.Key), zap.Error(cause))
	return nil, refuse("not_confirmed", "Temporal did not confirm the task; the same key is safe to send again, and must be used to find out").because(cause).soon()
}

// refusedByServer tells whether the start was refused for good, so that nothing
// can arrive later.
func refusedByServer(err error) bool {
	var invalid *serviceerror.InvalidArgument
	var denied *serviceerror.PermissionDenied
	var namespace *serviceerror.NamespaceNotFound
	return errors.As(err, &invalid) || errors.As(err, &denied) || errors.As(err, &namespace)
}

func startOptions(in contract.TaskInput, now time.Time) client.StartWorkflowOptions {
	phase := contract.PhaseAccepted
	memo := map[string]any{contract.TicketMemo: in.Ticket.ID, contract.HashMemo: in.Hash}
	if in.Intent != "" {
		memo[contract.IntentMemo] = in.Intent
	}
	switch {
	case in.Pinned.Approval != nil:
		phase = contract.WaitsForApproval
		memo[contract.ApprovalMemo] = contract.NewApprovalStand(*in.Pinned, in.Hash, now)
	case in.Ticket.Lease != nil:
		phase = contract.PhaseLeased
	}
	attributes := []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(contract.TenantAttribute).ValueSet(in.Tenant),
		temporal.NewSearchAttributeKeyKeyword(contract.OperationAttribute).ValueSet(in.Operation),
		temporal.NewSearchAttributeKeyKeyword(contract.PriorityAttribute).ValueSet(in.Priority.String()),
		temporal.NewSearchAttributeKeyKeyword(contract.PhaseAttribute).ValueSet(string(phase)),
	}
	if in.Agent != "" {
		attributes = append(attributes, temporal.NewSearchAttributeKeyKeyword(contract.AgentAttribute).ValueSet(in.Agent))
	}
	return client.StartWorkflowOptions{
		ID:                                       contract.TaskID(in.Tenant, in.Key),
		TaskQueue:                                contract.ControlQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     memo,
		TypedSearchAttributes:                    temporal.NewSearchAttributes(attributes...),
		StaticSummary:                            fmt.Sprintf("%s for %s", in.Operation, in.Tenant),
		StaticDetails:                            details(in),
	}
}

// details is what Temporal's Web UI shows about a task: never the payload.
func details(in contract.TaskInput) string {
	var b strings.Builder
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- %s: `%s`\n", name, strings.ReplaceAll(value, "`", "'"))
		}
	}
	row("tenant", in.Tenant)
	row("request key", in.Key)
	row("agent", in.Agent)
	row("intent", in.Intent)
	row("operation", in.Operation)
	row("priority", in.Priority.String())
	if in.Deadline != nil {
		row("deadline", in.Deadline.UTC().Format(time.RFC3339))
	}
	if in.NotBefore != nil {
		row("not before", in.NotBefore.UTC().Format(time.RFC3339))
	}
	row("payload hash", in.Hash)
	row("ticket", in.Ticket.ID)
	return b.String()
}
