package testsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// Operations of these tests: one whose beats may be held for long, and one whose
// provider is blind.
const doubtOperations = `
  charge_held:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 60s
    heartbeat: 30s
    retry: {max_attempts: 1, base: 200ms, max: 1s, max_age: 5m}
    replay: {class: never}
  charge_blind:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    retry: {max_attempts: 1, base: 200ms, max: 1s, max_age: 5m}
    replay: {class: never}
    breaker: off
    unknown_ceiling: 2
`

// TestDoubtAndFreeze needs real processes: what the server answers to a beat, and
// who is told what, is the point.
func TestDoubtAndFreeze(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	world := newWorld(ctx, t)
	declare(ctx, t, world, "  ceiling: {weight: 1, max_in_flight: 4}\n", doubtOperations)
	t.Run("freeze", func(t *testing.T) { testFreeze(ctx, t, world) })
	t.Run("ceiling", func(t *testing.T) { testCeiling(ctx, t, world) })
}

// put sends an order that must be obeyed, and reads its answer.
func put[T any](ctx context.Context, world *drill.World, path, body string) (T, error) {
	var out T
	answer, err := send(ctx, world, http.MethodPut, path, nil, []byte(body))
	if err == nil && answer.status != http.StatusOK {
		err = fmt.Errorf("PUT %s: %d %s", path, answer.status, answer.body)
	}
	if err == nil {
		err = json.Unmarshal(answer.body, &out)
	}
	return out, err
}

