package testsuite

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// testReads brings tasks into every phase, kills all workers, and reads them;
// then it kills the server and the gateway, starts only these again, and reads
// them once more. The tasks are named after their phases.
func testReads(ctx context.Context, t *testing.T, world *drill.World) {
	once := []string{"accepted", "leased", "claimed", "dispatched", "succeeded"}
	play(ctx, t, world, drill.Case{ID: "phases", Title: "every phase is read", Play: func(ctx context.Context, s *drill.Scene) error {
		stageEveryPhase(ctx, t, s)
		kill(append([]*drill.Process{s.Control}, s.Workers...)...)

		views := readAll(ctx, t, s)
		for phase, view := range views {
			require.Equal(t, phase, view.Phase)
		}
		listAll(ctx, t, s)
		requireClosed(ctx, t, s)

		kill(s.Gateway)
		restart(ctx, t, s.Server)
		serves := make(chan error, 1) // a gateway serves when it shows the budget; it answers before
		go func() { serves <- s.Gateway.Start(ctx) }()
		eventually(ctx, t, "the gateway answers", func() bool {
			answer, err := send(ctx, world, http.MethodGet, "/healthz", nil, nil)
			return err == nil && answer.status == http.StatusOK
		})
		for phase, view := range readAll(ctx, t, s) {
			// What was claimed may have timed out by now. It is shown as a task that has
			// not acted; one that may have acted never is.
			if phase == contract.PhaseClaimed && view.Phase != phase {
				require.Equal(t, contract.PhaseLeased, view.Phase)
				continue
			}
			view.Worker, view.Detail, view.Retries = views[phase].Worker, views[phase].Detail, views[phase].Retries
			require.Equal(t, views[phase], view)
		}

		for _, p := range append([]*drill.Process{s.Control}, s.Workers...) {
			require.NoError(t, p.Start(ctx))
		}
		require.NoError(t, <-serves)
		_, err := s.Provider.ClearFaults(ctx)
		require.NoError(t, err)
		_, err = s.Provider.Release(ctx, "*")
		require.NoError(t, err)
		unknown := views[contract.PhaseUnknown].Reconciliation
		require.NotNil(t, unknown)
		answer, err := s.Door.Resolve(ctx, s.Tenant, "unknown", contract.Resolution{ID: "read", Actor: "operator", Outcome: contract.Happened,
			Evidence: "the provider's own ledger was read", Version: unknown.Version})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.Status, "the version that was read without a worker is the current one: %s", answer.Problem.Detail)
		for _, key := range append([]string{"unknown", "reconciling"}, once...) {
			require.NoError(t, s.Until(ctx, key, contract.PhaseSucceeded))
		}
		return nil
	}, Ends: []drill.End{
		{Keys: append([]string{"unknown", "reconciling"}, once...), Phase: contract.PhaseSucceeded, Effects: 1},
		{Keys: []string{"failed"}, Phase: contract.PhaseFailed},
		{Keys: []string{"cancelled"}, Phase: contract.PhaseCancelled},
		{Keys: []string{"expired"}, Phase: contract.PhaseExpired},
	}})
}

// stageEveryPhase leaves one task in each phase. The scene's tenant may have three
// tasks in flight.
func stageEveryPhase(ctx context.Context, t *testing.T, s *drill.Scene) {
	worker := s.Workers[0] // of two slots
	kill(s.Workers[1])
	// The ends.
	require.NoError(t, s.Fault(ctx, "failed", provider.Fault{Kind: provider.Status, Status: 400}))
	for key, phase := range map[string]contract.Phase{"succeeded": contract.PhaseSucceeded, "failed": contract.PhaseFailed} {
		require.NoError(t, s.Submit(ctx, key, "charge"))
		require.NoError(t, s.Until(ctx, key, phase))
	}
	require.NoError(t, s.Door.Pause(ctx, s.Tenant, "staged"))
	deadline := time.Now().Add(time.Second)
	answer, err := s.Door.Submit(ctx, "expired", contract.SubmitRequest{Tenant: s.Tenant, Operation: "charge", Deadline: &deadline, Payload: charge(s.Tenant, "expired")})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.Status, answer.Problem.Detail)
	require.NoError(t, s.Submit(ctx, "expired", "charge"), "the same task again")
	require.NoError(t, s.Submit(ctx, "cancelled", "charge"))
	order(ctx, t, s.World, "/v1/tasks/"+s.Tenant+"/cancelled/cancel", "")
	require.NoError(t, s.Until(ctx, "cancelled", contract.PhaseCancelled))
	require.NoError(t, s.Until(ctx, "expired", contract.PhaseExpired))
	require.NoError(t, s.Door.Resume(ctx, s.Tenant))
	run, err := direct(ctx, plain(t, s.World), contract.TaskInput{Tenant: "refused", Key: "rejected", Operation: "charge_nothing"})
	require.NoError(t, err)
	rejected(ctx, t, run)
	// The doubts.
	require.NoError(t, s.Fault(ctx, "reconciling", provider.Fault{Kind: provider.Status, On: provider.OnLookup, Status: 500, Times: -1}))
	for key, operation := range map[string]string{"unknown": "charge", "reconciling": "charge_lookup"} {
		_, err := s.Dispatch(ctx, key, operation, provider.Hang)
		require.NoError(t, err)
	}
	kill(worker)
	require.NoError(t, s.Until(ctx, "unknown", contract.PhaseUnknown))
	require.NoError(t, s.Until(ctx, "reconciling", contract.PhaseReconciling))
	require.NoError(t, worker.Start(ctx))
	require.NoError(t, s.Seen(ctx, "reconciling", provider.Counts{Lookups: 1}))
	// Both slots, one lease more than slots, and one task more than leases.
	_, err = s.Dispatch(ctx, "dispatched", "charge_patient", provider.HangBefore)
	require.NoError(t, err)
	claimed := s.HoldBeat(proxy.After, "claimed", admission.StepClaimed)
	require.NoError(t, s.Submit(ctx, "claimed", "charge_patient"))
	_, _, err = claimed.Reached(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Submit(ctx, "leased", "charge_lookup"))
	require.NoError(t, s.Until(ctx, "leased", contract.PhaseLeased), "what the lost worker held is free again")
	require.NoError(t, s.Submit(ctx, "accepted", "charge_lookup"))
}

