package testsuite

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// testDirectCounts: a task of a plain client takes a lease like any other, counts
// against the caps of its tenant, and is the task of its key for everybody.
func testDirectCounts(ctx context.Context, t *testing.T, world *drill.World) {
	const tenant = "caps" // one in flight, two queued
	c := plain(t, world)
	input := func(key string) contract.TaskInput {
		return contract.TaskInput{Tenant: tenant, Key: key, Agent: "a", Operation: "charge_slow", Priority: admission.High, Payload: charge(tenant, key)}
	}
	play(ctx, t, world, drill.Case{ID: tenant, Title: "started without the gateway", Play: func(ctx context.Context, s *drill.Scene) error {
		// 1. It runs, with a lease.
		require.NoError(t, s.FaultAs(ctx, tenant, "runs", provider.Fault{Kind: provider.HangBefore}))
		runs, err := direct(ctx, c, input("runs"))
		require.NoError(t, err)
		require.NoError(t, s.Provider.WaitFor(ctx, contract.ProviderKey(tenant, "runs"), provider.Counts{Requests: 1}))
		view := queue(ctx, t, world)
		require.Equal(t, 1, view.InFlight)
		require.Len(t, view.Leases, 1)
		require.Equal(t, contract.TaskID(tenant, "runs"), view.Leases[0].Task)
		require.Equal(t, tenant, view.Tenants[0].Name)
		require.Equal(t, 1, view.Tenants[0].InFlight)
		read, err := s.Door.Task(ctx, tenant, "runs")
		require.NoError(t, err)
		require.Equal(t, contract.PhaseDispatched, read.Task.Phase)
		require.Equal(t, []any{"charge_slow", "a", admission.High, 1}, []any{read.Task.Operation, read.Task.Agent, read.Task.Priority, read.Task.Attempts})

		// 2. The next one waits, for the tenant's own limit.
		waits, err := direct(ctx, c, input("waits"))
		require.NoError(t, err)
		eventually(ctx, t, "it is queued", func() bool { return queue(ctx, t, world).Depth == 1 })
		require.Contains(t, []admission.Reason{admission.TenantInFlight, admission.Standby}, queue(ctx, t, world).Tenants[0].WaitingOn)
		// 3. It counts for those that come through the gateway,
		answer, err := s.Door.Submit(ctx, "behind", submit(input("behind")))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, answer.Status)
		answer, err = s.Door.Submit(ctx, "over", submit(input("over")))
		require.NoError(t, err)
		require.Equal(t, []any{http.StatusTooManyRequests, "tenant_limit"}, []any{answer.Status, answer.Problem.Reason})
		// and they count for it.
		over, err := direct(ctx, c, input("over"))
		require.NoError(t, err)
		result := rejected(ctx, t, over)
		require.Equal(t, string(admission.TenantLimit), result.Reason)
		require.Positive(t, result.RetryAfter)

		// 4. A refused one is not a queued one, and its key is spent.
		read, err = s.Door.Task(ctx, tenant, "over")
		require.NoError(t, err)
		require.Equal(t, []any{contract.PhaseRejected, contract.DeliveryRejected, contract.ExecutionPending, contract.NextRetryLater},
			[]any{read.Task.Phase, read.Task.DeliveryState, read.Task.ExecutionState, read.Task.NextAction})
		answer, err = s.Door.Submit(ctx, "over", submit(input("over")))
		require.NoError(t, err)
		require.Equal(t, []any{http.StatusConflict, "task_rejected"}, []any{answer.Status, answer.Problem.Reason})
		require.Equal(t, 2, queue(ctx, t, world).Depth)

		// All are listed, as what they are.
		eventually(ctx, t, "the listing has caught up", func() bool {
			views, err := s.Door.Tasks(ctx, tenant)
			require.NoError(t, err)
			have := map[string]contract.Phase{}
			for _, v := range views {
				have[v.Key] = v.Phase
			}
			return len(views) == 4 && maps.Equal(have, map[string]contract.Phase{"runs": contract.PhaseDispatched,
				"waits": contract.PhaseAccepted, "behind": contract.PhaseAccepted, "over": contract.PhaseRejected})
		})

		// 5. The key means this task at the gateway too.
		answer, err = s.Door.Submit(ctx, "runs", submit(input("runs")))
		require.NoError(t, err)
		require.Equal(t, []any{http.StatusAccepted, contract.PhaseDispatched}, []any{answer.Status, answer.Task.Phase})
		other := submit(input("runs"))
		other.Payload = []byte(`{"amount":1}`)
		answer, err = s.Door.Submit(ctx, "runs", other)
		require.NoError(t, err)
		require.Equal(t, []any{http.StatusUnprocessableEntity, "key_reused"}, []any{answer.Status, answer.Problem.Reason})

		// 6. All that were taken are served, once.
		_, err = s.Provider.Release(ctx, "*")
		require.NoError(t, err)
		for _, run := range []client.WorkflowRun{runs, waits, c.GetWorkflow(ctx, contract.TaskID(tenant, "behind"), "")} {
			var done contract.TaskResult
			require.NoError(t, run.Get(ctx, &done))
			require.Equal(t, contract.PhaseSucceeded, done.Phase)
		}
		for key, want := range map[string]int{"runs": 1, "waits": 1, "behind": 1, "over": 0} {
			requireEffects(ctx, t, world, tenant, key, want)
		}

		// 7. The key stays spent when Temporal itself would start its ID again.
		again, err := direct(ctx, c, input("runs"))
		require.NoError(t, err)
		require.NotEqual(t, runs.GetRunID(), again.GetRunID())
		require.Contains(t, rejected(ctx, t, again).Detail, "key_reused")
		requireEffects(ctx, t, world, tenant, "runs", 1)
		return nil
	}})
}

