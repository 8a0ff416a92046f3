package drill

import (
	"context"
	"errors"
	"fmt"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// Held is a call that one of the workers makes, whichever it is.
type Held struct {
	rule    proxy.Rule
	workers []*Process
	points  []*proxy.Point
}

// HoldOnWorkers holds the first call that rule names, of whichever worker.
func (s *Scene) HoldOnWorkers(rule proxy.Rule) *Held {
	h := &Held{rule: rule, workers: s.Workers}
	for _, w := range s.Workers {
		h.points = append(h.points, s.place(w, rule))
	}
	return h
}

// HoldBeat holds a task's heartbeat with one step.
func (s *Scene) HoldBeat(when proxy.When, key string, step admission.Step) *Held {
	return s.HoldOnWorkers(proxy.Beat(when, s.Tenant, key, step))
}

// Reached waits until a worker's call is held, and disarms the points of the
// others.
func (h *Held) Reached(ctx context.Context) (*Process, *proxy.Point, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := make(chan int, len(h.points))
	for i, point := range h.points {
		go func() {
			if point.Reached(ctx) == nil {
				first <- i
			}
		}()
	}
	select {
	case i := <-first:
		for j, point := range h.points {
			if j != i {
				point.Release()
			}
		}
		return h.workers[i], h.points[i], nil
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("no worker's %s was held %s the server: %w", h.rule.Method, h.rule.When, context.Cause(ctx))
	}
}

// Catch submits a task and calls do as soon as the call is held. A worker gives up
// on a beat after a third of its lease time, so nothing may come in between, not
// even the gateway's answer.
func (h *Held) Catch(ctx context.Context, submit func(ctx context.Context) error, do func(worker *Process, point *proxy.Point) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	submitted := make(chan error, 1)
	go func() {
		err := submit(ctx)
		if err != nil {
			cancel(err)
		}
		submitted <- err
	}()
	worker, point, err := h.Reached(ctx)
	if err != nil {
		return err
	}
	if err := do(worker, point); err != nil {
		return err
	}
	return <-submitted
}

// Unsent checks that a task's effect has not left, so that a crash point before
// that was met in time.
func (s *Scene) Unsent(ctx context.Context, key string) error {
	counts, err := s.Provider.Effects(ctx, witnessKey(s.Tenant, key))
	if err == nil && counts.Requests != 0 {
		err = errors.New("the effect has left already: the crash point was missed")
	}
	return err
}

// Dispatch submits a task whose effect meets a fault at the provider, and waits
// until the provider has the request, and the effect if the fault makes it. It
// answers with the worker that waits for the provider's answer: the checkpoint
// is durable, the request has left, and nobody has seen an answer.
func (s *Scene) Dispatch(ctx context.Context, key, operation string, kind provider.Kind) (*Process, error) {
	if err := s.Fault(ctx, key, provider.Fault{Kind: kind}); err != nil {
		return nil, err
	}
	var worker *Process
	err := s.HoldBeat(proxy.After, key, admission.StepDispatching).Catch(ctx,
		func(ctx context.Context) error { return s.Submit(ctx, key, operation) },
		func(w *Process, point *proxy.Point) error {
			worker = w
			point.Release()
			return nil
		})
	if err != nil {
		return nil, err
	}
	want := provider.Counts{Requests: 1}
	if kind == provider.Hang {
		want.Effects = 1
	}
	if err := s.Seen(ctx, key, want); err != nil {
		return nil, err
	}
	counts, err := s.Provider.Effects(ctx, witnessKey(s.Tenant, key))
	if err == nil && counts.Finished != 0 {
		err = errors.New("the provider has answered already: the crash point was missed")
	}
	return worker, err
}

// Drained proves that a worker has nothing left of what it ran before: with the
// other workers dead, it must hold a new task in each of its slots at once.
func (s *Scene) Drained(ctx context.Context, worker *Process) error {
	for _, other := range s.Workers {
		if other != worker {
			other.Kill()
		}
	}
	proofs := keys("proof", slots)
	for _, key := range proofs {
		if err := s.Fault(ctx, key, provider.Fault{Kind: provider.HangBefore}); err != nil {
			return err
		}
		if err := s.Submit(ctx, key, "charge_slow"); err != nil {
			return err
		}
	}
	for _, key := range proofs {
		if err := s.Seen(ctx, key, provider.Counts{Requests: 1}); err != nil {
			return fmt.Errorf("%s has a slot that does not come free: %w", worker.Name, err)
		}
	}
	for _, key := range proofs {
		if err := s.Release(ctx, s.Tenant, key); err != nil {
			return err
		}
		if err := s.Until(ctx, key, contract.PhaseSucceeded); err != nil {
			return err
		}
	}
	return nil
}
