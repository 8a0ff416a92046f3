package testsuite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commands "go.temporal.io/api/command/v1"
	"go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	updates "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/proxy"
	"headgate/workflows"
)

// pause is an update that the budget always takes. The server's own word that a
// run, or the end of one, came in between is no error: it is sent again. So is what
// the SDK gave up after a minute: where ten are in flight its retries back off, and
// some are overtaken again and again on a slow machine.
func (h *house) pause(ctx context.Context, tenant string, dispatch bool) error {
	for try := 0; ; try++ {
		handle, err := h.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: contract.BudgetID(contract.DefaultBudget), UpdateName: contract.PauseUpdate,
			Args: []any{contract.PauseRequest{Tenant: tenant, Dispatch: dispatch, Actor: "operator"}}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = handle.Get(ctx, nil)
		}
		var app *temporal.ApplicationError
		var between *serviceerror.WorkflowNotReady
		var overtaken *client.WorkflowUpdateServiceTimeoutOrCanceledError
		if errors.As(err, &overtaken) && ctx.Err() == nil {
			continue
		}
		if try < 3 && (errors.As(err, &app) && app.Type() == "AcceptedUpdateCompletedWorkflow" || errors.As(err, &between)) {
			continue
		}
		return err
	}
}

// testManyAtOnce (P20): the server takes ten updates in flight for one workflow. With
// more, each caller has a definite answer: at once from a budget that runs, and
// 503 with Retry-After from one that does not.
func testManyAtOnce(ctx context.Context, t *testing.T, h *house) {
	const inFlight, tenant = 10, "p20"
	atOnce(5*inFlight, func(i int) {
		if err := h.pause(ctx, fmt.Sprintf("p20-%d", i), false); err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	})
	h.Control.Kill()
	var waiting sync.WaitGroup
	var failed atomic.Int32
	for i := range inFlight {
		point := h.Gateway.Proxy.Place(proxy.Update(proxy.Before, contract.PauseUpdate))
		waiting.Go(func() {
			if err := h.pause(ctx, fmt.Sprintf("p20-%d", i), false); err != nil {
				failed.Add(1)
				t.Errorf("update %d: %v", i, err)
			}
		})
		require.NoError(t, point.Reached(ctx))
		point.Release()
	}
	h.untilFull(ctx, t)
	began := time.Now()
	answers := make([]drill.Answer, 3)
	atOnce(len(answers), func(i int) {
		var err error
		if answers[i], err = h.ask(ctx, tenant, fmt.Sprint(i), "charge"); err != nil {
			t.Error(err)
		}
	})
	require.Less(t, time.Since(began), 30*time.Second)
	for _, a := range answers {
		require.Equal(t, []any{http.StatusServiceUnavailable, "budget_unavailable", contract.DeliveryRejected, contract.NextRetryLater},
			[]any{a.Status, a.Problem.Reason, a.Problem.DeliveryState, a.Problem.NextAction}, a.Problem.Detail)
		require.NotEmpty(t, a.RetryAfter)
	}
	require.NoError(t, h.Control.Start(ctx))
	waiting.Wait()
	require.Zero(t, failed.Load(), "those that were in flight have their answers")
	for i := range answers {
		key := fmt.Sprint(i)
		eventually(ctx, t, "the same key is accepted", func() bool {
			answer, err := h.ask(ctx, tenant, key, "charge")
			return err == nil && answer.Status == http.StatusAccepted
		})
		h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
		h.once(ctx, t, tenant, key)
	}
}

// untilFull sends updates until the server takes no more. It asks without the SDK,
// which would try again and again.
func (h *house) untilFull(ctx context.Context, t *testing.T) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+h.Gateway.Proxy.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	require.NoError(t, err)
	defer conn.Close()
	args, err := converter.GetDefaultDataConverter().ToPayloads(contract.PauseRequest{Tenant: "p20-full", Actor: "operator"})
	require.NoError(t, err)
	n := 0
	defer func() { t.Logf("full after %d more", n-1) }()
	eventually(ctx, t, "the server takes no more", func() bool {
		n++
		soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := workflowservice.NewWorkflowServiceClient(conn).UpdateWorkflowExecution(soon, &workflowservice.UpdateWorkflowExecutionRequest{
			Namespace:         "default",
			WorkflowExecution: &common.WorkflowExecution{WorkflowId: contract.BudgetID(contract.DefaultBudget)},
			WaitPolicy:        &updates.WaitPolicy{LifecycleStage: enums.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED},
			Request: &updates.Request{Meta: &updates.Meta{UpdateId: fmt.Sprintf("full-%d", n), Identity: "test"},
				Input: &updates.Input{Name: contract.PauseUpdate, Args: args}},
		})
		return status.Code(err) == codes.ResourceExhausted
	})
}

