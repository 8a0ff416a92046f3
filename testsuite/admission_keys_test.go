package testsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// testDeadKey (P25): a request whose task has failed is sent again, alone, and in one
// batch with new ones. It gets the same answer each time, and no second attempt.
func testDeadKey(ctx context.Context, t *testing.T, h *house) {
	const tenant = "p25"
	_, err := h.Provider.Inject(ctx, provider.Fault{Key: contract.ProviderKey(tenant, "dead"), Kind: provider.Status, Status: 400})
	require.NoError(t, err)
	h.accept(ctx, t, tenant, "dead", "charge")
	dead := h.until(ctx, t, tenant, "dead", contract.PhaseFailed)
	require.Equal(t, "rejected_by_provider", dead.ErrorClass)
	alone := h.accept(ctx, t, tenant, "dead", "charge")
	require.Equal(t, dead, alone)

	// One admission is held, so that all that comes meanwhile is one batch.
	held := h.Gateway.Proxy.Place(proxy.Update(proxy.Before, contract.AdmitUpdate))
	defer held.Release()
	var first sync.WaitGroup
	first.Go(func() { _, _ = h.ask(ctx, tenant, "first", "charge") })
	require.NoError(t, held.Reached(ctx))
	answers, errs := make([]drill.Answer, 9), make([]error, 9)
	key := func(i int) string {
		if i%3 == 0 {
			return "dead"
		}
		return fmt.Sprintf("new%d", i/3) // each twice
	}
	var all sync.WaitGroup
	all.Go(func() {
		atOnce(len(answers), func(i int) { answers[i], errs[i] = h.ask(ctx, tenant, key(i), "charge") })
	})
	held.Release()
	all.Wait()
	first.Wait()
	for i, a := range answers {
		require.NoError(t, errs[i])
		require.Equal(t, http.StatusAccepted, a.Status, "%s: %s", key(i), a.Problem.Detail)
		if key(i) == "dead" {
			require.Equal(t, dead, a.Task)
		}
	}
	for _, k := range []string{"first", "new0", "new1", "new2"} {
		h.until(ctx, t, tenant, k, contract.PhaseSucceeded)
		h.once(ctx, t, tenant, k)
	}
	counts, err := h.Provider.Effects(ctx, contract.ProviderKey(tenant, "dead"))
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{counts.Requests, counts.Effects})
}

// testSpellings (P26): one UUID as the key, bare and quoted, refused first and then
// accepted, one after the other and all at once: one task, one run, one effect.
func testSpellings(ctx context.Context, t *testing.T, h *house) {
	const tenant, key = "p26", "8e03978e-40d5-43e8-bc93-6894a57f9324"
	body, err := json.Marshal(contract.SubmitRequest{Tenant: tenant, Operation: "charge_slow", Payload: charge(tenant, key)})
	require.NoError(t, err)
	post := func(spelling string) reply {
		answer, err := send(ctx, h.World, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {spelling}}, body)
		require.NoError(t, err)
		return answer
	}
	// 1. The tenant is full: the request is refused, twice.
	h.hold(ctx, t)
	h.accept(ctx, t, tenant, "running", "charge_slow")
	h.accept(ctx, t, tenant, "waiting", "charge_slow")
	for _, spelling := range []string{key, `"` + key + `"`} {
		answer := post(spelling)
		require.Equal(t, string(admission.TenantLimit), answer.problem(t).Reason)
		requireNoTask(ctx, t, h.temporal, contract.TaskID(tenant, key))
	}
	h.goOn(ctx, t)
	h.until(ctx, t, tenant, "waiting", contract.PhaseSucceeded)
	h.idle(ctx, t)
	// 2. Accepted once; every other answer is about the same task.
	h.hold(ctx, t)
	var first reply // the gateway remembers for a moment that the tenant was full
	eventually(ctx, t, "it is accepted", func() bool {
		first = post(key)
		return first.status == http.StatusAccepted
	})
	require.Empty(t, first.header.Get("Idempotent-Replayed"))
	task := first.view(t)
	for _, spelling := range []string{key, `"` + key + `"`, " " + key} {
		again := post(spelling)
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		require.Equal(t, []string{task.Task, task.PayloadHash}, []string{again.view(t).Task, again.view(t).PayloadHash})
	}
	run, err := describe(ctx, h.temporal, task.Task)
	require.NoError(t, err)
	h.goOn(ctx, t)
	h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
	// 3. After its end too, and all at once.
	atOnce(6, func(i int) {
		answer, err := send(ctx, h.World, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {[]string{key, `"` + key + `"`}[i%2]}}, body)
		if err != nil || answer.status != http.StatusAccepted {
			t.Errorf("%d %s: %v", answer.status, answer.body, err)
		}
	})
	after, err := describe(ctx, h.temporal, task.Task)
	require.NoError(t, err)
	require.Equal(t, run.GetWorkflowExecutionInfo().GetExecution().GetRunId(), after.GetWorkflowExecutionInfo().GetExecution().GetRunId())
	h.once(ctx, t, tenant, key)
	eventually(ctx, t, "the tenant has three tasks", func() bool {
		tasks, err := h.Door.Tasks(ctx, tenant)
		return err == nil && len(tasks) == 3
	})
}

