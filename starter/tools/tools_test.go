package tools

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/client"
	"headgate/contract"
)

// gateway answers every request alike, and remembers it.
type gateway struct {
	*httptest.Server
	status int
	body   any
	line   string
	key    string
	auth   string
	sent   string
	asked  int
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{status: 200}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		g.asked++
		g.line, g.sent, g.key, g.auth = r.Method+" "+r.URL.RequestURI(), string(text), r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization")
		if g.status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(g.status)
		_ = json.NewEncoder(w).Encode(g.body)
	}))
	t.Cleanup(g.Close)
	return g
}

func view(phase contract.Phase) contract.TaskView {
	v := contract.TaskView{Tenant: "acme", Key: "order-7/refund", Operation: "charge_card", Phase: phase, NextAction: contract.NextAction(phase)}
	v.DeliveryState, v.ExecutionState = phase.States()
	return v
}

// session is an agent's side, of the SDK, in memory.
func session(t *testing.T, g *gateway) *mcp.ClientSession {
	server := NewServer(Options{Client: &client.Client{URL: g.URL, APIKey: "hgk_ours"}, Tenant: "acme", Agent: "billing-1", Version: "1"})
	here, there := mcp.NewInMemoryTransports()
	_, err := server.Connect(t.Context(), here, nil)
	require.NoError(t, err)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), there, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(t *testing.T, s *mcp.ClientSession, name, arguments string) (a Answer, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)})
	require.NoError(t, err)
	require.Len(t, r.Content, 1)
	text := r.Content[0].(*mcp.TextContent).Text
	structured, err := json.Marshal(r.StructuredContent)
	require.NoError(t, err)
	require.JSONEq(t, text, string(structured), "both forms say the same")
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	return a, r.IsError
}

func TestTools(t *testing.T) {
	s := session(t, newGateway(t))
	assert.Contains(t, s.InitializeResult().Instructions, "Never choose a new key")
	list, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		assert.NotEmpty(t, tool.Description)
		schema, err := json.Marshal(tool.InputSchema)
		require.NoError(t, err)
		assert.NotContains(t, string(schema), "tenant", "it is not the agent's to choose")
	}
	assert.ElementsMatch(t, []string{"list_operations", "submit_task", "get_task", "wait_for_task", "cancel_task"}, names, "and none that decides")
}

// What is sent is what the agent wrote, digit by digit, for the server's tenant.
func TestSubmit(t *testing.T) {
	g := newGateway(t)
	g.status, g.body = 202, view(contract.PhaseAccepted)
	a, failed := call(t, session(t, g), "submit_task", `{"operation": "charge_card", "key": "order-7/refund", "priority": "high", "payload": {"b": 9007199254740993, "a": 1.50, "t": "<&>"}}`)
	assert.False(t, failed)
	assert.Equal(t, []string{"ACCEPTED", "PENDING", "wait"}, []string{a.Delivery, a.Execution, a.NextAction})
	assert.Contains(t, a.NextStep, "wait_for_task")
	assert.Equal(t, []string{"POST /v1/tasks", `"order-7/refund"`, "Bearer hgk_ours"}, []string{g.line, g.key, g.auth})
	assert.Contains(t, g.sent, `"b":9007199254740993`)
	assert.Contains(t, g.sent, `"a":1.50`)
	var sent contract.SubmitRequest
	require.NoError(t, json.Unmarshal([]byte(g.sent), &sent))
	assert.Equal(t, []string{"acme", "billing-1", "high"}, []string{sent.Tenant, sent.Agent, sent.Priority.String()})
}

