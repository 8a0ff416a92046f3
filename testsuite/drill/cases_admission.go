package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
)

// The limits of the world, as its configuration has them.
const (
	capacity = 4 // provider_calls
	soft     = 8
	hard     = 12
	reserve  = 2
)

// admissionCases fill limits.
func admissionCases() []Case {
	return []Case{
		{
			ID:    "A11",
			Title: "global budget filled: normal work is refused, critical work deferred and served",
			Play: func(ctx context.Context, s *Scene) error {
				if err := s.fill(ctx, s.Tenant, "first", capacity+soft); err != nil {
					return err
				}
				if err := s.fill(ctx, s.Tenant+"-second", "k", hard-soft); err != nil {
					return err
				}
				if err := s.refused(ctx, s.Tenant+"-third", "normal", admission.Normal, admission.QueueFull); err != nil {
					return err
				}
				if err := s.SubmitAs(ctx, s.Tenant+"-third", "critical", "charge_slow", admission.Critical); err != nil {
					return err
				}
				return s.serveAll(ctx)
			},
			Ends: []End{
				{Keys: keys("first", capacity+soft), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)},
				{Tenant: "second", Keys: keys("k", hard-soft), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)},
				{Tenant: "third", Keys: []string{"normal"}, Phase: contract.PhaseRejected, Reason: string(admission.QueueFull)},
				{Tenant: "third", Keys: []string{"critical"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)},
			},
		},
		{
			ID: "A12", Required: true,
			Title: "one tenant's budget filled: another tenant runs at once",
			Play:  oneTenantFull,
			Ends: []End{
				{Tenant: "full", Keys: keys("k", 3), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
				{Tenant: "full", Keys: []string{"over"}, Phase: contract.PhaseRejected, Reason: string(admission.TenantLimit)},
				{Tenant: "other", Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
			},
		},
		{
			ID: "A14", Required: true,
			Title: "tenant paused with tasks queued and running",
			Play:  pauseTenant,
			Ends: []End{
				{Keys: append([]string{"running"}, keys("queued", 4)...), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
				{Tenant: "other", Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
			},
		},
		{
			ID:    "A16",
			Title: "queue grown past the soft, then the hard limit",
			Play: func(ctx context.Context, s *Scene) error {
				light := s.Tenant + "-light"
				// Alone, a tenant may hold the whole queue up to the soft limit.
				if err := s.fill(ctx, s.Tenant, "heavy", capacity+soft); err != nil {
					return err
				}
				if err := s.refused(ctx, s.Tenant, "greedy", admission.Normal, admission.OverShare); err != nil {
					return err
				}
				if err := s.refused(ctx, light, "low", admission.Low, admission.OverShare); err != nil {
					return err
				}
				// Past it, those below their share still come in, up to the hard limit.
				if err := s.fill(ctx, light, "k", hard-soft); err != nil {
					return err
				}
				if err := s.refused(ctx, s.Tenant+"-late", "k", admission.Normal, admission.QueueFull); err != nil {
					return err
				}
				for _, key := range keys("critical", reserve) {
					if err := s.SubmitAs(ctx, s.Tenant, key, "charge_slow", admission.Critical); err != nil {
						return err
					}
				}
				if err := s.refused(ctx, s.Tenant, "excess", admission.Critical, admission.QueueFull); err != nil {
					return err
				}
				view, err := s.Door.Queue(ctx)
				if err != nil {
					return err
				}
				if view.Depth != hard+reserve {
					return fmt.Errorf("the queue must hold %d tasks, not %d", hard+reserve, view.Depth)
				}
				return s.serveAll(ctx)
			},
			Ends: []End{
				{Keys: keys("heavy", capacity+soft), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)},
				{Tenant: "light", Keys: keys("k", hard-soft), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)},
				{Keys: keys("critical", reserve), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)},
				{Keys: []string{"greedy"}, Phase: contract.PhaseRejected, Reason: string(admission.OverShare)},
				{Tenant: "light", Keys: []string{"low"}, Phase: contract.PhaseRejected, Reason: string(admission.OverShare)},
				{Tenant: "late", Keys: []string{"k"}, Phase: contract.PhaseRejected, Reason: string(admission.QueueFull)},
				{Keys: []string{"excess"}, Phase: contract.PhaseRejected, Reason: string(admission.QueueFull)},
			},
		},
	}
}

