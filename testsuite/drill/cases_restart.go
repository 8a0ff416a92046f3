package drill

import (
	"context"
	"fmt"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// restartCases kill what everything else stands on.
func restartCases() []Case {
	once := []string{"queued", "leased", "claimed", "dispatched", "succeeded"}
	return []Case{{
		ID:    "A15",
		Title: "Temporal and control worker killed with tasks in every phase, also in mid-reconcile",
		Play:  restartInEveryPhase,
		Ends: []End{
			{Keys: once, Phase: contract.PhaseSucceeded, Effects: 1},
			{Keys: []string{"reconciling"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Evidence: contract.EvidenceLookup},
			{Keys: []string{"unknown"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Evidence: contract.EvidencePerson},
			{Keys: []string{"failed"}, Phase: contract.PhaseFailed, Reason: "rejected_by_provider", Requests: exactly(1)},
		},
	}}
}

func restartInEveryPhase(ctx context.Context, s *Scene) error {
	// 1. One worker, so that its two slots can be full. The tasks are named after
	// the phase that the restart meets them in.
	worker := s.Workers[0]
	s.Workers[1].Kill()
	stage := func(key string, phase contract.Phase) error { return s.Until(ctx, key, phase) }
	if err := s.Submit(ctx, "succeeded", "charge"); err != nil {
		return err
	}
	if err := stage("succeeded", contract.PhaseSucceeded); err != nil {
		return err
	}
	if err := s.Fault(ctx, "failed", provider.Fault{Kind: provider.Status, Status: 400}); err != nil {
		return err
	}
	if err := s.Submit(ctx, "failed", "charge"); err != nil {
		return err
	}
	if err := stage("failed", contract.PhaseFailed); err != nil {
		return err
	}
	// 2. Two doubts: one that nobody can clear up, one whose look-ups fail.
	if err := s.Fault(ctx, "reconciling", provider.Fault{Kind: provider.Status, On: provider.OnLookup, Status: 500, Times: -1}); err != nil {
		return err
	}
	for _, doubt := range []struct {
		key, operation string
		phase          contract.Phase
	}{{"unknown", "charge", contract.PhaseUnknown}, {"reconciling", "charge_lookup", contract.PhaseReconciling}} {
		if _, err := s.Dispatch(ctx, doubt.key, doubt.operation, provider.Hang); err != nil {
			return err
		}
		worker.Kill()
		if err := stage(doubt.key, doubt.phase); err != nil {
			return err
		}
		if err := worker.Start(ctx); err != nil {
			return err
		}
	}
	if err := s.Seen(ctx, "reconciling", provider.Counts{Lookups: 1}); err != nil {
		return err
	}
	// 3. Both slots, one more lease than slots, and one more task than the tenant
	// may have in flight.
	if _, err := s.Dispatch(ctx, "dispatched", "charge_slow_lookup", provider.HangBefore); err != nil {
		return err
	}
	claimed := s.HoldBeat(proxy.After, "claimed", admission.StepClaimed)
	for _, key := range []string{"claimed", "leased", "queued"} {
		if err := s.Submit(ctx, key, "charge_lookup"); err != nil {
			return err
		}
		if key == "claimed" {
			if _, _, err := claimed.Reached(ctx); err != nil {
				return err
			}
		}
	}
	if err := s.stands(ctx, map[string]contract.Phase{
		"queued": contract.PhaseAccepted, "leased": contract.PhaseLeased, "claimed": contract.PhaseClaimed, "dispatched": contract.PhaseDispatched,
		"reconciling": contract.PhaseReconciling, "unknown": contract.PhaseUnknown, "succeeded": contract.PhaseSucceeded, "failed": contract.PhaseFailed,
	}); err != nil {
		return err
	}
	// 4. The restart.
	s.Control.Kill()
	s.Server.Kill()
	for _, p := range []*Process{s.Server, s.Control, s.Workers[1]} {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	// 5. Everything goes on as if nothing had happened.
	if err := s.stands(ctx, map[string]contract.Phase{"unknown": contract.PhaseUnknown, "succeeded": contract.PhaseSucceeded, "failed": contract.PhaseFailed}); err != nil {
		return fmt.Errorf("after the restart: %w", err)
	}
	if _, err := s.Provider.ClearFaults(ctx); err != nil {
		return err
	}
	if _, err := s.Provider.Release(ctx, "*"); err != nil {
		return err
	}
	if err := s.decide(ctx, "unknown", contract.Happened); err != nil {
		return err
	}
	for _, key := range []string{"unknown", "reconciling", "dispatched", "claimed", "leased", "queued"} {
		if err := stage(key, contract.PhaseSucceeded); err != nil {
			return err
		}
	}
	return nil
}

// stands checks the phases of tasks at one moment.
func (s *Scene) stands(ctx context.Context, phases map[string]contract.Phase) error {
	for key, want := range phases {
		view, err := s.look(ctx, s.trace(s.Tenant, key))
		if err != nil {
			return err
		}
		if view.Phase != want {
			return fmt.Errorf("%s/%s must be %s, but is %s", s.Tenant, key, want, view.Phase)
		}
	}
	return nil
}