// testDirectFull: when the queue is full, a plain client is refused as a client
// of the gateway is, and its critical work deferred.
func testDirectFull(ctx context.Context, t *testing.T, world *drill.World) {
	const capacity, soft, hard = 4, 8, 12 // of the drill's configuration
	c := plain(t, world)
	play(ctx, t, world, drill.Case{ID: "full", Title: "started without the gateway into a full queue", Play: func(ctx context.Context, s *drill.Scene) error {
		var runs []client.WorkflowRun
		start := func(tenant, key string, priority admission.Priority) client.WorkflowRun {
			run, err := direct(ctx, c, contract.TaskInput{Tenant: tenant, Key: key, Operation: "charge_slow", Priority: priority, Payload: charge(tenant, key)})
			require.NoError(t, err)
			return run
		}
		fill := func(tenant string, from, to int) {
			for i := from; i < to; i++ {
				runs = append(runs, start(tenant, fmt.Sprint("k", i), admission.Normal))
			}
		}
		_, err := s.Provider.Inject(ctx, provider.Fault{Key: "*", Kind: provider.HangBefore, Times: capacity})
		require.NoError(t, err)
		fill("heavy", 0, capacity)
		require.NoError(t, s.Provider.WaitFor(ctx, "*", provider.Counts{Requests: capacity}))
		fill("heavy", capacity, capacity+soft)
		eventually(ctx, t, "the soft limit is reached", func() bool { return queue(ctx, t, world).Depth == soft })
		fill("light", 0, hard-soft)
		eventually(ctx, t, "the hard limit is reached", func() bool { return queue(ctx, t, world).Depth == hard })

		result := rejected(ctx, t, start("late", "normal", admission.Normal))
		require.Equal(t, string(admission.QueueFull), result.Reason)
		require.Positive(t, result.RetryAfter)
		require.Equal(t, hard, queue(ctx, t, world).Depth)
		// Through the gateway, the refusal leaves no event at all. (The budget may
		// have something else to do in between, so it is tried again.)
		eventually(ctx, t, "five refusals leave no event", func() bool {
			before := budgetEvents(ctx, t, c)
			for range 5 {
				answer, err := s.Door.Submit(ctx, "again", contract.SubmitRequest{Tenant: "late", Operation: "charge_slow", Payload: charge("late", "again")})
				require.NoError(t, err)
				require.Equal(t, []any{http.StatusTooManyRequests, "queue_full"}, []any{answer.Status, answer.Problem.Reason})
			}
			return budgetEvents(ctx, t, c) == before
		})
		requireNoTask(ctx, t, c, contract.TaskID("late", "again"))

		runs = append(runs, start("late", "critical", admission.Critical))
		eventually(ctx, t, "critical work is deferred", func() bool { return queue(ctx, t, world).Depth == hard+1 })

		_, err = s.Provider.Release(ctx, "*")
		require.NoError(t, err)
		for _, run := range runs {
			require.NoError(t, run.Get(ctx, nil))
			tenant, key, ok := contract.ParseTaskID(run.GetID())
			require.True(t, ok)
			requireEffects(ctx, t, world, tenant, key, 1)
		}
		requireEffects(ctx, t, world, "late", "normal", 0)
		return nil
	}})
}

