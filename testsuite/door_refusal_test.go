package testsuite

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// refusal is a request that can never be taken as it is.
type refusal struct {
	name   string
	keys   []string // Idempotency-Key fields as they are; nil: one good key
	kind   string   // content type; empty: JSON
	body   string
	status int
	reason string
}

// submission is a good body with some text put in its place.
func submission(operation, rest string) string {
	return fmt.Sprintf(`{"tenant":"refused","operation":%q,%s}`, operation, rest)
}

func refusals() []refusal {
	good := submission("charge", `"payload":{"amount":1}`)
	payload := func(text string) string { return submission("charge", `"payload":`+text) }
	with := func(field string) string { return submission("charge", field+`,"payload":1`) }
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	soon, later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339), time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339)
	return []refusal{
		{"no key", []string{}, "", good, 400, "idempotency_key_missing"},
		{"an empty field", []string{""}, "", good, 400, "idempotency_key_invalid"},
		{"an empty key", []string{`""`}, "", good, 400, "idempotency_key_invalid"},
		{"two keys", []string{`"k"`, `"k"`}, "", good, 400, "idempotency_key_invalid"},
		{"a list of keys", []string{`a, b`}, "", good, 400, "idempotency_key_invalid"},
		{"a key without its end", []string{`"k`}, "", good, 400, "idempotency_key_invalid"},
		{"a key that is no text", []string{`"ключ"`}, "", good, 400, "idempotency_key_invalid"},
		{"a bare key that is no ASCII", []string{`ключ`}, "", good, 400, "idempotency_key_invalid"},
		{"a key of 256 bytes", []string{strings.Repeat("k", 256)}, "", good, 400, "idempotency_key_invalid"},

		{"no body", nil, "", "", 400, "invalid_request"},
		{"not JSON", nil, "", `{"tenant":`, 400, "invalid_request"},
		{"no object", nil, "", `["refused"]`, 400, "invalid_request"},
		{"two objects", nil, "", good + good, 400, "invalid_request"},
		{"another kind of content", nil, "text/plain", good, 415, "unsupported_media_type"},
		{"bad UTF-8", nil, "", payload("\"\xff\""), 400, "invalid_request"},
		{"a body above its limit", nil, "", payload(`"` + strings.Repeat("x", contract.MaxPayload+16<<10) + `"`), 413, "payload_too_large"},
		{"a payload one byte above its limit", nil, "", payload(`"` + strings.Repeat("x", contract.MaxPayload-1) + `"`), 413, "payload_too_large"},

		{"an unknown field", nil, "", with(`"amount":1`), 400, "invalid_request"},
		{"a field in another case", nil, "", with(`"Agent":"a"`), 400, "invalid_request"},
		{"a field twice", nil, "", with(`"tenant":"refused"`), 400, "invalid_request"},
		{"a number for a name", nil, "", with(`"agent":1`), 400, "invalid_request"},
		{"an unknown priority", nil, "", with(`"priority":"urgent"`), 400, "invalid_request"},
		{"a time that is none", nil, "", with(`"deadline":"tomorrow"`), 400, "invalid_request"},
		{"no tenant", nil, "", `{"operation":"charge","payload":1}`, 400, "invalid_name"},
		{"a tenant with a slash", nil, "", `{"tenant":"refused/x","operation":"charge"}`, 400, "invalid_name"},
		{"a tenant that is too long", nil, "", `{"tenant":"` + strings.Repeat("t", 65) + `","operation":"charge"}`, 400, "invalid_name"},
		{"an agent that is no name", nil, "", with(`"agent":"-"`), 400, "invalid_name"},
		{"no operation", nil, "", `{"tenant":"refused"}`, 400, "invalid_name"},
		{"an unknown operation", nil, "", submission("charge_nothing", `"payload":1`), 400, "unknown_operation"},

		{"a payload with a name twice", nil, "", payload(`{"a":1,"a":1}`), 400, "invalid_payload"},
		{"a payload with a whole number that not all can hold", nil, "", payload(`9007199254740993`), 400, "invalid_payload"},
		{"a payload with a number that none can hold", nil, "", payload(`1e400`), 400, "invalid_payload"},
		{"a payload with half a character", nil, "", payload(`"\ud800"`), 400, "invalid_payload"},
		{"a payload that is too deep", nil, "", payload(strings.Repeat("[", 65) + strings.Repeat("]", 65)), 400, "invalid_payload"},

		{"a cost above the limit", nil, "", submission("charge_many", `"payload":{"calls":5}`), 400, "cost_above_limit"},
		{"a cost of nothing", nil, "", submission("charge_many", `"payload":{"calls":0}`), 400, "invalid_payload"},
		{"a cost that cannot be told", nil, "", submission("charge_many", `"payload":{}`), 400, "invalid_payload"},
		{"a deadline that has passed", nil, "", with(`"deadline":"` + past + `"`), 400, "expired"},
		{"a start after the deadline", nil, "", with(`"deadline":"` + soon + `","not_before":"` + later + `"`), 400, "invalid_time"},
	}
}