// testFreeze freezes an operation while two attempts of it are held right before
// their checkpoint, one is in the provider's hands, and one comes later. From the
// answer on nothing is dispatched; what was dispatched ends by its outcome; nothing
// is lost, although the operation allows one attempt only.
func testFreeze(ctx context.Context, t *testing.T, world *drill.World) {
	one := drill.Range{Least: 1, Most: 1}
	play(ctx, t, world, drill.Case{ID: "freeze", Title: "frozen between claim and checkpoint", Play: func(ctx context.Context, s *drill.Scene) error {
		if err := s.Fault(ctx, "sent", provider.Fault{Kind: provider.HangBefore}); err != nil {
			return err
		}
		if err := s.Submit(ctx, "sent", "charge_held"); err != nil {
			return err
		}
		if err := s.Seen(ctx, "sent", provider.Counts{Requests: 1}); err != nil {
			return err
		}
		var points []*proxy.Point
		for _, key := range []string{"k1", "k2"} {
			held := s.HoldBeat(proxy.Before, key, admission.StepDispatching)
			if err := held.Catch(ctx, func(ctx context.Context) error { return s.Submit(ctx, key, "charge_held") },
				func(_ *drill.Process, point *proxy.Point) error {
					points = append(points, point)
					return nil
				}); err != nil {
				return err
			}
		}
		done, err := put[contract.FreezeReply](ctx, world, "/v1/operations/charge_held/freeze", `{"reason": "charged twice", "actor": "mara"}`)
		if err != nil {
			return err
		}
		if done.Freeze == nil || done.Stopping != 0 {
			return fmt.Errorf("the freeze must say that nothing is dispatched any more, not %+v", done)
		}
		for _, point := range points {
			point.Release()
		}
		if err := s.Submit(ctx, "late", "charge_held"); err != nil {
			return err
		}
		for _, key := range []string{"k1", "k2", "late"} {
			if err := s.WaitsOn(ctx, key, admission.OperationFrozen); err != nil {
				return err
			}
			if err := s.Unsent(ctx, key); err != nil {
				return err
			}
		}
		if err := s.Release(ctx, s.Tenant, "sent"); err != nil {
			return err
		}
		if err := s.Until(ctx, "sent", contract.PhaseSucceeded); err != nil {
			return err
		}
		view, err := s.Door.Queue(ctx)
		if err != nil {
			return err
		}
		if len(view.Leases) != 0 || view.Depth != 3 {
			return fmt.Errorf("three must wait without a lease, not %d with %d leases", view.Depth, len(view.Leases))
		}
		if _, err := put[contract.FreezeReply](ctx, world, "/v1/operations/charge_held/unfreeze", `{"actor": "mara"}`); err != nil {
			return err
		}
		for _, key := range []string{"k1", "k2", "late"} {
			if err := s.Until(ctx, key, contract.PhaseSucceeded); err != nil {
				return err
			}
		}
		return nil
	}, Ends: []drill.End{
		{Keys: []string{"sent", "late"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: one, Attempts: one},
		{Keys: []string{"k1", "k2"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: one, Retries: []string{"operation_frozen"}},
	}})
}

// testCeiling blinds the provider: at two doubts new work of the operation and the
// tenant is refused, another tenant's is not, critical work waits, and a person's
// word makes room.
func testCeiling(ctx context.Context, t *testing.T, world *drill.World) {
	play(ctx, t, world, drill.Case{ID: "ceiling", Title: "a provider that does not answer", Play: func(ctx context.Context, s *drill.Scene) error {
		for _, key := range []string{"d1", "d2"} {
			if err := s.Fault(ctx, key, provider.Fault{Kind: provider.After}); err != nil {
				return err
			}
			if err := s.Submit(ctx, key, "charge_blind"); err != nil {
				return err
			}
			if err := s.Until(ctx, key, contract.PhaseUnknown); err != nil {
				return err
			}
		}
		answer, err := s.Ask(ctx, s.Tenant, "refused", "charge_blind", admission.Normal)
		if err != nil {
			return err
		}
		if p := answer.Problem; answer.Status != http.StatusServiceUnavailable || p.Reason != string(admission.UnknownCeiling) || p.RetryAfter < 1 || answer.RetryAfter == "" {
			return fmt.Errorf("at the ceiling new work is refused for a while, not %d %+v", answer.Status, p)
		}
		if err := s.SubmitAs(ctx, s.Tenant, "critical", "charge_blind", admission.Critical); err != nil {
			return err
		}
		if err := s.WaitsOn(ctx, "critical", admission.UnknownCeiling); err != nil {
			return err
		}
		if err := s.SubmitAs(ctx, s.Tenant+"-other", "free", "charge_blind", admission.Normal); err != nil {
			return err
		}
		if err := s.UntilAs(ctx, s.Tenant+"-other", "free", contract.PhaseSucceeded); err != nil {
			return err
		}
		view, err := s.Door.Queue(ctx)
		if err != nil {
			return err
		}
		if len(view.Doubts) != 1 || view.Doubts[0].Tasks != 2 || view.Doubts[0].Ceiling != 2 {
			return fmt.Errorf("the queue must show the two in doubt, not %+v", view.Doubts)
		}
		if err := s.Decide(ctx, "d1", contract.Happened); err != nil {
			return err
		}
		if err := s.Until(ctx, "critical", contract.PhaseSucceeded); err != nil {
			return err
		}
		if err := s.Decide(ctx, "d2", contract.Happened); err != nil {
			return err
		}
		if err := s.Until(ctx, "d2", contract.PhaseSucceeded); err != nil {
			return err
		}
		eventually(ctx, t, "no doubt is left", func() bool {
			view, err := s.Door.Queue(ctx)
			return err == nil && len(view.Doubts) == 0
		})
		return nil
	}, Ends: []drill.End{
		{Keys: []string{"d1", "d2"}, Phase: contract.PhaseSucceeded, Effects: 1, Evidence: contract.EvidencePerson, Through: []contract.Phase{contract.PhaseUnknown}},
		{Keys: []string{"critical"}, Phase: contract.PhaseSucceeded, Effects: 1},
		{Tenant: "other", Keys: []string{"free"}, Phase: contract.PhaseSucceeded, Effects: 1},
		{Keys: []string{"refused"}, Phase: contract.PhaseRejected, Reason: string(admission.UnknownCeiling)},
	}})
}
