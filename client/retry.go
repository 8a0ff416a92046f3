package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"headgate/contract"
)

// Retry says how a request that may be sent again is. The zero value tries until
// the context ends.
type Retry struct {
	Tries int           // all together; zero: no bound
	Base  time.Duration // of the first wait where the gateway names none; it doubles; zero: 500 ms
	Max   time.Duration // of a wait of ours; zero: 30 s. What the gateway asks for is not cut.
	// Pause waits, or gives the error of its context; nil: it really does.
	Pause func(ctx context.Context, d time.Duration) error
}

// repeat tries until there is an answer that stays. A refusal says by its
// next_action whether coming back helps, and by Retry-After when; after silence
// the same request finds out what became of the one before.
func (r Retry) repeat(ctx context.Context, try func() error) error {
	if r.Pause == nil {
		r.Pause = pause
	}
	if r.Base <= 0 {
		r.Base = 500 * time.Millisecond
	}
	if r.Max <= 0 {
		r.Max = 30 * time.Second
	}
	for n, wait := 1, r.Base; ; n, wait = n+1, min(2*wait, r.Max) {
		err := try()
		least, again := later(err)
		if !again || ctx.Err() != nil || n == r.Tries {
			return err
		}
		// Spread, so that those who were refused together do not come back together.
		d := wait/2 + rand.N(wait/2+1)
		if least > 0 {
			d = least + rand.N(least/5+1)
		}
		if gone := r.Pause(ctx, d); gone != nil {
			return fmt.Errorf("gave up after %d tries (%w); the last one: %w", n, gone, err)
		}
	}
}

// later tells whether coming back may help, and after how long at least.
func later(err error) (least time.Duration, again bool) {
	var refusal *Refusal
	var silence *Unreachable
	switch {
	case errors.As(err, &refusal):
		return time.Duration(refusal.RetryAfter) * time.Second, refusal.NextAction == contract.NextRetryLater
	case errors.As(err, &silence):
		return 0, true
	}
	return 0, false
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
