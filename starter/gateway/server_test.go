package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.uber.org/zap"

	"headgate/admission"
	api "headgate/client"
	"headgate/contract"
)

var longText = strings.Repeat("long ", 300)

func TestRoutes(t *testing.T) {
	f := &fake{}
	in := acmeInput()
	for _, key := range []string{"inv-42", "a/b", "a/cancel", "explain", "..", ".", "a b", "a//b", "100%", "q?x=1#y"} {
		in.Key = key
		f.put(openTask(in))
		r := do(t, newGateway(f), "GET", api.TaskPath("acme", key), "")
		require.Equal(t, 200, r.StatusCode, key)
		assert.Equal(t, key, decodeBody[contract.TaskView](t, r).Key)
		assert.Equal(t, 202, do(t, newGateway(f), "POST", api.TaskPath("acme", key)+"/cancel", "").StatusCode, key)
	}
	for _, c := range []struct {
		method, path string
		status       int
		reason       string
	}{
		{"GET", "/", 404, "no_such_route"},
		{"GET", "/v1/tasks/acme", 404, "no_such_route"},
		{"GET", "/v1/tasks/acme/a/b", 404, "no_such_route"},
		{"GET", "/v1/tasks/acme/inv-42/", 404, "no_such_route"},
		{"DELETE", "/v1/tasks", 405, "method_not_allowed"},
		{"GET", "/v1/tasks/acme/inv-42/cancel", 405, "method_not_allowed"},
		{"POST", "/v1/queue", 405, "method_not_allowed"},
		{"GET", "/v1/tasks/ac%20me/inv-42", 400, "invalid_name"},
		{"GET", "/v1/tasks/acme/%C3%BC", 400, "invalid_key"},
		{"GET", "/v1/tasks/acme/absent", 404, "task_not_found"},
		{"GET", "/v1/tasks/acme/inv-42?wait=soon", 400, "invalid_request"},
		{"GET", "/v1/tasks/acme/inv-42?wait=-1s", 400, "invalid_request"},
	} {
		r := do(t, newGateway(f), c.method, c.path, "")
		assert.Equal(t, c.status, r.StatusCode, c.path)
		assert.Equal(t, "application/problem+json", r.Header.Get("Content-Type"), c.path)
		assert.Equal(t, c.reason, decodeBody[contract.Problem](t, r).Reason, c.path)
	}
	assert.Equal(t, "GET, POST", do(t, newGateway(f), "DELETE", "/v1/tasks", "").Header.Get("Allow"))
}

