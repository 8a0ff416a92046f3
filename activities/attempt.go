package activities

import (
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"headgate/admission"
	"headgate/contract"
)

// respondFor bounds how long an attempt tries to hand over an answer while the
// server does not say whether it still wants it.
const respondFor = time.Minute

// prepare lets the type prepare while the claim is repeated. It has until the
// last moment at which the effect could still end in time.
func (a *attempt) prepare(ctx context.Context, giveUp context.CancelCauseFunc) (p Prepared, err error) {
	ctx, cancel := context.WithDeadlineCause(ctx, a.deadline.Add(-a.in.Operation.Timeout.D()), errNoTime)
	defer cancel()
	defer a.pulse.keep(ctx, func(_ answer, why error) { giveUp(why) })()
	defer func() {
		if v := recover(); v != nil {
			a.panicked(v)
			p, err = nil, errPanic
		} else if ctx.Err() != nil {
			// The type's own word is better than "no time", not than the others.
			var refusal *Refusal
			if why := whyDone(ctx); !errors.Is(why, errNoTime) || !errors.As(err, &refusal) {
				err = why
			}
		}
	}()
	return a.kind.Prepare(ctx, a.in)
}

// standBy waits for the place of the lease ahead, while the claim is repeated.
func (a *attempt) standBy(ctx context.Context, giveUp context.CancelCauseFunc) error {
	if a.in.After == "" {
		return nil
	}
	if a.in.Deadline != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, *a.in.Deadline, errDeadline)
		defer cancel()
	}
	defer a.pulse.keep(ctx, func(_ answer, why error) { giveUp(why) })()
	return a.places.stand(ctx, a.in.After, a.in.Lease, a.in.Operation)
}

// pass hands the place on after a success. Whatever else was seen is for the
// budget to judge first. An attempt that has lost its claim hands on nothing: the
// budget may have given its place away.
func (a *attempt) pass(o *contract.Outcome, guard *Guard) {
	succeeded := o.Class == admission.Succeeded && guard.Refusal() == nil
	if !succeeded {
		a.places.close(a.in.Operation, o.RetryAfter.D())
	}
	successor, waited := a.places.end(a.in.Lease, succeeded && a.pulse.alive())
	o.Successor, o.Waited = successor, contract.Duration(waited)
}

// perform makes the effect. A panic proves nothing about what has left.
func (a *attempt) perform(ctx context.Context, p Prepared, guard *Guard) (o contract.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = contract.Outcome{Class: admission.Unknown, Reason: errPanic.Error(), Detail: a.panicked(v)}
		}
		if o.Class == "" {
			o.Class, o.Reason = admission.Unknown, "no_outcome"
		}
		a.stamp(&o)
	}()
	return p.Effect(ctx, guard)
}

// panicked logs where, not what: a panic's text may hold the payload. Errors of
// the runtime do not.
func (a *attempt) panicked(v any) (detail string) {
	if err, ok := v.(runtime.Error); ok {
		detail = err.Error()
	}
	a.log.Error("effect type panicked", zap.String("type", a.in.Operation.Type),
		zap.String("panic", detail), zap.ByteString("stack", debug.Stack()))
	return detail
}

func (a *attempt) close(p Prepared) {
	c, ok := p.(io.Closer)
	if !ok {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			a.panicked(v)
		}
	}()
	if err := c.Close(); err != nil {
		a.log.Warn("prepared effect not closed", zap.Error(err))
	}
}

// respond puts the outcome into the last beat and returns it. A server that does
// not answer may still hold the claim or not, and the answer goes another way
// if not, so it is asked for a while.
func (a *attempt) respond(ctx context.Context, o contract.Outcome) (contract.Outcome, error) {
	a.log.Info("effect ended", zap.String("class", string(o.Class)), zap.String("reason", o.Reason), zap.Int("status", o.Status))
	end := a.now().Add(respondFor)
	released := a.release(ctx, o)
	for {
		said, _ := a.pulse.advance(ctx, func(b *contract.Beat, _ time.Time) {
			b.Step, b.Outcome = admission.StepResponded, &o
		})
		switch said {
		case acknowledged, stopAsked:
			o.Released = <-released
			return o, nil
		case claimLost:
			a.late(ctx, o)
			return contract.Outcome{}, fenced()
		}
		if past(a.now(), end) || !pause(ctx, a.pulse.every()) {
			o.Released = <-released
			return o, nil
		}
	}
}

// releaseFor bounds the worker's own report. What does not get through in that
// time is left to the task.
const releaseFor = 2 * time.Second

// release gives the lease back while the answer is kept: the effect is over, so
// the next task need not wait for this one's workflow. It tells whether the
// budget's history holds the report. An attempt whose claim is lost reports too:
// the budget knows its lease by task and attempt, and takes it back once.
func (a *attempt) release(ctx context.Context, o contract.Outcome) <-chan bool {
	done := make(chan bool, 1)
	if a.in.Budget == "" {
		done <- false
		return done
	}
	report := o.Report(a.in.Tenant, a.in.Key, a.in.Attempt)
	report.Doubt = a.in.Operation.Doubts && o.Class == admission.Unknown
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseFor)
		defer cancel()
		done <- a.reports.join(ctx, a.in.Budget, report) == nil
	}()
	return done
}

// undone is the outcome of an attempt that dispatched nothing.
func (a *attempt) undone(why error) contract.Outcome {
	o := contract.Outcome{Class: admission.NotDispatched}
	var refusal *Refusal
	switch {
	case errors.As(why, &refusal):
		o.Class, o.Reason, o.Detail = refusal.Class, refusal.Reason, refusal.Detail
	case errors.Is(why, errHash), errors.Is(why, errOperation):
		o.Class, o.Reason = admission.Failed, why.Error()
	case known(why):
		o.Reason = why.Error()
	default:
		o.Reason, o.Detail = errPrepare.Error(), brief(why.Error())
	}
	a.log.Info("effect not dispatched", zap.String("class", string(o.Class)), zap.String("reason", o.Reason))
	a.stamp(&o)
	o.Dispatching, o.SendBy = time.Time{}, time.Time{}
	return o
}

func (a *attempt) stamp(o *contract.Outcome) {
	b := a.pulse.last()
	o.Worker, o.Build = a.Worker, a.Build
	o.Claimed, o.Dispatching, o.SendBy = b.Claimed, b.Dispatching, b.SendBy
	o.Ended = a.now()
}

// pause waits, and tells whether it did to the end.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// brief bounds a text that goes into histories.
func brief(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
