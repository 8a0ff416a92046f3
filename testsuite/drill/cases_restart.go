package drill

import (
	"context"
	"fmt"
	"slices"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// inEveryPhase are the ends of the tasks of playInEveryPhase.
var inEveryPhase = []End{
	{Keys: []string{"queued", "dispatched", "succeeded"}, Phase: contract.PhaseSucceeded, Effects: 1},
	{Tenant: "other", Keys: []string{"leased", "claimed"}, Phase: contract.PhaseSucceeded, Effects: 1},
	{Keys: []string{"reconciling"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Evidence: contract.EvidenceLookup},
	{Keys: []string{"unknown"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Evidence: contract.EvidencePerson},
	{Keys: []string{"failed"}, Phase: contract.PhaseFailed, Reason: "rejected_by_provider", Requests: exactly(1)},
}

// restartCases kill what everything else stands on.
func restartCases() []Case {
	return []Case{{
		ID:    "A15",
		Title: "Temporal and control worker killed with tasks in every phase, also in mid-reconcile",
		Play: func(ctx context.Context, s *Scene) error {
			return playInEveryPhase(ctx, s, []*Process{s.Control, s.Server}, func(ctx context.Context) error {
				return startAll(ctx, s.Server, s.Control, s.Workers[1])
			})
		},
		Ends: inEveryPhase,
	}}
}

// Upgrade is A15 with other programs: everything but Temporal is killed and
// started again as next, in the order of the manual, with tasks in every phase,
// a budget and reconciliations of the build before.
func Upgrade(next string) Case {
	return Case{
		ID: "A15", Title: "everything replaced by the next build with tasks in every phase",
		Play: func(ctx context.Context, s *Scene) error {
			err := playInEveryPhase(ctx, s, s.Controls, func(ctx context.Context) error {
				// 1. Control workers, all before the first new one. 2. Workers of effects.
				// 3. Gateways, which start tasks in the newest way that they know.
				for _, p := range slices.Concat(s.Controls, s.Workers, s.Gateways) {
					p.Kill()
					p.Replace(next)
					if err := p.Start(ctx); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			other := s.Tenant + "-other"
			if err := s.SubmitAs(ctx, other, "new", "charge", admission.Normal); err != nil {
				return err
			}
			return s.UntilAs(ctx, other, "new", contract.PhaseSucceeded)
		},
		Ends: append(slices.Clone(inEveryPhase), End{Tenant: "other", Keys: []string{"new"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)}),
	}
}

// playInEveryPhase names its tasks after the phases that the restart meets them
// in. The victims are killed while a beat is held, before the restart.
func playInEveryPhase(ctx context.Context, s *Scene, victims []*Process, restart func(ctx context.Context) error) error {
	other := s.Tenant + "-other"
	// 1. One worker, so that its slots can be full. Two tasks have ended.
	s.Workers[1].Kill()
	if err := s.Submit(ctx, "succeeded", "charge"); err != nil {
		return err
	}
	if err := s.Until(ctx, "succeeded", contract.PhaseSucceeded); err != nil {
		return err
	}
	if err := s.Fault(ctx, "failed", provider.Fault{Kind: provider.Status, Status: 400}); err != nil {
		return err
	}
	if err := s.Submit(ctx, "failed", "charge"); err != nil {
		return err
	}
	if err := s.Until(ctx, "failed", contract.PhaseFailed); err != nil {
		return err
	}
	// 2. Two doubts: one that nobody can clear up, one whose look-ups fail.
	if err := inDoubt(ctx, s); err != nil {
		return err
	}
	// 3. One task in a slot, one behind it that its tenant's cap holds back.
	if _, err := s.Dispatch(ctx, "dispatched", "charge_slow_lookup", provider.HangBefore); err != nil {
		return err
	}
	if err := s.Submit(ctx, "queued", "charge"); err != nil {
		return err
	}
	before := map[string]contract.Phase{"queued": contract.PhaseAccepted, "dispatched": contract.PhaseDispatched, "reconciling": contract.PhaseReconciling,
		"unknown": contract.PhaseUnknown, "succeeded": contract.PhaseSucceeded, "failed": contract.PhaseFailed}
	if err := s.stands(ctx, s.Tenant, before); err != nil {
		return err
	}
	// 4. One that takes the last slot, and one more lease than there are slots. A
	// beat is held for a moment only, so this comes last.
	claimed := s.HoldOnWorkers(proxy.Beat(proxy.After, other, "claimed", admission.StepClaimed))
	err := claimed.Catch(ctx,
		func(ctx context.Context) error { return s.SubmitAs(ctx, other, "claimed", "charge", admission.Normal) },
		func(*Process, *proxy.Point) error {
			if err := s.SubmitAs(ctx, other, "leased", "charge", admission.Normal); err != nil {
				return err
			}
			if err := s.stands(ctx, other, map[string]contract.Phase{"claimed": contract.PhaseClaimed, "leased": contract.PhaseLeased}); err != nil {
				return err
			}
			// 5. The restart.
			killAll(victims...)
			return nil
		})
	if err != nil {
		return err
	}
	if err := restart(ctx); err != nil {
		return err
	}
	// 6. Everything goes on as if nothing had happened.
	after := map[string]contract.Phase{"unknown": contract.PhaseUnknown, "succeeded": contract.PhaseSucceeded, "failed": contract.PhaseFailed}
	if err := s.stands(ctx, s.Tenant, after); err != nil {
		return fmt.Errorf("after the restart: %w", err)
	}
	if _, err := s.Provider.ClearFaults(ctx); err != nil {
		return err
	}
	if _, err := s.Provider.Release(ctx, "*"); err != nil {
		return err
	}
	if err := s.Decide(ctx, "unknown", contract.Happened); err != nil {
		return err
	}
	for _, key := range []string{"unknown", "reconciling", "dispatched", "queued"} {
		if err := s.Until(ctx, key, contract.PhaseSucceeded); err != nil {
			return err
		}
	}
	for _, key := range []string{"claimed", "leased"} {
		if err := s.UntilAs(ctx, other, key, contract.PhaseSucceeded); err != nil {
			return err
		}
	}
	return nil
}

// inDoubt kills the one worker under two effects, and starts it again.
func inDoubt(ctx context.Context, s *Scene) error {
	if err := s.Fault(ctx, "reconciling", provider.Fault{Kind: provider.Status, On: provider.OnLookup, Status: 500, Times: -1}); err != nil {
		return err
	}
	for _, doubt := range []struct {
		key, operation string
		phase          contract.Phase
	}{{"unknown", "charge", contract.PhaseUnknown}, {"reconciling", "charge_lookup", contract.PhaseReconciling}} {
		worker, err := s.Dispatch(ctx, doubt.key, doubt.operation, provider.Hang)
		if err != nil {
			return err
		}
		worker.Kill()
		if err := s.Until(ctx, doubt.key, doubt.phase); err != nil {
			return err
		}
		if err := worker.Start(ctx); err != nil {
			return err
		}
		// The lease of a lost worker is held for another lease time.
		if err := s.capacityBack(ctx); err != nil {
			return err
		}
	}
	return s.Seen(ctx, "reconciling", provider.Counts{Lookups: 1})
}

// stands checks the phases of a tenant's tasks at one moment.
func (s *Scene) stands(ctx context.Context, tenant string, phases map[string]contract.Phase) error {
	for key, want := range phases {
		view, err := s.look(ctx, s.trace(tenant, key))
		if err != nil {
			return err
		}
		if view.Phase != want {
			return fmt.Errorf("%s/%s must be %s, but is %s", tenant, key, want, view.Phase)
		}
	}
	return nil
}
