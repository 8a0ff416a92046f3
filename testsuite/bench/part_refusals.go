package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
)

const (
	flooders = 64 // callers that do not take no for an answer
	fullAt   = 20 // tasks that may wait
)

// refusals floods a budget whose queue is full.
func refusals(ctx context.Context, b *bench) error {
	if err := b.open(ctx, "main"); err != nil {
		return err
	}
	w := b.worlds["main"]
	leave, err := b.fullBudget(ctx, w)
	if err != nil {
		return err
	}
	var rates, events [][2]float64
	for i := range b.Pairs {
		alive, err := w.hammer(ctx, b.refuse, func(ctx context.Context, _ int64) error { return w.get(ctx, "/healthz", nil) })
		if err != nil {
			return err
		}
		silent, err := w.quietly(ctx, b.refuse)
		if err != nil {
			return err
		}
		place, err := w.mark(ctx)
		if err != nil {
			return err
		}
		phase := b.phase()
		refused, err := w.hammer(ctx, b.refuse, func(ctx context.Context, n int64) error {
			return w.beRefused(ctx, fmt.Sprintf("%s-%d", phase, n))
		})
		if err != nil {
			return err
		}
		written, err := w.since(ctx, place)
		if err != nil {
			return err
		}
		rates = append(rates, [2]float64{refused, alive})
		events = append(events, [2]float64{float64(written), float64(silent)})
		b.say("pair %d/%d  %s refusals/s, %s GET /healthz/s, %d events of the budget", i+1, b.Pairs, number(refused), number(alive), written)
	}
	b.report.add("refusals_per_s", median(over(rates, first)), rates, nil)
	b.report.add("refusal_events", max(0, median(over(events, difference))), events, nil)
	return leave(ctx)
}

// fullBudget lowers the hard limit, takes the one slot and fills the queue. leave
// lets everything run and puts the limit back.
func (b *bench) fullBudget(ctx context.Context, w *world) (leave func(ctx context.Context) error, err error) {
	policy := w.policy
	policy.Queue.Hard, policy.Queue.Soft = fullAt, fullAt
	if err := w.configure(ctx, contract.ConfigureRequest{Policy: policy, Actor: "bench"}); err != nil {
		return nil, err
	}
	if err := w.clean(ctx); err != nil {
		return nil, err
	}
	s, phase := headgate{w}, b.phase()
	hold := order{tenant: "holder", key: phase, lane: holdOne}
	if _, err := w.provider.Inject(ctx, provider.Fault{Key: s.witness(hold), Kind: provider.HangBefore}); err != nil {
		return nil, err
	}
	held, err := s.start(ctx, hold)
	if err != nil {
		return nil, err
	}
	if err := w.provider.WaitFor(ctx, "*", provider.Counts{Requests: 1}); err != nil {
		return nil, err
	}
	var orders []order
	for i := range fullAt {
		orders = append(orders, order{tenant: "patient", key: fmt.Sprintf("%s-%d", phase, i), lane: one})
	}
	wait, err := fill(ctx, s, orders)
	if err != nil {
		return nil, err
	}
	if err := w.settle(ctx, s, orders); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if _, err := w.provider.Release(ctx, s.witness(hold)); err != nil {
			return err
		}
		if err := errors.Join(held(ctx), wait(ctx), w.counted(ctx, 1+fullAt)); err != nil {
			return err
		}
		return w.configure(ctx, contract.ConfigureRequest{Policy: w.policy, Actor: "bench"})
	}, nil
}

// beRefused asks for a task that must be refused because the queue is full.
func (w *world) beRefused(ctx context.Context, key string) error {
	answer, err := w.door.Submit(ctx, key, contract.SubmitRequest{Tenant: "flood", Operation: string(one), Payload: payload("flood", key)})
	if err == nil && (answer.Status != http.StatusTooManyRequests || answer.Problem.Reason != string(admission.QueueFull)) {
		err = fmt.Errorf("want 429 queue_full, have %d %s: %s", answer.Status, answer.Problem.Reason, answer.Problem.Detail)
	}
	return err
}

// hammer calls do from many callers for a time, and tells how many calls a second
// came back.
func (w *world) hammer(ctx context.Context, span time.Duration, do func(ctx context.Context, n int64) error) (float64, error) {
	var calls atomic.Int64
	began := time.Now()
	err := each(ctx, flooders, flooders, func(ctx context.Context, _ int) error {
		for time.Since(began) < span && ctx.Err() == nil {
			if err := do(ctx, calls.Add(1)); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(calls.Load()) / time.Since(began).Seconds(), err
}

// quietly counts the budget's events while nobody asks for anything.
func (w *world) quietly(ctx context.Context, span time.Duration) (int64, error) {
	place, err := w.mark(ctx)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return w.since(ctx, place)
}