// testManyInAll (P20): the server takes 2,000 updates for one run. With 2,100 nobody
// is refused, since the budget has begun a new run before.
func testManyInAll(ctx context.Context, t *testing.T, h *house) {
	const all, callers, most = 2100, 8, 2000
	before := len(budgetHistories(ctx, t, h.temporal))
	var next, failed atomic.Int32
	var calls sync.WaitGroup
	began := time.Now()
	for range callers {
		calls.Go(func() {
			for n := next.Add(1); n <= all && failed.Load() == 0; n = next.Add(1) {
				if err := h.pause(ctx, fmt.Sprintf("p20-%d", n%7), n%2 == 0); err != nil {
					failed.Add(1)
					t.Errorf("update %d: %v", n, err)
				}
			}
		})
	}
	// The door stays open meanwhile.
	for i := range 10 {
		key := fmt.Sprintf("between%d", i)
		h.accept(ctx, t, "p20-door", key, "charge")
		h.until(ctx, t, "p20-door", key, contract.PhaseSucceeded)
	}
	calls.Wait()
	require.Zero(t, failed.Load())
	runs := budgetHistories(ctx, t, h.temporal)
	t.Logf("%d updates in %s, %d runs", all, time.Since(began).Round(time.Millisecond), len(runs)-before+1)
	require.Greater(t, len(runs), before)
	for _, run := range runs {
		require.Less(t, accepted(run), most)
	}
	for i := range 7 {
		require.NoError(t, h.pause(ctx, fmt.Sprintf("p20-%d", i), false))
	}
}

// accepted counts the updates that a run took.
func accepted(run *history.History) (n int) {
	for _, e := range run.GetEvents() {
		if e.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED {
			n++
		}
	}
	return n
}

// TestBudgetUnderTraffic keeps a budget busy whose server suggests a new run after
// 200 events.
func TestBudgetUnderTraffic(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h := newHouse(ctx, t, "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=200")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(h.Logs(25))
		}
	})
	t.Run("P17 and P21 new runs under constant traffic", func(t *testing.T) { testTraffic(ctx, t, h) })
	t.Run("P18 two signals meet the command that ends a run", func(t *testing.T) { testUnhandled(ctx, t, h) })
}

