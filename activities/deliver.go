package activities

import (
	"context"
	"sync"
	"time"

	enums "go.temporal.io/api/enums/v1"
	workflow "go.temporal.io/api/workflow/v1"
	"go.uber.org/zap"

	"headgate/contract"
	"headgate/contract/codec"
)

const (
	manyAtOnce = 8               // calls to the server by one activity
	oneCall    = 5 * time.Second // the longest one
)

// Deliver tells tasks what a budget has decided. Each item has an answer of its
// own; the activity never fails for one of them.
func (c *Control) Deliver(ctx context.Context, in contract.Deliveries) (contract.DeliverReply, error) {
	reply := contract.DeliverReply{Answers: make([]string, len(in.Items))}
	each(ctx, len(in.Items), func(ctx context.Context, i int) {
		item := in.Items[i]
		err := c.Client.SignalWorkflow(ctx, item.Task, "", contract.DecisionSignal, item.Decision)
		if reply.Answers[i] = delivered(err); reply.Answers[i] == contract.NotDelivered {
			c.Log.Warn("decision not delivered", zap.String("task", item.Task), zap.Int("attempt", item.Decision.Attempt), zap.Error(err))
		}
	})
	measureDeliveries(ctx, in, reply)
	return reply, nil
}

// delivered is the answer about an item, by the error that it gave.
func delivered(err error) string {
	switch {
	case err == nil:
		return contract.Delivered
	case gone(err):
		return contract.TaskGone
	}
	return contract.NotDelivered
}

// Audit looks at the holders of leases and tickets. What could not be seen is
// unclear, never missing.
func (c *Control) Audit(ctx context.Context, in contract.AuditRequest) (contract.AuditReply, error) {
	reply := contract.AuditReply{Answers: make([]contract.AuditAnswer, len(in.Tasks))}
	each(ctx, len(in.Tasks), func(ctx context.Context, i int) {
		described, err := c.Client.DescribeWorkflowExecution(ctx, in.Tasks[i], "")
		switch {
		case err == nil:
			reply.Answers[i] = auditAnswer(described.GetWorkflowExecutionInfo())
		case gone(err):
			reply.Answers[i].State = contract.AuditMissing
		default:
			reply.Answers[i].State = contract.AuditUnclear
			c.Log.Warn("holder not described", zap.String("task", in.Tasks[i]), zap.Error(err))
		}
	})
	return reply, nil
}

func auditAnswer(info *workflow.WorkflowExecutionInfo) contract.AuditAnswer {
	a := contract.AuditAnswer{State: contract.AuditClosed}
	switch info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_PAUSED, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		a.State = contract.AuditOpen
	case enums.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED:
		a.State = contract.AuditUnclear
	}
	if memo, ok := info.GetMemo().GetFields()[contract.TicketMemo]; ok {
		if err := codec.Converter().FromPayload(memo, &a.Ticket); err != nil {
			// A ticket that cannot be read must not look like none.
			return contract.AuditAnswer{State: contract.AuditUnclear}
		}
	}
	return a
}

// each calls f for 0 to n-1, a few at a time, each with a deadline of its own.
func each(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, manyAtOnce)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, oneCall)
			defer cancel()
			f(ctx, i)
		})
	}
	all.Wait()
}
