package drill

import (
	"context"
	"fmt"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// ControlCases ask nothing but what matters in the end: the task succeeds and
// its effect was made once. They know nothing of beats, attempts and evidence,
// so that they can be played against a worker of any design.
func ControlCases() []Case {
	once := []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1}}
	lost := func(kind provider.Kind, made provider.Counts, end contract.Phase, operation string) func(ctx context.Context, s *Scene) error {
		return func(ctx context.Context, s *Scene) error {
			if err := s.Fault(ctx, "k", provider.Fault{Kind: kind}); err != nil {
				return err
			}
			if err := s.Submit(ctx, "k", operation); err != nil {
				return err
			}
			if err := s.reached(ctx, "k", made); err != nil {
				return err
			}
			killAll(s.Workers...)
			if err := startAll(ctx, s.Workers...); err != nil {
				return err
			}
			return s.Until(ctx, "k", end)
		}
	}
	return []Case{
		{ID: "C1", Title: "control: workers killed when the effect was made", Ends: once,
			Play: lost(provider.Hang, provider.Counts{Effects: 1}, contract.PhaseSucceeded, "charge_keyed")},
		{ID: "C2", Title: "control: workers killed before the effect was made", Ends: once,
			Play: lost(provider.HangBefore, provider.Counts{Requests: 1}, contract.PhaseSucceeded, "charge_keyed")},
		{ID: "C3", Title: "control: the answer is lost on its way", Ends: once,
			Play: func(ctx context.Context, s *Scene) error {
				if err := s.Fault(ctx, "k", provider.Fault{Kind: provider.After}); err != nil {
					return err
				}
				if err := s.Submit(ctx, "k", "charge_keyed"); err != nil {
					return err
				}
				return s.Until(ctx, "k", contract.PhaseSucceeded)
			}},
		{ID: "C4", Title: "control: workers killed when the effect was made, nobody can tell",
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseUnknown, Effects: 1, Requests: exactly(1)}},
			Play: lost(provider.Hang, provider.Counts{Effects: 1}, contract.PhaseUnknown, "charge")},
	}
}

// reached waits for the provider's counts; a task that has ended will not reach
// them any more.
func (s *Scene) reached(ctx context.Context, key string, want provider.Counts) error {
	return until(ctx, "the provider has "+want.String(), func(ctx context.Context) (bool, error) {
		have, err := s.Provider.Effects(ctx, witnessKey(s.Tenant, key))
		if err != nil {
			return false, err
		}
		if have.Requests >= want.Requests && have.Effects >= want.Effects {
			return true, nil
		}
		if view, err := s.look(ctx, s.trace(s.Tenant, key)); err == nil && view.Phase.End() {
			return false, fmt.Errorf("it is %s, and the provider has %s", view.Phase, have)
		}
		return false, nil
	})
}
