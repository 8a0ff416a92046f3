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

// workerCases kill the worker at each side of each durable step.
func workerCases() []Case {
	return []Case{
		{
			ID: "A4", Required: true,
			Title: "worker killed after claim, before the checkpoint",
			Play: func(ctx context.Context, s *Scene) error {
				return killAt(ctx, s, s.HoldBeat(proxy.After, "k", admission.StepClaimed), s.Unsent)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(2), Retries: []string{"worker_lost"}}},
		},
		{
			ID: "A5", Variant: "happened", Required: true,
			Title: "worker killed after dispatch, before the response; the effect was made",
			Play: func(ctx context.Context, s *Scene) error {
				return killInFlight(ctx, s, "k", "charge_lookup", provider.Hang, contract.PhaseSucceeded)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1),
				Evidence: contract.EvidenceLookup, Through: []contract.Phase{contract.PhaseReconciling}}},
		},
		{
			ID: "A5", Variant: "did not", Required: true,
			Title: "worker killed after dispatch, before the response; the effect was not made",
			Play: func(ctx context.Context, s *Scene) error {
				return killInFlight(ctx, s, "k", "charge_lookup", provider.HangBefore, contract.PhaseSucceeded)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(2), Attempts: exactly(2),
				Through: []contract.Phase{contract.PhaseReconciling}}},
		},
		{
			ID: "A6", Variant: "happened", Required: true,
			Title: "as A5, no probe, never replayed; a person finds that it happened",
			Play: func(ctx context.Context, s *Scene) error {
				return resolveByHand(ctx, s, provider.Hang, contract.Happened)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1),
				Evidence: contract.EvidencePerson, Through: []contract.Phase{contract.PhaseUnknown}}},
		},
		{
			ID: "A6", Variant: "did not", Required: true,
			Title: "as A5, no probe, never replayed; a person finds that it did not happen",
			Play: func(ctx context.Context, s *Scene) error {
				return resolveByHand(ctx, s, provider.HangBefore, contract.DidNotHappen)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(2), Attempts: exactly(2),
				Through: []contract.Phase{contract.PhaseUnknown}}},
		},
		{
			ID:    "A7",
			Title: "as A5, the provider deduplicates by key: sent again with the same key",
			Play: func(ctx context.Context, s *Scene) error {
				return killInFlight(ctx, s, "k", "charge_keyed", provider.Hang, contract.PhaseSucceeded)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(2), Attempts: exactly(2)}},
		},
		{
			ID: "A9", Variant: "beat", Required: true,
			Title: "worker killed after the response was recorded, before it knew",
			Play: func(ctx context.Context, s *Scene) error {
				return killAt(ctx, s, s.HoldBeat(proxy.After, "k", admission.StepResponded), nil)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceResponse}},
		},
		{
			ID: "A9", Variant: "completion", Required: true,
			Title: "worker killed between the response and the completion",
			Play: func(ctx context.Context, s *Scene) error {
				return killAt(ctx, s, s.HoldOnWorkers(proxy.Completed(proxy.Before)), nil)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceResponse}},
		},
	}
}

// killAt submits a task and kills its worker where the held call proves it to
// be; proof, if there is one, is asked then.
func killAt(ctx context.Context, s *Scene, held *Held, proof func(ctx context.Context, key string) error) error {
	err := held.Catch(ctx,
		func(ctx context.Context) error { return s.Submit(ctx, "k", "charge") },
		func(worker *Process, _ *proxy.Point) error {
			worker.Kill()
			if proof == nil {
				return nil
			}
			return proof(ctx, "k")
		})
	if err != nil {
		return err
	}
	return s.Until(ctx, "k", contract.PhaseSucceeded)
}

// killInFlight kills a worker that waits for the provider's answer.
func killInFlight(ctx context.Context, s *Scene, key, operation string, kind provider.Kind, end contract.Phase) error {
	worker, err := s.Dispatch(ctx, key, operation, kind)
	if err != nil {
		return err
	}
	worker.Kill()
	return s.Until(ctx, key, end)
}

// resolveByHand makes an outcome unknown, and decides it as a person would.
func resolveByHand(ctx context.Context, s *Scene, kind provider.Kind, outcome string) error {
	if err := killInFlight(ctx, s, "k", "charge", kind, contract.PhaseUnknown); err != nil {
		return err
	}
	seen, err := s.look(ctx, s.trace(s.Tenant, "k"))
	if err != nil {
		return err
	}
	if seen.NextAction != contract.NextAskHuman || seen.Reconciliation == nil {
		return fmt.Errorf("an unknown task must ask for a person and show its reconciliation, not %q", seen.NextAction)
	}
	stale := decision(outcome, seen.Reconciliation.Version+1)
	if answer, err := s.Door.Resolve(ctx, s.Tenant, "k", stale); err != nil {
		return err
	} else if answer.Status/100 == 2 {
		return errors.New("a decision about a version that nobody has seen was taken")
	}
	if err := s.Decide(ctx, "k", outcome); err != nil {
		return err
	}
	return s.Until(ctx, "k", contract.PhaseSucceeded)
}

// Decide resolves an unknown outcome as a person would who looks at it now.
func (s *Scene) Decide(ctx context.Context, key, outcome string) error {
	seen, err := s.look(ctx, s.trace(s.Tenant, key))
	if err != nil {
		return err
	}
	if seen.Reconciliation == nil {
		return fmt.Errorf("%s/%s has nothing to decide", s.Tenant, key)
	}
	answer, err := s.Door.Resolve(ctx, s.Tenant, key, decision(outcome, seen.Reconciliation.Version))
	if err == nil && answer.Status/100 != 2 {
		err = fmt.Errorf("resolve %s/%s: %d %s: %s", s.Tenant, key, answer.Status, answer.Problem.Reason, answer.Problem.Detail)
	}
	return err
}

func decision(outcome string, version int) contract.Resolution {
	return contract.Resolution{ID: fmt.Sprintf("drill-%s-%d", outcome, version), Actor: "operator", Outcome: outcome,
		Evidence: "the provider's own ledger was read", Version: version}
}
