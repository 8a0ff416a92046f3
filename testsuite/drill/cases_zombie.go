package drill

import (
	"context"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// zombieCases stop a worker for longer than its lease and let it go on when
// somebody else has done its work. A paused worker may swallow one more attempt
// with the poll that it left open, so attempts are not exact where it is left.
func zombieCases() []Case {
	proofs := End{Keys: keys("proof", slots), Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1)}
	return []Case{
		{
			ID: "A10", Variant: "claim", Zombie: true,
			Title: "worker paused before its checkpoint, resumed after the retry ran",
			Play: func(ctx context.Context, s *Scene) error {
				// Its time-out is long, so that only the fence holds it back.
				return pauseAt(ctx, s, "charge_slow", admission.StepClaimed)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: Range{2, 6}, Retries: []string{"worker_lost"}}, proofs},
		},
		{
			ID: "A10", Variant: "checkpoint", Zombie: true,
			Title: "worker paused as its checkpoint became durable, resumed after look-ups and the retry",
			Play: func(ctx context.Context, s *Scene) error {
				// Its time-out is long, so that only the send guard holds it back.
				return pauseAt(ctx, s, "charge_slow_lookup", admission.StepDispatching)
			},
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(2),
				Through: []contract.Phase{contract.PhaseReconciling}}, proofs},
		},
		{
			ID: "A10", Variant: "answer", Zombie: true,
			Title: "worker paused after dispatch, resumed when its answer has come: late evidence",
			Play:  pauseInFlight,
			Ends: []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1), Evidence: contract.EvidenceLate,
				Through: []contract.Phase{contract.PhaseUnknown}}, proofs},
		},
	}
}

// pauseAt pauses a worker that has made a durable beat and not yet read that it
// is durable.
func pauseAt(ctx context.Context, s *Scene, operation string, step admission.Step) error {
	var paused *Process
	err := s.HoldBeat(proxy.After, "k", step).Catch(ctx,
		func(ctx context.Context) error { return s.Submit(ctx, "k", operation) },
		func(worker *Process, point *proxy.Point) error {
			paused = worker
			if err := worker.Pause(ctx); err != nil {
				return err
			}
			if step == admission.StepDispatching {
				// The sooner the retry runs, the more of the attempt is left alive.
				worker.Proxy.Cut("PollActivityTaskQueue")
			}
			point.Release() // the acknowledgement waits in the worker's socket
			return s.Unsent(ctx, "k")
		})
	if err != nil {
		return err
	}
	if err := s.Until(ctx, "k", contract.PhaseSucceeded); err != nil {
		return err
	}
	if err := paused.Continue(); err != nil {
		return err
	}
	return s.Drained(ctx, paused)
}

// pauseInFlight pauses a worker whose effect is made, and lets the answer come
// when the task is already unknown.
func pauseInFlight(ctx context.Context, s *Scene) error {
	worker, err := s.Dispatch(ctx, "k", "charge_slow", provider.Hang)
	if err != nil {
		return err
	}
	if err := worker.Pause(ctx); err != nil {
		return err
	}
	if err := s.Until(ctx, "k", contract.PhaseUnknown); err != nil {
		return err
	}
	if err := s.Release(ctx, s.Tenant, "k"); err != nil {
		return err
	}
	if err := s.Seen(ctx, "k", provider.Counts{Finished: 1}); err != nil {
		return err
	}
	if err := worker.Continue(); err != nil {
		return err
	}
	if err := s.Until(ctx, "k", contract.PhaseSucceeded); err != nil {
		return err
	}
	return s.Drained(ctx, worker)
}