func TestGuard(t *testing.T) {
	g := newGateway(&fake{})
	r := do(t, g, "POST", "/v1/tenants/acme/pause", "", "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, 403, r.StatusCode)
	r = do(t, g, "POST", "/v1/tasks", body, "Origin", "https://evil.example", "Idempotency-Key", "k")
	assert.Equal(t, 403, r.StatusCode)
	r = do(t, g, "GET", "/healthz", "", "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, 200, r.StatusCode)
	assert.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	assert.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
}

func TestPanic(t *testing.T) {
	f := &fake{query: func(string, []any) (any, error) { panic("secret") }}
	r := do(t, newGateway(f), "GET", "/v1/queue", "")
	assert.Equal(t, 500, r.StatusCode)
	p := decodeBody[contract.Problem](t, r)
	assert.Equal(t, "internal", p.Reason)
	assert.NotContains(t, p.Detail, "secret")
}

func TestReady(t *testing.T) {
	budget := openTask(contract.TaskInput{})
	budget.WorkflowExecutionInfo.Execution.WorkflowId = "budget/default"
	f := &fake{}
	assert.Equal(t, 503, do(t, newGateway(f), "GET", "/readyz", "").StatusCode, "no budget")
	f.put(budget)
	assert.Equal(t, 200, do(t, newGateway(f), "GET", "/readyz", "").StatusCode)
	budget.WorkflowExecutionInfo.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	assert.Equal(t, 503, do(t, newGateway(f), "GET", "/readyz", "").StatusCode)
	f.healthErr = serviceerror.NewUnavailable("down")
	r := do(t, newGateway(f), "GET", "/readyz", "")
	assert.Equal(t, "temporal_unavailable", decodeBody[contract.Problem](t, r).Reason)
	assert.Equal(t, 200, do(t, newGateway(f), "GET", "/healthz", "").StatusCode)
}

func TestQueries(t *testing.T) {
	f := &fake{query: func(name string, args []any) (any, error) {
		if name == contract.WhyQuery {
			assert.Equal(t, contract.WhyRequest{Task: "task/acme/inv-42"}, args[0])
			return admission.Why{Stand: admission.StandAbsent}, nil
		}
		return admission.View{Depth: 3}, nil
	}}
	assert.Equal(t, 3, decodeBody[admission.View](t, do(t, newGateway(f), "GET", "/v1/queue", "")).Depth)
	assert.Equal(t, 404, do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42/why", "").StatusCode)
	f.put(openTask(acmeInput()))
	assert.Equal(t, "absent", decodeBody[admission.Why](t, do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42/why", "")).Stand)
	f.query = func(string, []any) (any, error) { return nil, serviceerror.NewNotFound("no budget") }
	assert.Equal(t, 503, do(t, newGateway(f), "GET", "/v1/queue", "").StatusCode)
	f.query = func(string, []any) (any, error) { return nil, context.DeadlineExceeded }
	r := do(t, newGateway(f), "GET", "/v1/queue", "")
	assert.Contains(t, decodeBody[contract.Problem](t, r).Detail, "is a control worker running?")
}

// A long poll looks until the task has ended, ever more seldom, and not longer
// than it may.
func TestWait(t *testing.T) {
	f := &fake{}
	now := start
	var pauses []time.Duration
	ends := false
	g := New(Options{Client: f, Operations: operations{}, Now: func() time.Time { return now }, After: func(d time.Duration) <-chan time.Time {
		pauses = append(pauses, d)
		now = now.Add(d)
		if ends && len(pauses) == 5 {
			s := &script{}
			s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded})
			f.histories = map[string][]*historypb.HistoryEvent{"task/acme/inv-42": s.events}
			f.put(closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))
		}
		c := make(chan time.Time, 1)
		c <- now
		return c
	}})
	f.put(openTask(acmeInput()))
	r := do(t, g, "GET", "/v1/tasks/acme/inv-42?wait=20s", "")
	assert.Equal(t, contract.PhaseAccepted, decodeBody[contract.TaskView](t, r).Phase)
	assert.Equal(t, 20*time.Second, now.Sub(start))
	assert.Equal(t, firstLook, pauses[0])
	assert.Equal(t, lastLook, pauses[len(pauses)-2])

	pauses, ends = nil, true
	r = do(t, g, "GET", "/v1/tasks/acme/inv-42?wait=10h", "")
	assert.Equal(t, contract.PhaseSucceeded, decodeBody[contract.TaskView](t, r).Phase)
	assert.Len(t, pauses, 5)

	pauses = nil
	r = do(t, g, "GET", "/v1/tasks/acme/inv-42", "")
	assert.Equal(t, 200, r.StatusCode)
	assert.Empty(t, pauses, "no wait")
}

// TestWaitIsToldOfTheEnd: no look is needed to learn that a task has closed.
func TestWaitIsToldOfTheEnd(t *testing.T) {
	f := &fake{closing: make(chan struct{})}
	end := sync.OnceFunc(func() {
		s := &script{}
		s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded})
		f.mu.Lock()
		defer f.mu.Unlock()
		f.histories = map[string][]*historypb.HistoryEvent{"task/acme/inv-42": s.events}
		f.put(closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))
		close(f.closing)
	})
	g := New(Options{Client: f, Operations: operations{}, Now: func() time.Time { return start },
		After: func(time.Duration) <-chan time.Time {
			end()
			return nil // never
		}})
	f.put(openTask(acmeInput()))
	r := do(t, g, "GET", "/v1/tasks/acme/inv-42?wait=20s", "")
	assert.Equal(t, contract.PhaseSucceeded, decodeBody[contract.TaskView](t, r).Phase)

	r = do(t, g, "GET", "/v1/tasks/acme/other?wait=20s", "")
	assert.Equal(t, 404, r.StatusCode, "at once")
}

func TestServeStops(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	entered := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done() // a long poll
		w.WriteHeader(http.StatusNoContent)
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, handler, zap.NewNop()) }()
	answered := make(chan error, 1)
	go func() {
		r, err := http.Get("http://" + listener.Addr().String())
		if err == nil && r.StatusCode != http.StatusNoContent {
			err = errors.New(r.Status)
		}
		if err == nil {
			err = r.Body.Close()
		}
		answered <- err
	}()
	<-entered
	stop()
	require.NoError(t, <-answered)
	require.NoError(t, <-served)
}

func TestServeBoundsHeaders(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, server.Listener, newGateway(&fake{}).Handler(), zap.NewNop()) }()
	r, err := http.NewRequest("GET", "http://"+server.Listener.Addr().String()+"/healthz", nil)
	require.NoError(t, err)
	r.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)
	require.NoError(t, answer.Body.Close())
	stop()
	require.NoError(t, <-served)
}

// The task goes on between the look at it and the look at its history.
func TestReadIsNotStale(t *testing.T) {
	f := &fake{}
	before := openTask(acmeInput())
	before.WorkflowExecutionInfo.HistoryLength = attemptless + 1
	before.WorkflowExecutionInfo.SearchAttributes.IndexedFields[contract.PhaseAttribute] = payload("leased")
	f.put(before)
	s := &script{}
	s.start(acmeInput())
	for range 4 {
		s.noticed()
	}
	s.complete(s.effect(1), contract.Outcome{Class: admission.Succeeded})
	s.noticed()
	s.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 1})
	f.histories = map[string][]*historypb.HistoryEvent{"task/acme/inv-42": s.events}
	looks := 0
	f.describe = func(string) error {
		if looks++; looks == 2 {
			f.put(closedTask(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED))
		}
		return nil
	}
	v := decodeBody[contract.TaskView](t, do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42", ""))
	assert.Equal(t, contract.PhaseSucceeded, v.Phase)
	assert.Equal(t, 2, looks)
}
