package workflows

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// Budget guards one pool of resources for as long as it lives. It is a loop
// around admission.State: messages change the state, the loop advances it,
// carries out what it asks for, and sleeps until its next wake time.
//
// Updates are applied in their handlers, which never yield, so each is atomic
// and is answered in the same workflow task. A batch that would be refused
// whole is refused by the validator and leaves no event.
func Budget(ctx workflow.Context, in contract.BudgetInput) error {
	// A cancel request would end the guard of a limit; only a terminate does.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	b, err := newBudget(ctx, in)
	if err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.InvalidError, err)
	}
	// The state is complete before the first handler can be called.
	if err := b.handle(ctx); err != nil {
		return err
	}
	for {
		// 1. Take what has come.
		b.drain(ctx)
		// 2. Begin a new run before the history grows too long.
		// An order that waits for the loop's work goes first: it is bounded.
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && b.freezing == 0 {
			return b.continueAsNew(ctx)
		}
		// 3. Decide.
		b.dirty = false
		effects := b.state.Advance(workflow.Now(ctx))
		// 4. Carry it out.
		b.carry(ctx, effects)
		// 5. Sleep until something comes, or the state wants to be woken.
		b.sleep(ctx)
	}
}

type budget struct {
	in       contract.BudgetInput
	state    *admission.State
	requests workflow.ReceiveChannel
	reports  workflow.ReceiveChannel
	freezes  workflow.ReceiveChannel
	dirty    bool // the state has changed since it was advanced
	freezing int  // orders that wait until holders were asked to stop

	timer   workflow.Future
	timerAt time.Time
	cancel  workflow.CancelFunc
}

func newBudget(ctx workflow.Context, in contract.BudgetInput) (*budget, error) {
	b := &budget{
		in:       in,
		requests: workflow.GetSignalChannel(ctx, contract.RequestSignal),
		reports:  workflow.GetSignalChannel(ctx, contract.ReportSignal),
		freezes:  workflow.GetSignalChannel(ctx, contract.FreezeSignal),
	}
	var err error
	if in.Snapshot != nil {
		b.state, err = admission.Restore(*in.Snapshot)
		return b, err
	}
	now := workflow.Now(ctx)
	b.state, err = admission.New(in.Policy, strconv.FormatInt(now.UnixMilli(), 36), now)
	return b, err
}

func (b *budget) handle(ctx workflow.Context) error {
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.AdmitUpdate, b.admit,
		workflow.UpdateHandlerOptions{Validator: b.validateAdmit}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.PauseUpdate, b.pause,
		workflow.UpdateHandlerOptions{Validator: validatePause}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.ConfigureUpdate, b.configure,
		workflow.UpdateHandlerOptions{Validator: validateConfigure}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.FreezeUpdate, b.freeze,
		workflow.UpdateHandlerOptions{Validator: validateFreeze}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, contract.SnapshotQuery, func() (admission.View, error) {
		return b.state.View(workflow.Now(ctx)), nil
	}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, contract.LeasesQuery, func(in contract.LeasesRequest) ([]admission.LeaseView, error) {
		return b.state.Leases(in.After, in.Limit), nil
	}); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, contract.WhyQuery, func(in contract.WhyRequest) (admission.Why, error) {
		return b.state.Why(in.Task), nil
	})
}

// validateAdmit refuses a batch of which nothing would be taken. A refusal
// changes no state, so each request can be looked at on its own.
func (b *budget) validateAdmit(ctx workflow.Context, in contract.AdmitRequest) error {
	if len(in.Requests) == 0 {
		return temporal.NewNonRetryableApplicationError("the batch is empty", contract.InvalidError, nil)
	}
	now := workflow.Now(ctx)
	reply := contract.AdmitReply{Verdicts: make([]admission.Verdict, 0, len(in.Requests))}
	for _, r := range in.Requests {
		v, refused := b.state.Refusal(now, r)
		if !refused {
			return nil
		}
		reply.Verdicts = append(reply.Verdicts, v)
	}
	return temporal.NewNonRetryableApplicationError("refused", contract.RefusedError, nil, reply)
}

func (b *budget) admit(ctx workflow.Context, in contract.AdmitRequest) (contract.AdmitReply, error) {
	now := workflow.Now(ctx)
	reply := contract.AdmitReply{Verdicts: make([]admission.Verdict, 0, len(in.Requests))}
	for _, r := range in.Requests {
		reply.Verdicts = append(reply.Verdicts, b.state.Admit(now, r))
	}
	b.dirty = true
	return reply, nil
}

func validatePause(_ workflow.Context, in contract.PauseRequest) error {
	err := contract.CheckName("tenant", in.Tenant)
	if err == nil && in.Actor == "" {
		return temporal.NewNonRetryableApplicationError("the actor is empty", contract.InvalidError, nil)
	}
	if err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.InvalidError, nil)
	}
	return nil
}

// pause also resumes: with neither dispatch nor admission set.
func (b *budget) pause(ctx workflow.Context, in contract.PauseRequest) (contract.PauseRequest, error) {
	b.state.Pause(workflow.Now(ctx), in.Tenant, admission.Pause{
		Dispatch: in.Dispatch, Admission: in.Admission, Reason: in.Reason, Actor: in.Actor, Until: in.Until})
	b.dirty = true
	return in, nil
}

func validateConfigure(_ workflow.Context, in contract.ConfigureRequest) error {
	if in.Actor == "" {
		return temporal.NewNonRetryableApplicationError("the actor is empty", contract.InvalidError, nil)
	}
	if err := in.Policy.Normalize().Validate(); err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.InvalidError, nil)
	}
	return nil
}

