package workflows

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

func validateFreeze(_ workflow.Context, in contract.FreezeRequest) error {
	if err := contract.CheckName("operation", in.Operation); err != nil {
		return temporal.NewNonRetryableApplicationError(err.Error(), contract.InvalidError, nil)
	}
	if in.Actor == "" {
		return temporal.NewNonRetryableApplicationError("the actor is empty", contract.InvalidError, nil)
	}
	return nil
}

// freeze is in force when it is applied; its answer waits a little until those
// that hold a lease have been asked to stop, so that it can say that nothing is
// dispatched any more.
func (b *budget) freeze(ctx workflow.Context, in contract.FreezeRequest) (contract.FreezeReply, error) {
	b.applyFreeze(workflow.Now(ctx), in)
	if b.state.Stopping(in.Operation) > 0 {
		b.freezing++
		_, _ = workflow.AwaitWithTimeout(ctx, freezeAnswer, func() bool { return b.state.Stopping(in.Operation) == 0 })
		b.freezing--
		b.dirty = true // the loop may have put off a new run
	}
	return contract.FreezeReply{Operation: in.Operation, Freeze: b.state.Frozen(in.Operation), Stopping: b.state.Stopping(in.Operation)}, nil
}

func (b *budget) applyFreeze(now time.Time, in contract.FreezeRequest) {
	var f *admission.Freeze
	if in.Frozen {
		f = &admission.Freeze{Reason: in.Reason, Actor: in.Actor}
	}
	b.state.Freeze(now, in.Operation, f)
	b.dirty = true
}

// drainFreezes takes what findings ask for. Only a person ends a freeze.
func (b *budget) drainFreezes(now time.Time) {
	for {
		var in contract.FreezeRequest
		if !b.freezes.ReceiveAsync(&in) {
			return
		}
		if in.Frozen && contract.CheckName("operation", in.Operation) == nil {
			b.applyFreeze(now, in)
		}
	}
}

// stop asks holders of leases not to dispatch. What a batch does not answer is
// asked again: the state makes sure.
func (b *budget) stop(ctx workflow.Context, stops []admission.Stop) {
	in := contract.Stops{}
	for _, s := range stops {
		in.Items = append(in.Items, contract.Stop{Task: s.Task, Attempt: s.Attempt, Lease: s.Lease, Operation: s.Operation, Reason: s.Reason})
	}
	ctx = workflow.WithActivityOptions(ctx, batchOptions("stop "+strconv.Itoa(len(stops))+" attempts"))
	var reply contract.DeliverReply
	err := workflow.ExecuteActivity(ctx, contract.StopActivity, in).Get(ctx, &reply)
	now := workflow.Now(ctx)
	for i, how := range delivered(len(stops), reply, err) {
		b.state.Stopped(now, stops[i], how)
	}
	b.dirty = true
}
