package testsuite

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// freezeScene freezes so often that one run of the budget sees it all, and has the
// doubt that the budget is told of.
func freezeScene(t *testing.T) scene {
	keys := []string{"f1", "f2", "f3", "f4"}
	return scene{
		Case: drill.Case{
			ID: "freezes", Title: "frozen before a worker had it; in doubt until a look-up",
			Play: func(ctx context.Context, s *drill.Scene) error {
				kill(s.Workers...)
				for _, key := range keys {
					require.NoError(t, s.Submit(ctx, key, "charge"))
					require.NoError(t, s.Until(ctx, key, contract.PhaseLeased))
					done, err := put[contract.FreezeReply](ctx, s.World, "/v1/operations/charge/freeze", `{"reason": "recorded", "actor": "operator"}`)
					require.NoError(t, err)
					require.Zero(t, done.Stopping)
					require.NoError(t, s.Until(ctx, key, contract.PhaseAccepted))
					_, err = put[contract.FreezeReply](ctx, s.World, "/v1/operations/charge/unfreeze", `{"actor": "operator"}`)
					require.NoError(t, err)
				}
				for _, w := range s.Workers {
					require.NoError(t, w.Start(ctx))
				}
				for _, key := range keys {
					require.NoError(t, s.Until(ctx, key, contract.PhaseSucceeded))
				}
				worker, err := s.Dispatch(ctx, "doubt", "charge_lookup", provider.Hang)
				require.NoError(t, err)
				worker.Kill()
				require.NoError(t, s.Until(ctx, "doubt", contract.PhaseSucceeded))
				return worker.Start(ctx)
			},
			Ends: []drill.End{
				{Keys: keys, Phase: contract.PhaseSucceeded, Effects: 1, Retries: []string{"operation_frozen"}},
				{Keys: []string{"doubt"}, Phase: contract.PhaseSucceeded, Effects: 1, Attempts: drill.Range{Least: 1, Most: 1}},
			},
		},
		records: []recording{
			{"task/frozen", "task/freezes/f1", []string{markFirst, "effect", "stop", "report", "request", "decision", "effect", markSucceeded}},
			{"task/doubt-settled", "task/freezes/doubt", []string{markFirst, "effect", "report", markChild, "settle", markSucceeded}},
		},
	}
}

// auditScene finds an effect that no task explains, which freezes the operation.
func auditScene(t *testing.T) scene {
	return scene{
		Case: drill.Case{
			ID: "audits", Title: "an effect out of band is found",
			Play: func(ctx context.Context, s *drill.Scene) error {
				plant(ctx, t, s.World, "hg-recorded")
				eventually(ctx, t, "the audit finds it", func() bool {
					_, status := audit(ctx, t, s.World, "charge_listed")
					return status == 10
				})
				eventually(ctx, t, "the operation is frozen", func() bool {
					view, err := s.Door.Queue(ctx)
					return err == nil && len(view.Gates) == 1 && view.Gates[0].Frozen != nil
				})
				_, err := put[contract.FreezeReply](ctx, s.World, "/v1/operations/charge_listed/unfreeze", `{"actor": "operator"}`)
				return err
			},
		},
		records: []recording{
			{"findings/orphan", contract.FindingsID("charge_listed"), []string{markFirst, "note", markOpen}},
			{"audit/orphan", contract.AuditID("charge_listed"), []string{markFirst, "sweep", "note-findings", markSucceeded}},
		},
	}
}