// testOtherBody (P27): another body under a key is 422 at every moment of the first
// one's way: while the budget is asked, while the task is started, while it runs;
// and of two at once, one is taken and the other is 422.
func testOtherBody(ctx context.Context, t *testing.T, h *house) {
	const tenant = "p27"
	other := func(r *contract.SubmitRequest) { r.Payload = []byte(`{"amount":1}`) }
	refused := func(key, when string) {
		t.Helper()
		answer, err := h.ask(ctx, tenant, key, "charge_slow", other)
		require.NoError(t, err)
		require.Equal(t, []any{http.StatusUnprocessableEntity, string(admission.KeyReused), contract.DeliveryRejected, ""},
			[]any{answer.Status, answer.Problem.Reason, answer.Problem.DeliveryState, answer.RetryAfter}, when)
	}
	h.hold(ctx, t)
	for when, rule := range map[string]proxy.Rule{
		"admitted": proxy.Update(proxy.After, contract.AdmitUpdate),
		"starting": proxy.Start(proxy.Before, contract.TaskID(tenant, "starting")),
		"started":  proxy.Start(proxy.After, contract.TaskID(tenant, "started")),
	} {
		point := h.Gateway.Proxy.Place(rule)
		answers := make(chan drill.Answer, 1)
		go func() {
			answer, _ := h.ask(ctx, tenant, when, "charge_slow")
			answers <- answer
		}()
		require.NoError(t, point.Reached(ctx))
		if when == "admitted" {
			// The next batch waits for this one's answer, so it goes out right after.
			second := make(chan struct{})
			go func() { defer close(second); refused(when, when) }()
			point.Release()
			<-second
		} else {
			refused(when, when)
			point.Release()
		}
		require.Equal(t, http.StatusAccepted, (<-answers).Status, when)
		refused(when, "it runs")
	}
	h.goOn(ctx, t)
	for _, key := range []string{"admitted", "starting", "started"} {
		h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
		refused(key, "it has ended")
		h.once(ctx, t, tenant, key)
	}
	for round := range 8 {
		key := fmt.Sprintf("both%d", round)
		var status [2]int
		atOnce(2, func(i int) {
			change := other
			if i == 0 {
				change = func(*contract.SubmitRequest) {}
			}
			answer, err := h.ask(ctx, tenant, key, "charge_slow", change)
			if err == nil {
				status[i] = answer.Status
			}
		})
		require.ElementsMatch(t, []int{http.StatusAccepted, http.StatusUnprocessableEntity}, status[:])
		h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
	}
}