// testRefusals: each of them gets a problem document, and leaves nothing behind.
func testRefusals(ctx context.Context, t *testing.T, world *drill.World) {
	const key = "refused"
	c := plain(t, world)
	before := traces(ctx, t, world, c)
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			header := http.Header{"Idempotency-Key": {key}}
			if r.keys != nil {
				header["Idempotency-Key"] = r.keys
			}
			if r.kind != "" {
				header.Set("Content-Type", r.kind)
			}
			answer, err := send(ctx, world, http.MethodPost, "/v1/tasks", header, []byte(r.body))
			require.NoError(t, err)
			p := answer.problem(t)
			require.Equal(t, []any{r.status, r.reason}, []any{p.Status, p.Reason}, p.Detail)
			require.Equal(t, contract.DeliveryRejected, p.DeliveryState)
			require.Equal(t, contract.NextDoNotRetry, p.NextAction)
			require.NotEmpty(t, p.Title)
			require.NotEmpty(t, p.Detail)
			require.Regexp(t, `^https://[a-z./]+/[a-z-]+$`, p.Type)
			require.Empty(t, answer.header.Get("Retry-After"), "time does not mend it")
		})
	}
	for _, other := range []struct {
		method, path string
		header       http.Header
		reason       string
	}{
		{http.MethodPut, "/v1/tasks", nil, "method_not_allowed"},
		{http.MethodGet, "/v1/tasks/refused", nil, "no_such_route"},
		{http.MethodGet, "/v1/tasks?colour=red", nil, "invalid_request"},
		{http.MethodPost, "/v1/tasks", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Idempotency-Key": {key}}, "cross_origin"},
		{http.MethodPost, "/v1/tasks/refused/" + key + "/cancel", nil, "task_not_found"},
	} {
		answer, err := send(ctx, world, other.method, other.path, other.header, nil)
		require.NoError(t, err)
		require.Equal(t, other.reason, answer.problem(t).Reason, "%s %s", other.method, other.path)
	}
	require.Equal(t, before, traces(ctx, t, world, c))
	requireNoTask(ctx, t, c, contract.TaskID("refused", key))

	// The same, as large as it may be.
	longest := strings.Repeat("k", contract.MaxKey)
	text := string(charge("refused", longest))
	full := strings.Replace(text, "{", `{"_":"`+strings.Repeat("x", contract.MaxPayload-len(text)-len(`"_":"",`))+`",`, 1)
	require.Len(t, full, contract.MaxPayload)
	answer, err := send(ctx, world, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {longest}}, []byte(submission("charge", `"payload":`+full)))
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.status, "%s", answer.body)
	require.NoError(t, world.Provider.WaitFor(ctx, contract.ProviderKey("refused", longest), provider.Counts{Effects: 1}))
	eventually(ctx, t, "it has ended", func() bool {
		read, err := world.Door.Task(ctx, "refused", longest)
		return err == nil && read.Task.Phase == contract.PhaseSucceeded
	})
}

// trace is what a request that was taken would leave behind.
type trace struct {
	depth, leases int
	tasks         int64 // workflows in the index
	budgetEvents  int64 // in the budget's history
}

func traces(ctx context.Context, t *testing.T, world *drill.World, c client.Client) trace {
	t.Helper()
	view := queue(ctx, t, world)
	tasks, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: "WorkflowType = '" + contract.TaskWorkflow + "'"})
	require.NoError(t, err)
	return trace{view.Depth, view.InFlight, tasks.GetCount(), budgetEvents(ctx, t, c)}
}

func queue(ctx context.Context, t *testing.T, world *drill.World) admission.View {
	t.Helper()
	view, err := world.Door.Queue(ctx)
	require.NoError(t, err)
	return view
}

func budgetEvents(ctx context.Context, t *testing.T, c client.Client) int64 {
	t.Helper()
	budget, err := describe(ctx, c, contract.BudgetID(contract.DefaultBudget))
	require.NoError(t, err)
	return budget.GetWorkflowExecutionInfo().GetHistoryLength()
}

func requireNoTask(ctx context.Context, t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := describe(ctx, c, id)
	var missing *serviceerror.NotFound
	require.ErrorAs(t, err, &missing, id)
}
