package drill

import (
	"context"
	"errors"
	"fmt"

	"headgate/contract"
	"headgate/testsuite/proxy"
)

// gatewayCases kill the gateway at each side of what it promises by a 202.
func gatewayCases() []Case {
	once := []End{{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: exactly(1), Attempts: exactly(1)}}
	return []Case{
		{
			ID: "A1", Title: "gateway killed before the budget was asked", Ends: once,
			Play: func(ctx context.Context, s *Scene) error {
				return killGateway(ctx, s, proxy.Update(proxy.Before, contract.AdmitUpdate), func() error {
					return errors.Join(s.absent(ctx, "k"), s.capacityBack(ctx))
				})
			},
		},
		{
			ID: "A2", Title: "gateway killed after the admission, before the task was started", Ends: once,
			Play: func(ctx context.Context, s *Scene) error {
				return killGateway(ctx, s, proxy.Start(proxy.Before, contract.TaskID(s.Tenant, "k")), func() error {
					return errors.Join(s.absent(ctx, "k"), s.capacityBack(ctx))
				})
			},
		},
		{
			ID: "A3", Title: "gateway killed after the start, before the client read the answer", Ends: once,
			Play: func(ctx context.Context, s *Scene) error {
				return killGateway(ctx, s, proxy.Start(proxy.After, contract.TaskID(s.Tenant, "k")), func() error {
					s.accept(s.trace(s.Tenant, "k"))
					return s.Until(ctx, "k", contract.PhaseSucceeded)
				})
			},
		},
	}
}

// killGateway submits a task, kills the gateway where rule holds it, starts it
// again, checks what is left, and sends the same request again.
func killGateway(ctx context.Context, s *Scene, rule proxy.Rule, left func() error) error {
	point := s.place(s.Gateway, rule)
	submitted := make(chan error, 1)
	go func() { submitted <- s.Submit(ctx, "k", "charge") }()
	if err := point.Reached(ctx); err != nil {
		return err
	}
	s.Gateway.Kill()
	if err := <-submitted; err == nil {
		return errors.New("the client has read a promise that the gateway never made")
	}
	if err := s.Gateway.Start(ctx); err != nil {
		return err
	}
	if err := left(); err != nil {
		return err
	}
	if err := s.Submit(ctx, "k", "charge"); err != nil {
		return fmt.Errorf("the same key again: %w", err)
	}
	return s.Until(ctx, "k", contract.PhaseSucceeded)
}

// absent checks that nothing is known of a task.
func (s *Scene) absent(ctx context.Context, key string) error {
	answer, err := s.Door.Task(ctx, s.Tenant, key)
	if err == nil && answer.Status != 404 {
		err = fmt.Errorf("%s/%s must not exist, but is %s", s.Tenant, key, answer.Task.Phase)
	}
	return err
}

// capacityBack waits until the budget holds nothing.
func (s *Scene) capacityBack(ctx context.Context) error {
	var left string
	err := until(ctx, "all leases are back", func(ctx context.Context) (bool, error) {
		view, err := s.Door.Queue(ctx)
		left = fmt.Sprintf("%d leases out, %d tasks wait: %+v", view.InFlight, view.Depth, view.Leases)
		return err == nil && view.InFlight == 0 && view.Depth == 0, nil
	})
	if err != nil {
		err = fmt.Errorf("%w; %s", err, left)
	}
	return err
}
