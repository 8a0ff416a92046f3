package activities

import (
	"context"
	"errors"
	"io"
	"time"

	"headgate/admission"
	"headgate/contract"
)

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
