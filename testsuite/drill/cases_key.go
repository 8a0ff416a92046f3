package drill

import (
	"context"
	"fmt"
	"sync"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// keyCases are about what one request key means.
func keyCases() []Case {
	return []Case{{
		ID: "A17", Required: true,
		Title: "one key, same and other payload: at once, later, after the end, after a restart",
		Play:  oneKey,
		Ends: []End{
			{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
			{Keys: []string{"race"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
		},
	}}
}

func oneKey(ctx context.Context, s *Scene) error {
	// 1. While the first one runs.
	if err := s.Fault(ctx, "k", provider.Fault{Kind: provider.HangBefore}); err != nil {
		return err
	}
	if err := s.Submit(ctx, "k", "charge_slow"); err != nil {
		return err
	}
	if err := s.Seen(ctx, "k", provider.Counts{Requests: 1}); err != nil {
		return err
	}
	if err := s.repeats(ctx, "k"); err != nil {
		return fmt.Errorf("while it runs: %w", err)
	}
	if err := s.Release(ctx, s.Tenant, "k"); err != nil {
		return err
	}
	// 2. After its end.
	if err := s.Until(ctx, "k", contract.PhaseSucceeded); err != nil {
		return err
	}
	if err := s.repeats(ctx, "k"); err != nil {
		return fmt.Errorf("after its end: %w", err)
	}
	// 3. After everything was killed and started again.
	killAll(s.Gateway, s.Control, s.Server)
	if err := startAll(ctx, s.Server, s.Control, s.Gateway); err != nil {
		return err
	}
	if err := s.repeats(ctx, "k"); err != nil {
		return fmt.Errorf("after a restart: %w", err)
	}
	// 4. Two payloads at the same instant: one wins, everybody else is told.
	return s.race(ctx, "race")
}

// charge submits a payload that differs from others by its amount alone.
func (s *Scene) charge(ctx context.Context, key string, amount int) (Answer, error) {
	return s.Door.Submit(ctx, key, contract.SubmitRequest{Tenant: s.Tenant, Operation: "charge_slow", Payload: payload(s.Tenant, key, amount)})
}

// repeats sends the request of a known task again, and another one under its key.
func (s *Scene) repeats(ctx context.Context, key string) error {
	before, err := s.Door.Task(ctx, s.Tenant, key)
	if err != nil {
		return err
	}
	again, err := s.charge(ctx, key, amount)
	switch {
	case err != nil:
		return err
	case again.Status/100 != 2 || again.Task.Task != before.Task.Task || again.Task.PayloadHash != before.Task.PayloadHash:
		return fmt.Errorf("the same request again: want the state of %s, got %d %s", before.Task.Task, again.Status, again.Problem.Detail)
	}
	other, err := s.charge(ctx, key, amount+1)
	switch {
	case err != nil:
		return err
	case other.Status != 422 || other.Problem.DeliveryState != contract.DeliveryRejected:
		return fmt.Errorf("another payload under the key: want 422, got %d %s", other.Status, other.Problem.Detail)
	}
	after, err := s.Door.Task(ctx, s.Tenant, key)
	if err == nil && after.Task.PayloadHash != before.Task.PayloadHash {
		err = fmt.Errorf("the refused request has changed the task's payload")
	}
	return err
}

// race sends two payloads under one new key, several times each, at once.
func (s *Scene) race(ctx context.Context, key string) error {
	const each = 4
	answers, errs := make([]Answer, 2*each), make([]error, 2*each)
	var barrier, all sync.WaitGroup
	barrier.Add(1)
	for i := range answers {
		all.Go(func() {
			barrier.Wait()
			answers[i], errs[i] = s.charge(ctx, key, 100+i%2)
		})
	}
	barrier.Done()
	all.Wait()
	hash, accepted, refused := "", 0, 0
	for i, answer := range answers {
		switch {
		case errs[i] != nil:
			return errs[i]
		case answer.Status == 422:
			refused++
		case answer.Status/100 != 2:
			return fmt.Errorf("racing requests: want 2xx or 422, got %d %s: %s", answer.Status, answer.Problem.Reason, answer.Problem.Detail)
		case hash != "" && hash != answer.Task.PayloadHash:
			return fmt.Errorf("racing requests: two payloads were accepted under one key")
		default:
			hash = answer.Task.PayloadHash
			accepted++
		}
	}
	if accepted != each || refused != each {
		return fmt.Errorf("racing requests: %d accepted and %d refused, want %d of each", accepted, refused, each)
	}
	s.accept(s.trace(s.Tenant, key))
	return s.Until(ctx, key, contract.PhaseSucceeded)
}