func (b *budget) configure(ctx workflow.Context, in contract.ConfigureRequest) (contract.ConfigureReply, error) {
	before := b.state.Policy().Digest()
	if err := b.state.Configure(workflow.Now(ctx), in.Policy.Normalize()); err != nil {
		return contract.ConfigureReply{}, temporal.NewNonRetryableApplicationError(err.Error(), contract.InvalidError, nil)
	}
	b.dirty = true
	return contract.ConfigureReply{Before: before, After: b.state.Policy().Digest()}, nil
}

// drain applies all signals that are there, without yielding. Reports come
// first: a retry's request finds the lease of the attempt before it returned.
func (b *budget) drain(ctx workflow.Context) {
	now := workflow.Now(ctx)
	b.drainFreezes(now)
	for {
		var batch contract.ReportBatch
		if !b.reports.ReceiveAsync(&batch) {
			break
		}
		for _, r := range batch.Reports {
			b.state.Report(now, r)
		}
	}
	for {
		var batch contract.RequestBatch
		if !b.requests.ReceiveAsync(&batch) {
			break
		}
		for _, r := range batch.Requests {
			b.state.Ask(now, r.Request, r.Admit)
		}
	}
}

// carry starts what the state asked for. The answers come back into the state;
// what is lost with a run is asked for again by the next one.
func (b *budget) carry(ctx workflow.Context, e admission.Effects) {
	if len(e.Decisions) > 0 {
		workflow.Go(ctx, func(ctx workflow.Context) { b.deliver(ctx, e.Decisions) })
	}
	if len(e.Stops) > 0 {
		workflow.Go(ctx, func(ctx workflow.Context) { b.stop(ctx, e.Stops) })
	}
	if len(e.Inspections) > 0 {
		workflow.Go(ctx, func(ctx workflow.Context) { b.inspect(ctx, e.Inspections) })
	}
}

func (b *budget) deliver(ctx workflow.Context, decisions []admission.Decision) {
	in := contract.Deliveries{Budget: b.in.Name}
	for _, d := range decisions {
		in.Items = append(in.Items, contract.Delivery{Task: d.Task, Decision: contract.Decision{
			Attempt: d.Attempt, Lease: d.Lease, Reason: d.Reason, Detail: d.Detail, RetryAfter: d.RetryAfter}})
	}
	ctx = workflow.WithLocalActivityOptions(ctx, deliverOptions())
	var reply contract.DeliverReply
	err := workflow.ExecuteLocalActivity(ctx, contract.DeliverActivity, in).Get(ctx, &reply)
	now := workflow.Now(ctx)
	for i, how := range delivered(len(decisions), reply, err) {
		b.state.Delivered(now, decisions[i], how)
	}
	b.dirty = true
}

// delivered is the answer to each of n deliveries; what has none was not delivered,
// as far as is known.
func delivered(n int, reply contract.DeliverReply, err error) []admission.Delivery {
	out := make([]admission.Delivery, n)
	for i := range out {
		out[i] = admission.DeliveryFailed
		if err == nil && i < len(reply.Answers) {
			out[i] = deliveries[reply.Answers[i]]
		}
	}
	return out
}

// Lookups only: a text that is not listed gives the zero value, which the state
// takes for a failure.
var deliveries = map[string]admission.Delivery{
	contract.Delivered: admission.DeliveryDone,
	contract.TaskGone:  admission.DeliveryGone,
}

var holders = map[string]admission.Holder{
	contract.AuditOpen:    admission.HolderOpen,
	contract.AuditClosed:  admission.HolderClosed,
	contract.AuditMissing: admission.HolderMissing,
}

func (b *budget) inspect(ctx workflow.Context, inspections []admission.Inspection) {
	in := contract.AuditRequest{}
	for _, i := range inspections {
		in.Tasks = append(in.Tasks, i.Task)
	}
	ctx = workflow.WithActivityOptions(ctx, batchOptions("look at "+strconv.Itoa(len(inspections))+" holders"))
	var reply contract.AuditReply
	err := workflow.ExecuteActivity(ctx, contract.AuditActivity, in).Get(ctx, &reply)
	now := workflow.Now(ctx)
	for i, inspection := range inspections {
		holder, ticket := admission.HolderUnclear, ""
		if err == nil && i < len(reply.Answers) {
			ticket = reply.Answers[i].Ticket
			if h, ok := holders[reply.Answers[i].State]; ok {
				holder = h
			}
		}
		b.state.Inspected(now, inspection, holder, ticket)
	}
	b.dirty = true
}

// sleep waits for a change or for the state's wake time. The timer is kept over
// many changes, and replaced only by an earlier one: one that rings too early
// costs a look, one too many costs events.
func (b *budget) sleep(ctx workflow.Context) {
	if next := b.state.Next(); !next.IsZero() && (b.timer == nil || next.Before(b.timerAt)) {
		if b.cancel != nil {
			b.cancel()
		}
		var tctx workflow.Context
		tctx, b.cancel = workflow.WithCancel(ctx)
		wait := max(next.Sub(workflow.Now(ctx)), 10*time.Millisecond)
		b.timer, b.timerAt = workflow.NewTimer(tctx, wait), next
	}
	_ = workflow.Await(ctx, func() bool {
		return b.dirty || b.requests.Len() > 0 || b.reports.Len() > 0 || b.freezes.Len() > 0 || b.timer != nil && b.timer.IsReady()
	})
	if b.timer != nil && b.timer.IsReady() {
		b.timer, b.cancel = nil, nil
	}
}

// continueAsNew carries the state over. The signals are drained after the last
// yield, so that none is lost.
func (b *budget) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	b.drain(ctx)
	snapshot := b.state.Snapshot()
	return workflow.NewContinueAsNewError(ctx, contract.BudgetWorkflow, contract.BudgetInput{
		Name: b.in.Name, Policy: b.state.Policy(), Snapshot: &snapshot})
}