// fill submits n tasks. As long as capacity is free they go to the provider,
// which holds them.
func (s *Scene) fill(ctx context.Context, tenant, prefix string, n int) error {
	for _, key := range keys(prefix, n) {
		view, err := s.Door.Queue(ctx)
		if err != nil {
			return err
		}
		runs := view.InFlight < capacity
		if runs {
			err = s.FaultAs(ctx, tenant, key, provider.Fault{Kind: provider.HangBefore})
		}
		if err == nil {
			err = s.SubmitAs(ctx, tenant, key, "charge_slow", admission.Normal)
		}
		if err == nil && runs {
			err = s.Provider.WaitFor(ctx, witnessKey(tenant, key), provider.Counts{Requests: 1})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused submits a task that must be turned down, in a way that a client can
// act on.
func (s *Scene) refused(ctx context.Context, tenant, key string, priority admission.Priority, reason admission.Reason) error {
	answer, err := s.Ask(ctx, tenant, key, "charge_slow", priority)
	switch {
	case err != nil:
		return err
	case answer.Status != 429 || answer.Problem.Reason != string(reason):
		return fmt.Errorf("submit %s/%s: want 429 %s, got %d %s: %s", tenant, key, reason, answer.Status, answer.Problem.Reason, answer.Problem.Detail)
	case answer.RetryAfter == "" || answer.Problem.RetryAfter < 1 || answer.Problem.DeliveryState != contract.DeliveryRejected:
		return fmt.Errorf("submit %s/%s: the refusal must say REJECTED and when to come back: %+v", tenant, key, answer.Problem)
	}
	return nil
}

// serveAll lets the provider go on, and waits until every accepted task is served.
func (s *Scene) serveAll(ctx context.Context) error {
	if _, err := s.Provider.Release(ctx, "*"); err != nil {
		return err
	}
	for _, t := range s.traces() {
		if !t.accepted {
			continue
		}
		if err := s.UntilAs(ctx, t.tenant, t.key, contract.PhaseSucceeded); err != nil {
			return err
		}
	}
	return nil
}

// oneTenantFull holds the only effect that the tenant may have in flight, fills
// the tenant's queue, and lets another tenant through.
func oneTenantFull(ctx context.Context, s *Scene) error {
	full, other := s.Tenant+"-full", s.Tenant+"-other"
	if err := s.FaultAs(ctx, full, "k1", provider.Fault{Kind: provider.HangBefore}); err != nil {
		return err
	}
	for _, key := range keys("k", 3) {
		if err := s.SubmitAs(ctx, full, key, "charge_slow", admission.Normal); err != nil {
			return err
		}
	}
	if err := s.Provider.WaitFor(ctx, witnessKey(full, "k1"), provider.Counts{Requests: 1}); err != nil {
		return err
	}
	if err := s.refused(ctx, full, "over", admission.Normal, admission.TenantLimit); err != nil {
		return err
	}
	if err := s.SubmitAs(ctx, other, "k", "charge", admission.Normal); err != nil {
		return err
	}
	if err := s.UntilAs(ctx, other, "k", contract.PhaseSucceeded); err != nil {
		return err
	}
	if counts, err := s.Provider.Effects(ctx, witnessKey(full, "k1")); err != nil {
		return err
	} else if counts.Finished != 0 {
		return errors.New("the other tenant must have run while the full one was held")
	}
	return s.serveAll(ctx)
}

// pauseTenant pauses a tenant that has one task running and three queued.
func pauseTenant(ctx context.Context, s *Scene) error {
	other := s.Tenant + "-other"
	if err := s.Fault(ctx, "running", provider.Fault{Kind: provider.HangBefore}); err != nil {
		return err
	}
	if err := s.Submit(ctx, "running", "charge_slow"); err != nil {
		return err
	}
	if err := s.Seen(ctx, "running", provider.Counts{Requests: 1}); err != nil {
		return err
	}
	for _, key := range keys("queued", 3) {
		if err := s.Submit(ctx, key, "charge_slow"); err != nil {
			return err
		}
	}
	if err := s.Door.Pause(ctx, s.Tenant, "drill"); err != nil {
		return err
	}
	// What runs goes on to its end; what comes now is taken and held.
	if err := s.Submit(ctx, "queued4", "charge_slow"); err != nil {
		return err
	}
	if err := s.Release(ctx, s.Tenant, "running"); err != nil {
		return err
	}
	if err := s.Until(ctx, "running", contract.PhaseSucceeded); err != nil {
		return err
	}
	err := until(ctx, "the tenant's capacity is free and its tasks wait for the pause", func(ctx context.Context) (bool, error) {
		view, err := s.Door.Queue(ctx)
		i := slices.IndexFunc(view.Tenants, func(t admission.TenantView) bool { return t.Name == s.Tenant })
		return err == nil && i >= 0 && view.Tenants[i].InFlight == 0 && view.Tenants[i].Queued == 4 &&
			view.Tenants[i].WaitingOn == admission.TenantPaused, err
	})
	if err != nil {
		return err
	}
	// Another tenant is served meanwhile, so the budget does grant leases.
	if err := s.SubmitAs(ctx, other, "k", "charge", admission.Normal); err != nil {
		return err
	}
	if err := s.UntilAs(ctx, other, "k", contract.PhaseSucceeded); err != nil {
		return err
	}
	for _, key := range keys("queued", 4) {
		if counts, err := s.Provider.Effects(ctx, witnessKey(s.Tenant, key)); err != nil {
			return err
		} else if counts.Requests != 0 {
			return fmt.Errorf("%s left while its tenant was paused", key)
		}
	}
	if err := s.Door.Resume(ctx, s.Tenant); err != nil {
		return err
	}
	if err := s.serveAll(ctx); err != nil {
		return err
	}
	return s.inOrder(ctx, keys("queued", 4))
}

// inOrder checks that the provider saw the tasks' first requests in this order.
func (s *Scene) inOrder(ctx context.Context, order []string) error {
	entries, err := s.Provider.Ledger(ctx, "*")
	if err != nil {
		return err
	}
	var seen []string
	for _, e := range entries {
		for _, key := range order {
			if e.Event == provider.EventRequest && e.Key == witnessKey(s.Tenant, key) && !slices.Contains(seen, key) {
				seen = append(seen, key)
			}
		}
	}
	if !slices.Equal(seen, order) {
		return fmt.Errorf("served in the order %v, not %v", seen, order)
	}
	return nil
}
