package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
)

// providerCases are about a third party that refuses, is down, or tells an
// untruth, while every process of ours lives.
func providerCases() []Case {
	return []Case{
		{
			ID: "A13", Variant: "ends", Title: "the provider answers 429, with a Retry-After and without, then is well: one hold for everybody",
			Play: func(ctx context.Context, s *Scene) error {
				return rateLimited(ctx, s, keys("k", 2), 1, contract.PhaseSucceeded)
			},
			Ends: []End{{Keys: keys("k", 2), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(2), Attempts: exactly(2), Retries: []string{"rate_limited"}}},
		},
		{
			ID: "A13", Variant: "stays", Title: "the provider answers one task 429 for good: bounded retries, a reason for each, and the hold ends",
			Play: func(ctx context.Context, s *Scene) error {
				if err := rateLimited(ctx, s, keys("k", 1), -1, contract.PhaseFailed); err != nil {
					return err
				}
				if err := s.SubmitAs(ctx, s.Tenant, "after", "charge_limited", admission.Critical); err != nil {
					return err
				}
				return s.Until(ctx, "after", contract.PhaseSucceeded)
			},
			Ends: []End{
				{Keys: keys("k", 1), Phase: contract.PhaseFailed, Reason: "rate_limited", Requests: exactly(4), Attempts: exactly(4), Retries: []string{"rate_limited"}},
				{Keys: []string{"after"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
			},
		},
		{
			ID: "A18", Title: "downstream recovers while stale work is queued: it expires unsent, the rest is served",
			Play: recovers,
			Ends: []End{
				{Keys: []string{"stale"}, Phase: contract.PhaseExpired},
				{Keys: append([]string{"first"}, keys("fresh", 2)...), Phase: contract.PhaseSucceeded, Effects: 1},
			},
		},
		{
			ID: "F3", Variant: "one read", Title: "a look-up that once finds nothing, of an effect that was made: no proof",
			Play: func(ctx context.Context, s *Scene) error {
				miss := provider.Fault{On: provider.OnLookup, Kind: provider.Status, Status: 404}
				if err := s.Fault(ctx, "k", miss); err != nil {
					return err
				}
				return killInFlight(ctx, s, "k", "charge_lookup", provider.Hang, contract.PhaseSucceeded)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceLookup}},
		},
		{
			ID: "F2", Variant: "slow", Title: "a call that takes many lease times while its worker beats is never taken over",
			Play: func(ctx context.Context, s *Scene) error {
				if _, err := s.Dispatch(ctx, "k", "charge_slow", provider.HangBefore); err != nil {
					return err
				}
				if err := passes(ctx, 4*lease); err != nil {
					return err
				}
				if err := s.stands(ctx, s.Tenant, map[string]contract.Phase{"k": contract.PhaseDispatched}); err != nil {
					return err
				}
				if seen, err := s.look(ctx, s.trace(s.Tenant, "k")); err != nil || seen.Worker == "" {
					return errors.Join(errors.New("who holds the task must be shown"), err)
				}
				if err := s.Release(ctx, s.Tenant, "k"); err != nil {
					return err
				}
				return s.Until(ctx, "k", contract.PhaseSucceeded)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)}},
		},
	}
}

// lease is the heartbeat timeout of the drill's operations.
const lease = 2 * time.Second

// passes waits for a time after which something must not have happened.
func passes(ctx context.Context, d time.Duration) error {
	began := time.Now()
	return until(ctx, d.String()+" have passed", func(context.Context) (bool, error) { return time.Since(began) >= d, nil })
}

// rateLimited lets the provider refuse each task so many times, one of them with
// a time to come back, the other without.
func rateLimited(ctx context.Context, s *Scene, tasks []string, times int, end contract.Phase) error {
	for i, key := range tasks {
		f := provider.Fault{Kind: provider.Status, Status: 429, Times: times}
		if i == 0 {
			f.RetryAfter = "1"
		}
		if err := s.Fault(ctx, key, f); err != nil {
			return err
		}
	}
	for _, key := range tasks {
		if err := s.Submit(ctx, key, "charge_limited"); err != nil {
			return err
		}
	}
	for _, key := range tasks {
		if err := s.Until(ctx, key, end); err != nil {
			return err
		}
	}
	return s.held(ctx, tasks[0])
}

// held checks in the provider's own ledger that nobody called in the second that
// the provider asked for after its first refusal of a task.
func (s *Scene) held(ctx context.Context, key string) error {
	entries, err := s.Provider.Ledger(ctx, "*")
	if err != nil {
		return err
	}
	var from time.Time
	for _, e := range entries {
		switch {
		case from.IsZero() && e.Event == provider.EventFinish && e.Status == 429 && e.Key == witnessKey(s.Tenant, key):
			from = e.Time
		case !from.IsZero() && e.Event == provider.EventRequest && e.Key == witnessKey(s.Tenant, key):
			if gap := e.Time.Sub(from); gap < 900*time.Millisecond {
				return fmt.Errorf("%s was sent again %s after the provider asked for one second", key, gap)
			}
			return nil
		}
	}
	return nil
}

// recovers lets the provider be down until what is queued behind the first tasks
// has become useless. All of it is taken while the tenant is paused, so that no
// chance decides what is in before the breaker opens.
func recovers(ctx context.Context, s *Scene) error {
	if err := s.Door.Pause(ctx, s.Tenant, "drill"); err != nil {
		return err
	}
	served := append([]string{"first"}, keys("fresh", 2)...)
	for _, key := range served {
		if err := s.Fault(ctx, key, provider.Fault{Kind: provider.Status, Status: 503, Times: -1}); err != nil {
			return err
		}
		if err := s.SubmitAs(ctx, s.Tenant, key, "charge_fragile", admission.Critical); err != nil {
			return err
		}
	}
	if err := s.SubmitBy(ctx, "stale", "charge_fragile", time.Now().Add(8*time.Second)); err != nil {
		return err
	}
	if err := s.Door.Resume(ctx, s.Tenant); err != nil {
		return err
	}
	if err := s.Seen(ctx, "first", provider.Counts{Requests: 1}); err != nil {
		return err
	}
	if err := s.Until(ctx, "stale", contract.PhaseExpired); err != nil {
		return err
	}
	if counts, err := s.Provider.Effects(ctx, witnessKey(s.Tenant, "stale")); err != nil || counts.Requests > 0 {
		return fmt.Errorf("stale has expired, and was sent %d times (%w)", counts.Requests, err)
	}
	if _, err := s.Provider.ClearFaults(ctx); err != nil {
		return err
	}
	for _, key := range served {
		if err := s.Until(ctx, key, contract.PhaseSucceeded); err != nil {
			return err
		}
	}
	return nil
}