// tenantOf is where the task of a phase is: the rejected one came by itself.
func tenantOf(s *drill.Scene, phase contract.Phase) string {
	if phase == contract.PhaseRejected {
		return "refused"
	}
	return s.Tenant
}

// readAll reads the task of each phase and its explanation.
func readAll(ctx context.Context, t *testing.T, s *drill.Scene) map[contract.Phase]contract.TaskView {
	t.Helper()
	views := map[contract.Phase]contract.TaskView{}
	for _, phase := range contract.Phases() {
		tenant, key := tenantOf(s, phase), string(phase)
		answer, err := s.Door.Task(ctx, tenant, key)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.Status, "%s: %s", phase, answer.Problem.Detail)
		view := answer.Task
		require.Equal(t, contract.TaskID(tenant, key), view.Task)
		require.NotEmpty(t, view.Operation)
		delivery, execution := view.Phase.States()
		require.Equal(t, []any{delivery, execution}, []any{view.DeliveryState, view.ExecutionState}, phase)
		views[phase] = view
		story, err := s.Door.Explain(ctx, tenant, key)
		require.NoError(t, err)
		require.Equal(t, view.Phase, story.Task.Phase)
		require.NotEmpty(t, story.Sentence)
		require.NotEmpty(t, story.Events)
	}
	return views
}

// listAll lists the tenant's tasks, whole and by phase. The index may lag.
func listAll(ctx context.Context, t *testing.T, s *drill.Scene) {
	t.Helper()
	var want []string
	for _, phase := range contract.Phases() {
		if phase == contract.PhaseRejected {
			continue
		}
		want = append(want, contract.TaskID(s.Tenant, string(phase)))
		eventually(ctx, t, string(phase)+" is listed", func() bool {
			answer, err := send(ctx, s.World, http.MethodGet, "/v1/tasks?tenant="+s.Tenant+"&phase="+string(phase), nil, nil)
			require.NoError(t, err)
			tasks := answer.page(t).Tasks
			return len(tasks) == 1 && tasks[0].Key == string(phase) && tasks[0].Phase == phase
		})
	}
	slices.Sort(want)
	eventually(ctx, t, "all are listed, each once", func() bool {
		views, err := s.Door.Tasks(ctx, s.Tenant)
		require.NoError(t, err)
		var have []string
		for _, v := range views {
			require.Equal(t, v.Key, string(v.Phase))
			have = append(have, v.Task)
		}
		slices.Sort(have)
		return slices.Equal(want, have)
	})
}

// requireClosed: without a worker nothing new is promised, and what was promised
// still stands.
func requireClosed(ctx context.Context, t *testing.T, s *drill.Scene) {
	t.Helper()
	answer, err := s.Door.Submit(ctx, "new", contract.SubmitRequest{Tenant: "refused", Operation: "charge"})
	require.NoError(t, err)
	require.Equal(t, []any{http.StatusServiceUnavailable, "budget_unavailable", contract.DeliveryRejected},
		[]any{answer.Status, answer.Problem.Reason, answer.Problem.DeliveryState})
	require.NotEmpty(t, answer.RetryAfter)
	requireNoTask(ctx, t, plain(t, s.World), contract.TaskID("refused", "new"))
	read, err := s.Door.Submit(ctx, "accepted", contract.SubmitRequest{Tenant: s.Tenant, Operation: "charge_lookup", Payload: charge(s.Tenant, "accepted")})
	require.NoError(t, err)
	require.Equal(t, []any{http.StatusAccepted, contract.PhaseAccepted}, []any{read.Status, read.Task.Phase})
}
