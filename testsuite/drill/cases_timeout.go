package drill

import (
	"context"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// timeoutCases are about effects that fail while their worker lives. The tasks
// are named after their operations.
func timeoutCases() []Case {
	return []Case{
		{
			ID: "A8", Required: true,
			Title: "the provider commits, then hangs: time-out after dispatch",
			Play: func(ctx context.Context, s *Scene) error {
				ends := []struct {
					operation string
					phase     contract.Phase
				}{
					{"charge_lookup", contract.PhaseSucceeded},
					{"charge", contract.PhaseUnknown},
					{"charge_keyed", contract.PhaseSucceeded},
				}
				for _, end := range ends {
					if _, err := s.Dispatch(ctx, end.operation, end.operation, provider.Hang); err != nil {
						return err
					}
				}
				for _, end := range ends {
					if err := s.Until(ctx, end.operation, end.phase); err != nil {
						return err
					}
				}
				return nil
			},
			Ends: []End{
				{Keys: []string{"charge_lookup"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceLookup},
				{Keys: []string{"charge"}, Phase: contract.PhaseUnknown, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
				{Keys: []string{"charge_keyed"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(2), Attempts: exactly(2)},
			},
		},
		{
			ID:    "A20",
			Title: "errors that stay: revoked credential, policy denial, invalid payload",
			Play: func(ctx context.Context, s *Scene) error {
				for _, refusal := range []struct {
					key    string
					status int
				}{{"revoked", 401}, {"denied", 403}, {"invalid", 400}} {
					if err := s.Fault(ctx, refusal.key, provider.Fault{Kind: provider.Status, Status: refusal.status}); err != nil {
						return err
					}
					if err := s.Submit(ctx, refusal.key, "charge"); err != nil {
						return err
					}
					if err := s.Until(ctx, refusal.key, contract.PhaseFailed); err != nil {
						return err
					}
				}
				return nil
			},
			Ends: []End{
				{Keys: []string{"revoked", "denied"}, Phase: contract.PhaseFailed, Reason: "not_authorised", Requests: exactly(1), Attempts: exactly(1)},
				{Keys: []string{"invalid"}, Phase: contract.PhaseFailed, Reason: "rejected_by_provider", Requests: exactly(1), Attempts: exactly(1)},
			},
		},
	}
}