// testDirectInvalid: what the gateway would not let in ends REJECTED before the
// budget is asked.
func testDirectInvalid(ctx context.Context, t *testing.T, world *drill.World) {
	c := plain(t, world)
	good := contract.TaskInput{Tenant: "stranger", Key: "k", Operation: "charge", Payload: charge("stranger", "k")}
	before := budgetEvents(ctx, t, c)
	for _, bad := range []struct {
		id     string // of the workflow; empty: the task's own
		change func(in *contract.TaskInput)
		detail string
	}{
		{id: "task/stranger/another", detail: `want "task/stranger/k"`},
		{id: "task/somebody/k", detail: `want "task/stranger/k"`},
		{id: "k", detail: `want "task/stranger/k"`},
		{change: func(in *contract.TaskInput) { in.Key = "operation"; in.Operation = "charge_nothing" }, detail: "unknown_operation"},
		{change: func(in *contract.TaskInput) { in.Key = "payload"; in.Payload = []byte(`{"a":9007199254740993}`) }, detail: "invalid_payload"},
		{change: func(in *contract.TaskInput) { in.Key = "hash"; in.Hash = "sha256:0" }, detail: "invalid_payload"},
		{change: func(in *contract.TaskInput) { in.Key = "budget"; in.Budget = "mine" }, detail: "invalid_name"},
		{change: func(in *contract.TaskInput) { in.Key = "priority"; in.Operation = "" }, detail: "invalid_name"},
		{change: func(in *contract.TaskInput) { in.Tenant = "strange r" }, detail: "invalid_name"},
		{change: func(in *contract.TaskInput) { in.Key = strings.Repeat("k", 256) }, detail: "invalid_key"},
		{change: func(in *contract.TaskInput) {
			in.Key, in.Operation, in.Payload = "cost", "charge_many", []byte(`{"calls":5}`)
		}, detail: "cost_above_limit"},
	} {
		in := good
		if bad.change != nil {
			bad.change(&in)
		}
		id := bad.id
		if id == "" {
			id = contract.TaskID(in.Tenant, in.Key)
		}
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: contract.ControlQueue}, contract.TaskWorkflow, in)
		require.NoError(t, err)
		result := rejected(ctx, t, run)
		require.Equal(t, "invalid_request", result.Reason, id)
		require.Contains(t, result.Detail, bad.detail, id)
		require.Zero(t, result.RetryAfter)
	}
	require.Equal(t, before, budgetEvents(ctx, t, c), "the budget was not asked")
	requireEffects(ctx, t, world, "stranger", "k", 0)

	// Those whose ID is a task's are shown as what they are.
	answer, err := send(ctx, world, http.MethodGet, "/v1/tasks/stranger/operation", nil, nil)
	require.NoError(t, err)
	view := answer.view(t)
	require.Equal(t, []any{contract.PhaseRejected, contract.NextDoNotRetry, "charge_nothing"}, []any{view.Phase, view.NextAction, view.Operation})
	eventually(ctx, t, "the listing of refused tasks has caught up", func() bool {
		answer, err := send(ctx, world, http.MethodGet, "/v1/tasks?phase=rejected", nil, nil)
		require.NoError(t, err)
		return slices.ContainsFunc(answer.page(t).Tasks, func(v contract.TaskView) bool { return v.Task == "task/stranger/operation" })
	})
}

// rejected is the result of a task that was refused.
func rejected(ctx context.Context, t *testing.T, run client.WorkflowRun) contract.TaskResult {
	t.Helper()
	var refused *temporal.ApplicationError
	require.ErrorAs(t, run.Get(ctx, nil), &refused)
	require.Equal(t, contract.RejectedError, refused.Type())
	var result contract.TaskResult
	require.NoError(t, refused.Details(&result))
	require.Equal(t, contract.PhaseRejected, result.Phase)
	require.Zero(t, result.Attempts)
	return result
}

// submit is what a client of the gateway would send for the same task.
func submit(in contract.TaskInput) contract.SubmitRequest {
	return contract.SubmitRequest{Tenant: in.Tenant, Agent: in.Agent, Operation: in.Operation, Priority: in.Priority, Payload: in.Payload}
}

func requireEffects(ctx context.Context, t *testing.T, world *drill.World, tenant, key string, want int) {
	t.Helper()
	counts, err := world.Provider.Effects(ctx, contract.ProviderKey(tenant, key))
	require.NoError(t, err)
	require.Equal(t, want, counts.Effects, "effects of %s/%s", tenant, key)
	require.Equal(t, want, counts.Requests, "requests of %s/%s", tenant, key)
}
