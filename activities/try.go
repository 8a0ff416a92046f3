package activities

import (
	"context"
	"errors"
	"io"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// Attempt is what Temporal tells of one attempt.
type Attempt struct {
	Token     []byte
	Heartbeat time.Duration // the lease time; zero: the operation's
	Deadline  time.Time     // of the attempt
}

// Run is Effect without a Temporal activity around it: package conformance runs
// the protocol by it. stopping is closed when the worker takes nothing new.
func (e *Effects) Run(ctx context.Context, in contract.EffectInput, a Attempt, stopping <-chan struct{}) (contract.Outcome, error) {
	return e.attempt(in, a.Token, a.Heartbeat, a.Deadline).run(ctx, stopping)
}

// Try sends an effect outside of any task, once, as an attempt would. There is no
// checkpoint: it is for trying a provider out, with keys that no task has.
func Try(ctx context.Context, kind Type, in contract.EffectInput) (o contract.Outcome) {
	ctx, cancel := context.WithTimeout(ctx, in.Operation.Timeout.D())
	defer cancel()
	prepared, err := kind.Prepare(ctx, in)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return contract.Outcome{Class: refusal.Class, Reason: refusal.Reason, Detail: refusal.Detail}
	case err != nil:
		return contract.Outcome{Class: admission.NotDispatched, Reason: errPrepare.Error(), Detail: brief(err.Error())}
	}
	if c, ok := prepared.(io.Closer); ok {
		defer func() { _ = c.Close() }()
	}
	return prepared.Effect(ctx, &Guard{now: time.Now, sendBy: time.Now().Add(in.Operation.Timeout.D())})
}
