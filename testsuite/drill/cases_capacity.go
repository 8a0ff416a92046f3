package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// capacityCases are about slots and leases that nobody works on.
func capacityCases() []Case {
	return []Case{
		{
			ID: "P36", Title: "no worker for longer than the lease time: the lease is kept, nothing else is started",
			Play: leaseWithoutWorker,
			Ends: []End{
				{Keys: []string{"before"}, Phase: contract.PhaseFailed, Reason: "worker_lost"},
				{Keys: []string{"first", "second"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)},
			},
		},
		{
			ID: "P22", Title: "more leases than slots: what waits for a slot is not taken for lost",
			Play: moreLeasesThanSlots,
			Ends: []End{{Keys: keys("k", capacity), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)}},
		},
		{
			ID: "P24", Title: "everything restarted under a leased task that no worker has taken: it can be cancelled",
			Play: func(ctx context.Context, s *Scene) error {
				killAll(s.Workers...)
				for _, key := range []string{"leased", "queued"} { // the tenant may run one at a time
					if err := s.Submit(ctx, key, "charge"); err != nil {
						return err
					}
				}
				killAll(s.Gateway, s.Control, s.Server)
				if err := startAll(ctx, s.Server, s.Control, s.Gateway); err != nil {
					return err
				}
				for _, key := range []string{"queued", "leased"} {
					if err := s.cancelled(ctx, key); err != nil {
						return err
					}
				}
				return nil
			},
			Ends: []End{{Keys: []string{"leased", "queued"}, Phase: contract.PhaseCancelled}},
		},
		{
			ID: "A19", Title: "an unknown outcome decided by two people and a look-up at once: one decision",
			Play: decidedAtOnce,
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidencePerson}},
		},
	}
}

// leaseWithoutWorker leaves a lease alone for longer than its time. The tenant may
// have one task in flight, and the lease is one that was waited for: the first
// audit of one that came with the ticket is when the ticket is over.
func leaseWithoutWorker(ctx context.Context, s *Scene) error {
	err := s.HoldBeat(proxy.After, "before", admission.StepClaimed).Catch(ctx,
		func(ctx context.Context) error { return s.Submit(ctx, "before", "charge_once") },
		func(*Process, *proxy.Point) error {
			killAll(s.Workers...)
			return nil
		})
	if err != nil {
		return err
	}
	for _, key := range []string{"first", "second"} {
		if err := s.Submit(ctx, key, "charge"); err != nil {
			return err
		}
	}
	if err := s.Until(ctx, "before", contract.PhaseFailed); err != nil {
		return err
	}
	if err := s.Until(ctx, "first", contract.PhaseLeased); err != nil {
		return err
	}
	// The time-out and three heartbeat timeouts are the lease's time; then it is audited.
	if err := passes(ctx, 6*lease); err != nil {
		return err
	}
	if err := s.stands(ctx, s.Tenant, map[string]contract.Phase{"first": contract.PhaseLeased}); err != nil {
		return fmt.Errorf("after the lease's time: %w", err)
	}
	story, err := s.Door.Explain(ctx, s.Tenant, "second") // it may stand by in a worker, without a lease
	if err != nil {
		return err
	}
	if slices.ContainsFunc(story.Events, func(e contract.Event) bool { return e.Name == "leased" }) {
		return errors.New("after the lease's time: another task has it, and its holder lives")
	}
	if err := startAll(ctx, s.Workers...); err != nil {
		return err
	}
	for _, key := range []string{"first", "second"} {
		if err := s.Until(ctx, key, contract.PhaseSucceeded); err != nil {
			return err
		}
	}
	return nil
}

// moreLeasesThanSlots fills the slots of the one worker that lives with effects
// that take longer than a lease time.
func moreLeasesThanSlots(ctx context.Context, s *Scene) error {
	s.Workers[1].Kill()
	all := keys("k", capacity)
	for _, key := range all {
		if err := s.Fault(ctx, key, provider.Fault{Kind: provider.HangBefore}); err != nil {
			return err
		}
		if err := s.Submit(ctx, key, "charge_slow"); err != nil {
			return err
		}
	}
	err := until(ctx, "every slot is taken", func(ctx context.Context) (bool, error) {
		seen, err := s.Provider.Concurrency(ctx)
		return seen.Now == slots, err
	})
	if err != nil {
		return err
	}
	if err := passes(ctx, 3*lease); err != nil {
		return err
	}
	for {
		// A release frees a slot, and the next one comes to hang in it.
		if _, err := s.Provider.Release(ctx, "*"); err != nil {
			return err
		}
		done := 0
		for _, key := range all {
			view, err := s.look(ctx, s.trace(s.Tenant, key))
			if err != nil {
				return err
			}
			if view.Phase == contract.PhaseSucceeded {
				done++
			}
		}
		if done == len(all) {
			return nil
		}
		if err := passes(ctx, lease/20); err != nil {
			return err
		}
	}
}

// decidedAtOnce lets two people answer while the provider has a look-up in hand.
func decidedAtOnce(ctx context.Context, s *Scene) error {
	if err := lookupInHand(ctx, s); err != nil {
		return err
	}
	seen, err := s.look(ctx, s.trace(s.Tenant, "k"))
	if err != nil {
		return err
	}
	if seen.Reconciliation == nil {
		return fmt.Errorf("k shows no reconciliation: %s", seen.Phase)
	}
	answers := make([]Answer, 2)
	steps := make([]func(context.Context) error, len(answers))
	for i := range answers {
		word := decision(contract.Happened, seen.Reconciliation.Version)
		word.ID, word.Actor = fmt.Sprintf("%s-%d", word.ID, i), fmt.Sprintf("operator-%d", i)
		steps[i] = func(ctx context.Context) (err error) {
			answers[i], err = s.Door.Resolve(ctx, s.Tenant, "k", word)
			return err
		}
	}
	if err := together(ctx, steps...); err != nil {
		return err
	}
	taken := 0
	for _, a := range answers {
		if a.Status/100 == 2 {
			taken++
		}
	}
	if taken != 1 {
		return fmt.Errorf("of two decisions at once %d were taken: %d %s, %d %s", taken,
			answers[0].Status, answers[0].Problem.Reason, answers[1].Status, answers[1].Problem.Reason)
	}
	if err := s.Until(ctx, "k", contract.PhaseSucceeded); err != nil {
		return err
	}
	_, err = s.Provider.Release(ctx, "*") // the look-up's answer comes to nobody
	return err
}