// testTraffic (P17, P21): tasks and bare signals come without a pause. Runs end all
// the same, none goes on once that is suggested, each replays in no time, and
// nothing is lost from one to the next.
func testTraffic(ctx context.Context, t *testing.T, h *house) {
	const clients, enough, suggested = 6, 8, 200
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	var flood sync.WaitGroup
	signals := 0
	flood.Go(func() { // a signal is always under way
		for flooding.Err() == nil {
			if h.temporal.SignalWorkflow(flooding, contract.BudgetID(contract.DefaultBudget), "", contract.ReportSignal, contract.ReportBatch{}) == nil {
				signals++
			}
		}
	})
	var all sync.WaitGroup
	var done atomic.Bool
	var mu sync.Mutex
	tasks, again := make([]int, clients), map[string]int{} // by what was answered
	for i := range clients {
		all.Go(func() {
			tenant := fmt.Sprintf("p21-%d", i)
			for n := 0; !done.Load() && ctx.Err() == nil; n++ {
				tasks[i]++
				key := fmt.Sprint(n)
				eventually(ctx, t, "it is accepted", func() bool { // as a client does: the same key again
					answer, err := h.ask(ctx, tenant, key, "charge")
					if err == nil && answer.Status == http.StatusAccepted {
						return true
					}
					mu.Lock()
					defer mu.Unlock()
					again[fmt.Sprint(answer.Status, " ", answer.Problem.Detail)]++
					if err != nil || answer.RetryAfter == "" {
						t.Errorf("%s/%s: %d %s %v", tenant, key, answer.Status, answer.Problem.Detail, err)
						return true
					}
					return false
				})
				_, err := send(ctx, h.World, http.MethodGet, fmt.Sprintf("/v1/tasks/%s/%d?wait=10s", tenant, max(0, n-1)), nil, nil)
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	began := time.Now()
	seen := map[string]bool{}
	eventually(ctx, t, "the budget has begun new runs", func() bool {
		if now, err := describe(ctx, h.temporal, contract.BudgetID(contract.DefaultBudget)); err == nil {
			seen[now.GetWorkflowExecutionInfo().GetExecution().GetRunId()] = true
		}
		return len(seen) > enough
	})
	done.Store(true)
	all.Wait()
	stop()
	flood.Wait()
	sum := 0
	for i, n := range tasks {
		sum += n
		for k := range n {
			tenant, key := fmt.Sprintf("p21-%d", i), fmt.Sprint(k)
			h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
			h.once(ctx, t, tenant, key)
		}
	}
	h.idle(ctx, t)
	runs := budgetHistories(ctx, t, h.temporal)
	t.Logf("%d tasks and %d signals in %s over %d runs; asked again %v", sum, signals, time.Since(began).Round(time.Millisecond), len(runs), again)
	require.Greater(t, len(runs), enough)
	require.GreaterOrEqual(t, sum, 20)
	require.Positive(t, signals)
	unhandled := 0
	for i, run := range runs {
		if refusedCommand(run) {
			unhandled++
		}
		began := time.Now()
		if len(run.GetEvents()) > 2*suggested { // whatever comes while no worker answers is in the history
			t.Logf("run %d has %d events: %s", i, len(run.GetEvents()), pauses(run))
		}
		require.LessOrEqual(t, tasksAfterSuggested(run), 3, "run %d went on: %s", i, pauses(run))
		replayer := worker.NewWorkflowReplayer()
		workflows.Register(replayer)
		require.NoError(t, replayer.ReplayWorkflowHistoryWithOptions(quiet(), run, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{
			ID: contract.BudgetID(contract.DefaultBudget), RunID: run.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()}}), "run %d", i)
		require.Less(t, time.Since(began), 5*time.Second, "a workflow task has ten seconds")
	}
	t.Logf("in %d runs something came with the command that ended them", unhandled)
}

// testUnhandled (P18): the command that ends a run is held on its way to the server,
// and two releases come meanwhile. The server refuses the command, and the run
// that follows has both: no lease is left to wait for the budget's look at it.
func testUnhandled(ctx context.Context, t *testing.T, h *house) {
	const tenant = "p18"
	h.hold(ctx, t)
	keys := []string{"one", "two"}
	for _, key := range keys {
		h.accept(ctx, t, tenant, key, "charge_slow") // its lease is looked at after a minute
		eventually(ctx, t, "the provider has it in hand", func() bool {
			counts, err := h.Provider.Effects(ctx, contract.ProviderKey(tenant, key))
			return err == nil && counts.Requests == 1
		})
	}
	ending := h.Control.Proxy.Place(proxy.On(proxy.Before, func(r *workflowservice.RespondWorkflowTaskCompletedRequest) bool {
		for _, c := range r.GetCommands() {
			if isNewBudgetRun(c) {
				return true
			}
		}
		return false
	}))
	defer ending.Release()
	busy, stop := context.WithCancel(ctx)
	defer stop()
	var busily sync.WaitGroup
	busily.Go(func() {
		for busy.Err() == nil {
			_ = h.pause(busy, "p18-other", false)
		}
	})
	require.NoError(t, ending.Reached(ctx))
	ended, err := describe(ctx, h.temporal, contract.BudgetID(contract.DefaultBudget))
	require.NoError(t, err)
	run := ended.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	for _, key := range keys {
		err := h.temporal.SignalWorkflow(ctx, contract.BudgetID(contract.DefaultBudget), run, contract.ReportSignal, contract.ReportBatch{Reports: []admission.Report{
			{Task: contract.TaskID(tenant, key), Attempt: 1, Kind: admission.Released, Class: admission.Succeeded}}})
		require.NoError(t, err)
	}
	ending.Release()
	stop()
	busily.Wait()
	// The tasks are still held, so only the two signals can have returned the leases.
	began := time.Now()
	eventually(ctx, t, "both leases are back", func() bool {
		view, err := h.Door.Queue(ctx)
		return err == nil && view.InFlight == 0
	})
	require.Less(t, time.Since(began), 40*time.Second, "the budget had to look for them")
	events := fetchHistory(ctx, t, h.temporal, contract.BudgetID(contract.DefaultBudget), run)
	require.True(t, refusedCommand(events), "the server has refused the command")
	require.Equal(t, enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, events.GetEvents()[len(events.GetEvents())-1].GetEventType(), "the run has ended after all")
	h.goOn(ctx, t)
	for _, key := range keys {
		h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
		h.once(ctx, t, tenant, key)
	}
	h.idle(ctx, t)
}

func isNewBudgetRun(c *commands.Command) bool {
	return c.GetContinueAsNewWorkflowExecutionCommandAttributes().GetWorkflowType().GetName() == contract.BudgetWorkflow
}
