package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// crashCases are the crash points that the others leave out, with each
// protection, and what must not take long after a crash.
func crashCases() []Case {
	once := func(attempts Range) []End {
		return []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: Range{1, 2}, Attempts: attempts}}
	}
	return []Case{
		{
			ID: "F1", Variant: "checkpoint look-up", Title: "worker killed after its checkpoint, before the first byte: looked up, sent once",
			Play: func(ctx context.Context, s *Scene) error {
				return killAtCheckpoint(ctx, s, "charge_lookup", contract.PhaseSucceeded)
			},
			Ends: once(exactly(2)),
		},
		{
			ID: "F1", Variant: "checkpoint key", Title: "worker killed after its checkpoint, before the first byte: sent with the same key",
			Play: func(ctx context.Context, s *Scene) error {
				return killAtCheckpoint(ctx, s, "charge_keyed", contract.PhaseSucceeded)
			},
			Ends: once(exactly(2)),
		},
		{
			ID: "F1", Variant: "checkpoint neither", Title: "worker killed after its checkpoint, before the first byte: a person decides",
			Play: func(ctx context.Context, s *Scene) error {
				if err := killAtCheckpoint(ctx, s, "charge", contract.PhaseUnknown); err != nil {
					return err
				}
				if err := s.Unsent(ctx, "k"); err != nil {
					return err
				}
				if err := s.Decide(ctx, "k", contract.DidNotHappen); err != nil {
					return err
				}
				return s.Until(ctx, "k", contract.PhaseSucceeded)
			},
			Ends: once(exactly(2)),
		},
		{
			ID: "F1", Variant: "probe", Title: "every worker killed while the look-up is under way",
			Play: func(ctx context.Context, s *Scene) error { return killInProbe(ctx, s, s.Workers) },
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceLookup}},
		},
		{
			ID: "F9", Variant: "probe", Title: "control worker killed while the look-up is under way",
			Play: func(ctx context.Context, s *Scene) error { return killInProbe(ctx, s, s.Controls) },
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceLookup}},
		},
		{
			ID: "F1", Variant: "recovery", Title: "worker killed in flight, and the next one in the second sending, too",
			Play: killTwice,
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(3), Attempts: exactly(3)}},
		},
		{
			ID: "P39", Title: "one attempt only: killed before and after the checkpoint neither is left running",
			Play: oneAttempt,
			Ends: []End{
				{Keys: []string{"before"}, Phase: contract.PhaseFailed, Reason: "worker_lost", Requests: Range{}, Attempts: exactly(1)},
				{Keys: []string{"after"}, Phase: contract.PhaseUnknown, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
			},
		},
		{
			ID: "A5", Variant: "in time", Title: "a task whose worker died is classified within its lease time and two seconds",
			Play: inTime,
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceLookup}},
		},
	}
}

// killAtCheckpoint kills a worker whose checkpoint is durable and not yet known
// to it.
func killAtCheckpoint(ctx context.Context, s *Scene, operation string, end contract.Phase) error {
	err := s.HoldBeat(proxy.After, "k", admission.StepDispatching).Catch(ctx,
		func(ctx context.Context) error { return s.Submit(ctx, "k", operation) },
		func(worker *Process, _ *proxy.Point) error {
			worker.Kill()
			return s.Unsent(ctx, "k")
		})
	if err != nil {
		return err
	}
	return s.Until(ctx, "k", end)
}

// lookupInHand makes a doubt, about which the provider has a look-up in hand.
func lookupInHand(ctx context.Context, s *Scene) error {
	if err := s.Fault(ctx, "k", provider.Fault{On: provider.OnLookup, Kind: provider.Hang}); err != nil {
		return err
	}
	if err := killInFlight(ctx, s, "k", "charge_lookup", provider.Hang, contract.PhaseReconciling); err != nil {
		return err
	}
	return s.Seen(ctx, "k", provider.Counts{Lookups: 1})
}

// killInProbe kills processes while the provider has the look-up in hand.
func killInProbe(ctx context.Context, s *Scene, victims []*Process) error {
	if err := lookupInHand(ctx, s); err != nil {
		return err
	}
	killAll(victims...)
	if err := startAll(ctx, victims...); err != nil {
		return err
	}
	return s.Until(ctx, "k", contract.PhaseSucceeded)
}

// killTwice kills the worker of the first attempt and that of the replay.
func killTwice(ctx context.Context, s *Scene) error {
	worker, err := s.Dispatch(ctx, "k", "charge_keyed", provider.Hang)
	if err != nil {
		return err
	}
	if err := s.Fault(ctx, "k", provider.Fault{Kind: provider.Hang}); err != nil {
		return err
	}
	again := s.HoldBeat(proxy.After, "k", admission.StepDispatching)
	worker.Kill()
	second, point, err := again.Reached(ctx)
	if err != nil {
		return err
	}
	point.Release()
	if err := s.Seen(ctx, "k", provider.Counts{Requests: 2}); err != nil {
		return err
	}
	second.Kill()
	if err := worker.Start(ctx); err != nil {
		return err
	}
	return s.Until(ctx, "k", contract.PhaseSucceeded)
}

// oneAttempt lets both kinds of crash meet an operation that is never repeated.
func oneAttempt(ctx context.Context, s *Scene) error {
	err := s.HoldBeat(proxy.After, "before", admission.StepClaimed).Catch(ctx,
		func(ctx context.Context) error { return s.Submit(ctx, "before", "charge_once") },
		func(worker *Process, _ *proxy.Point) error {
			worker.Kill()
			return s.Unsent(ctx, "before")
		})
	if err != nil {
		return err
	}
	if err := s.Until(ctx, "before", contract.PhaseFailed); err != nil {
		return err
	}
	return killInFlight(ctx, s, "after", "charge_once", provider.Hang, contract.PhaseUnknown)
}

// inTime measures from the kill to the phase that a client sees.
func inTime(ctx context.Context, s *Scene) error {
	worker, err := s.Dispatch(ctx, "k", "charge_lookup", provider.Hang)
	if err != nil {
		return err
	}
	worker.Kill()
	died := time.Now()
	err = until(ctx, "k is classified", func(ctx context.Context) (bool, error) {
		seen, err := s.look(ctx, s.trace(s.Tenant, "k"))
		return err == nil && (seen.Phase == contract.PhaseReconciling || seen.Phase.End()), err
	})
	if err != nil {
		return err
	}
	if took := time.Since(died); took > lease+2*time.Second {
		return fmt.Errorf("the attempt was classified %s after its worker's death, later than %s", took, lease+2*time.Second)
	}
	return s.Until(ctx, "k", contract.PhaseSucceeded)
}

// cancelled asks to cancel a task and waits for it.
func (s *Scene) cancelled(ctx context.Context, key string) error {
	answer, err := s.Door.Cancel(ctx, s.Tenant, key)
	if err == nil && answer.Status/100 != 2 {
		err = errors.New(answer.Problem.Detail)
	}
	if err != nil {
		return fmt.Errorf("cancel %s: %w", key, err)
	}
	return s.Until(ctx, key, contract.PhaseCancelled)
}