// Each answer states delivery and execution apart, and says what to do.
func TestAnswers(t *testing.T) {
	g := newGateway(t)
	s := session(t, g)
	problem := func(status int, reason, delivery, next string, after int) contract.Problem {
		return contract.Problem{Status: status, Title: "T", Reason: reason, Detail: "because", DeliveryState: delivery, NextAction: next, RetryAfter: after}
	}
	done := view(contract.PhaseSucceeded)
	done.Result, done.Available, done.Reference = json.RawMessage(`{"id": 9007199254740993}`), true, "ch_1"
	lost := view(contract.PhaseSucceeded)
	asks := view(contract.PhaseAccepted)
	asks.Approval = &contract.ApprovalStand{Version: 1}
	dispatched := problem(409, "already_dispatched", "", "wait", 0)
	running := view(contract.PhaseDispatched)
	dispatched.Task = &running
	for name, c := range map[string]struct {
		tool, arguments string
		status          int
		body            any
		delivery, exec  string
		next, step      string
		failed          bool
	}{
		"succeeded":          {"get_task", `{"key": "k"}`, 200, done, "ACCEPTED", "SUCCEEDED", "use_result", "Use the result", false},
		"result lost":        {"get_task", `{"key": "k"}`, 200, lost, "ACCEPTED", "SUCCEEDED", "use_result", "result was lost", false},
		"running":            {"get_task", `{"key": "k"}`, 200, view(contract.PhaseDispatched), "ACCEPTED", "RUNNING", "wait", "Do not submit it under another key", false},
		"asks a person":      {"get_task", `{"key": "k"}`, 200, asks, "ACCEPTED", "PENDING", "wait", "A person has to approve", false},
		"unknown":            {"wait_for_task", `{"key": "k"}`, 200, view(contract.PhaseUnknown), "ACCEPTED", "UNKNOWN", "ask_human", "could happen twice", false},
		"failed":             {"wait_for_task", `{"key": "k", "seconds": 1}`, 200, view(contract.PhaseFailed), "ACCEPTED", "FAILED", "do_not_retry", "ended without an effect", false},
		"expired":            {"get_task", `{"key": "k"}`, 200, view(contract.PhaseExpired), "EXPIRED", "PENDING", "do_not_retry", "ended without an effect", false},
		"absent":             {"get_task", `{"key": "k"}`, 404, problem(404, "task_not_found", "", "do_not_retry", 0), "", "", "do_not_retry", "call submit_task with this key", true},
		"full":               {"submit_task", `{"key": "k", "operation": "o"}`, 429, problem(429, "queue_full", "REJECTED", "retry_later", 7), "REJECTED", "", "retry_later", "after 7 seconds, with the same key", true},
		"not confirmed":      {"submit_task", `{"key": "k", "operation": "o"}`, 503, problem(503, "not_confirmed", "", "retry_later", 1), "", "", "retry_later", "It is not known how this stands", true},
		"key reused":         {"submit_task", `{"key": "k", "operation": "o"}`, 422, problem(422, "key_reused", "REJECTED", "do_not_retry", 0), "REJECTED", "", "do_not_retry", "belongs to another request", true},
		"no role":            {"cancel_task", `{"key": "k"}`, 403, problem(403, "role_missing", "", "ask_human", 0), "", "", "ask_human", "A person has to look", true},
		"dispatched":         {"cancel_task", `{"key": "k", "reason": "typo"}`, 409, dispatched, "ACCEPTED", "RUNNING", "wait", "wait_for_task", true},
		"a wrong argument":   {"get_task", `{"keys": "k"}`, 200, nil, "", "", "do_not_retry", "Nothing was sent", true},
		"a tenant":           {"submit_task", `{"key": "k", "operation": "o", "tenant": "globex"}`, 200, nil, "", "", "do_not_retry", "Nothing was sent", true},
		"a key that is none": {"submit_task", `{"key": "", "operation": "o"}`, 200, nil, "", "", "do_not_retry", "Do not repeat", true},
	} {
		t.Run(name, func(t *testing.T) {
			g.status, g.body, g.asked = c.status, c.body, 0
			a, failed := call(t, s, c.tool, c.arguments)
			assert.Equal(t, []string{c.delivery, c.exec, c.next}, []string{a.Delivery, a.Execution, a.NextAction}, "%+v", a)
			assert.Contains(t, a.NextStep, c.step)
			assert.Equal(t, c.failed, failed)
			assert.Equal(t, c.body == nil, g.asked == 0)
		})
	}
	g.Close()
	a, failed := call(t, s, "submit_task", `{"key": "k", "operation": "o"}`)
	assert.True(t, failed)
	assert.Equal(t, []string{"", "", "retry_later", "unreachable"}, []string{a.Delivery, a.Execution, a.NextAction, a.Reason})
	assert.Contains(t, a.NextStep, "Do not choose another key")
}

// Over HTTP the key is that of the request, and nobody else's.
func TestOverHTTP(t *testing.T) {
	g := newGateway(t)
	g.body = view(contract.PhaseAccepted)
	server := httptest.NewServer(Handler(Options{Client: &client.Client{URL: g.URL, APIKey: "hgk_ours"}, Tenant: "acme"}))
	defer server.Close()
	for _, key := range []string{"Bearer hgk_theirs", ""} {
		transport := &mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: &http.Client{Transport: with{key}}}
		s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), transport, nil)
		require.NoError(t, err)
		a, failed := call(t, s, "get_task", `{"key": "a/b"}`)
		assert.False(t, failed)
		assert.Equal(t, "ACCEPTED", a.Delivery)
		assert.Equal(t, []string{"GET /v1/tasks/acme/a%2Fb", key}, []string{g.line, g.auth})
		require.NoError(t, s.Close())
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, strings.NewReader("{}"))
	require.NoError(t, err)
	r.Header.Set("Origin", "https://evil.example")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	assert.Equal(t, 403, answer.StatusCode, "a page of another site")
}

type with struct{ key string }

func (w with) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.key != "" {
		r.Header.Set("Authorization", w.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}