// testBudgetCloses (P19): the budget's workflow is closed while an admission is
// under way. The client has a definite answer soon, and the same key is accepted
// once when there is a budget again. An update that is sent twice under one ID is
// answered the same.
func testBudgetCloses(ctx context.Context, t *testing.T, h *house) {
	const tenant = "p19"
	budget := contract.BudgetID(contract.DefaultBudget)
	twice := make([]contract.AdmitReply, 2)
	for i := range twice {
		handle, err := h.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: budget, UpdateID: "p19-update", UpdateName: contract.AdmitUpdate,
			Args:         []any{contract.AdmitRequest{Requests: []admission.Request{{Task: "task/p19/never-started", Attempt: 1, Tenant: tenant, Operation: "charge", Hash: "h"}}}},
			WaitForStage: client.WorkflowUpdateStageCompleted})
		require.NoError(t, err)
		require.NoError(t, handle.Get(ctx, &twice[i]))
	}
	require.Equal(t, twice[0], twice[1])
	require.NotEmpty(t, twice[0].Verdicts[0].Ticket)

	h.Control.Kill() // nobody answers the update
	point := h.Gateway.Proxy.Place(proxy.Update(proxy.Before, contract.AdmitUpdate))
	answers := make(chan drill.Answer, 1)
	go func() {
		answer, _ := h.ask(ctx, tenant, "k", "charge")
		answers <- answer
	}()
	require.NoError(t, point.Reached(ctx))
	point.Release()
	began := time.Now()
	require.NoError(t, h.temporal.TerminateWorkflow(ctx, budget, "", "by the test"))
	answer := <-answers
	require.Less(t, time.Since(began), 20*time.Second, "it hangs")
	require.Equal(t, []any{http.StatusServiceUnavailable, "budget_unavailable", contract.DeliveryRejected, contract.NextRetryLater},
		[]any{answer.Status, answer.Problem.Reason, answer.Problem.DeliveryState, answer.Problem.NextAction})
	require.NotEmpty(t, answer.RetryAfter)
	requireNoTask(ctx, t, h.temporal, contract.TaskID(tenant, "k"))

	require.NoError(t, h.Control.Start(ctx)) // with another budget
	eventually(ctx, t, "the same key is accepted", func() bool {
		answer, err := h.ask(ctx, tenant, "k", "charge")
		return err == nil && answer.Status == http.StatusAccepted
	})
	h.until(ctx, t, tenant, "k", contract.PhaseSucceeded)
	h.once(ctx, t, tenant, "k")
}

// testDecisionAgain (P19): a person's decision whose answer was lost is sent again
// when the task has ended, and is answered as it was; other words under its id are
// refused.
func testDecisionAgain(ctx context.Context, t *testing.T, h *house) {
	const tenant = "p19-decision"
	_, err := h.Provider.Inject(ctx, provider.Fault{Key: contract.ProviderKey(tenant, "k"), Kind: provider.Status, Status: 500, Commit: true})
	require.NoError(t, err)
	h.accept(ctx, t, tenant, "k", "charge")
	view := h.until(ctx, t, tenant, "k", contract.PhaseUnknown)
	word := func(evidence string) []byte {
		return fmt.Appendf(nil, `{"id":"d1","actor":"ann","outcome":"happened","evidence":%q,"version":%d}`, evidence, view.Reconciliation.Version)
	}
	path := "/v1/tasks/" + tenant + "/k/resolve"
	var answers []contract.ResolveReply
	for range 3 {
		answer, err := send(ctx, h.World, http.MethodPost, path, nil, word("seen in the ledger"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.status, "%s", answer.body)
		var got contract.ResolveReply
		require.NoError(t, json.Unmarshal(answer.body, &got))
		answers = append(answers, got)
		require.Equal(t, answers[0], got)
		h.until(ctx, t, tenant, "k", contract.PhaseSucceeded)
	}
	other, err := send(ctx, h.World, http.MethodPost, path, nil, word("guessed"))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, other.status, "%s", other.body)
	h.once(ctx, t, tenant, "k")
}
