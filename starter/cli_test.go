package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/contract"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// door is a gateway with canned answers.
type cannedGateway struct {
	*httptest.Server
	mu       sync.Mutex
	answers  map[string][]canned // by "METHOD path"; the last one is repeated
	requests []seen
}

type canned struct {
	status int
	body   any
}

type seen struct {
	line   string // method, path and query
	header http.Header
	body   string
}

func newCannedGateway(t *testing.T, answers map[string][]canned) *cannedGateway {
	g := &cannedGateway{answers: answers}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.requests = append(g.requests, seen{r.Method + " " + r.URL.RequestURI(), r.Header, string(text)})
		route := r.Method + " " + r.URL.EscapedPath()
		list := g.answers[route]
		if len(list) == 0 {
			t.Errorf("unexpected request: %s", route)
			http.NotFound(w, r)
			return
		}
		if len(list) > 1 {
			g.answers[route] = list[1:]
		}
		kind := "application/json"
		if list[0].status >= 400 {
			kind = "application/problem+json"
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(list[0].status)
		if s, ok := list[0].body.(string); ok {
			_, _ = io.WriteString(w, s)
			return
		}
		_ = json.NewEncoder(w).Encode(list[0].body)
	}))
	t.Cleanup(g.Close)
	t.Setenv("HEADGATE_GATEWAY", g.URL)
	t.Setenv("HEADGATE_ACTOR", "mara")
	return g
}

type ran struct {
	status      int
	out, errors string
}

func command(stdin string, args ...string) ran {
	var out, errs bytes.Buffer
	status := run(args, strings.NewReader(stdin), &out, &errs)
	return ran{status, out.String(), errs.String()}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -rewrite, then read the file")
	assert.Equal(t, string(want), got)
}

func at(seconds int) *time.Time {
	t := time.Date(2026, 12, 1, 10, 0, seconds, 0, time.UTC)
	return &t
}

func task(phase contract.Phase) contract.TaskView {
	v := contract.TaskView{Tenant: "acme", Key: "inv/42", Task: "task/acme/inv/42", Operation: "charge_card", PayloadHash: "sha256:aa",
		Accepted: at(0), Phase: phase, NextAction: contract.NextAction(phase)}
	v.DeliveryState, v.ExecutionState = phase.States()
	return v
}

func problem(status int, reason, next string, after int) canned {
	return canned{status, contract.Problem{Type: "https://headgate.dev/problems/" + reason, Title: "Title of it", Status: status,
		Reason: reason, Detail: "because so", NextAction: next, RetryAfter: after}}
}

const submitRoute, taskRoute = "POST /v1/tasks", "GET /v1/tasks/acme/inv%2F42"

func TestExitStatus(t *testing.T) {
	submit := []string{"submit", "charge_card", "--tenant", "acme", "--key", "inv/42"}
	waiting := append(submit, "--wait") //nolint:gocritic // never grown again
	status := []string{"status", "acme", "inv/42"}
	for name, c := range map[string]struct {
		args    []string
		answers map[string][]canned
		want    int
	}{
		"accepted":             {submit, map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}}, exitDone},
		"full":                 {submit, map[string][]canned{submitRoute: {problem(429, "queue_full", "retry_later", 7)}}, exitLater},
		"budget gone":          {submit, map[string][]canned{submitRoute: {problem(503, "budget_unavailable", "retry_later", 1)}}, exitLater},
		"Temporal gone":        {submit, map[string][]canned{submitRoute: {problem(503, "temporal_unavailable", "retry_later", 1)}}, exitUnreachable},
		"not confirmed":        {submit, map[string][]canned{submitRoute: {problem(503, "not_confirmed", "retry_later", 1)}}, exitLater},
		"key reused":           {submit, map[string][]canned{submitRoute: {problem(422, "key_reused", "do_not_retry", 0)}}, exitRefused},
		"closed for good":      {submit, map[string][]canned{submitRoute: {problem(503, "tenant_closed", "do_not_retry", 0)}}, exitRefused},
		"invalid":              {submit, map[string][]canned{submitRoute: {problem(400, "invalid_payload", "do_not_retry", 0)}}, exitRefused},
		"waited, succeeded":    {waiting, map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}, taskRoute: {{200, task(contract.PhaseDispatched)}, {200, task(contract.PhaseSucceeded)}}}, exitDone},
		"waited, failed":       {waiting, map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}, taskRoute: {{200, task(contract.PhaseFailed)}}}, exitEnded},
		"waited, expired":      {waiting, map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}, taskRoute: {{200, task(contract.PhaseExpired)}}}, exitEnded},
		"waited, cancelled":    {waiting, map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}, taskRoute: {{200, task(contract.PhaseCancelled)}}}, exitEnded},
		"waited, unknown":      {waiting, map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}, taskRoute: {{200, task(contract.PhaseUnknown)}}}, exitUnknown},
		"waited not enough":    {append(submit, "--wait=1ns"), map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}, taskRoute: {{200, task(contract.PhaseAccepted)}}}, exitNotEnded},
		"status of a failed":   {status, map[string][]canned{taskRoute: {{200, task(contract.PhaseFailed)}}}, exitDone},
		"status of an unknown": {append(status, "--wait"), map[string][]canned{taskRoute: {{200, task(contract.PhaseUnknown)}}}, exitUnknown},
		"no such task":         {status, map[string][]canned{taskRoute: {problem(404, "task_not_found", "do_not_retry", 0)}}, exitNotFound},
		"another server":       {status, map[string][]canned{taskRoute: {{200, "<html>"}}}, exitInternal},
		"dispatched":           {[]string{"cancel", "acme/inv/42"}, map[string][]canned{"POST /v1/tasks/acme/inv%2F42/cancel": {problem(409, "already_dispatched", "wait", 0)}}, exitRefused},
		"stale": {[]string{"resolve", "acme", "inv/42", "happened", "--version", "2", "--evidence", "x"},
			map[string][]canned{"POST /v1/tasks/acme/inv%2F42/resolve": {problem(409, "stale_version", "ask_human", 0)}}, exitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			newCannedGateway(t, c.answers)
			got := command("", c.args...)
			assert.Equal(t, c.want, got.status, got.errors)
			if c.want >= exitLater && c.want <= exitUnreachable {
				assert.Contains(t, got.errors, "because so")
				assert.Empty(t, got.out)
			}
		})
	}
	t.Run("no gateway", func(t *testing.T) {
		got := command("", append(status, "--gateway", "http://127.0.0.1:1")...)
		assert.Equal(t, exitUnreachable, got.status)
		assert.Contains(t, got.errors, "headgate dev")
		assert.NotContains(t, got.errors, "Get \"", "not Go's words")
	})
}

func TestUsageErrors(t *testing.T) {
	t.Setenv("HEADGATE_GATEWAY", "http://127.0.0.1:1") // nobody is asked
	file := filepath.Join(t.TempDir(), "broken.yaml")
	require.NoError(t, os.WriteFile(file, []byte("budgets: {}\n"), 0o600))
	for _, args := range [][]string{
		{"nonsense"},
		{"submit"},
		{"submit", "charge_card"},
		{"submit", "a", "b", "--tenant", "acme"},
		{"submit", "charge_card", "--tenant", "acme", "--priority", "urgent"},
		{"submit", "charge_card", "--tenant", "acme", "--payload", "{"},
		{"submit", "charge_card", "--tenant", "acme", "--payload", "@/does/not/exist"},
		{"submit", "charge_card", "--tenant", "acme", "--key", "schl\u00fcssel"},
		{"submit", "charge_card", "--tenant", "acme", "--key", strings.Repeat("k", 256)},
		{"submit", "charge_card", "--tenant", "acme", "--deadline", "soon"},
		{"submit", "charge_card", "--tenant", "acme", "--wait=forever"},
		{"submit", "charge_card", "--tenant", "acme", "--unknown-flag"},
		{"status"},
		{"status", "acme"},
		{"status", "ac me", "inv-42"},
		{"status", "a", "b", "c"},
		{"status", "acme", "inv-42", "--gateway", "localhost:7280"},
		{"list", "extra"},
		{"list", "--limit", "0"},
		{"resolve", "acme", "inv-42", "happened", "--version", "1"},
		{"resolve", "acme", "inv-42", "happened", "--evidence", "x"},
		{"resolve", "acme", "inv-42", "perhaps", "--version", "1", "--evidence", "x"},
		{"pause"},
		{"pause", "a/b"},
		{"pause", "acme", "--until", "later"},
		{"worker"},
		{"worker", "--role", "control", "--config", "/does/not/exist.yaml"},
		{"worker", "--role", "control", "--config", file},
		{"gateway", "--config", file},
		{"dev", "--config", file},
		{"config", "check", file},
		{"apply", "-f", file},
		{"conform", "charge_card", "-f", "../headgate.yaml"},
		{"conform", "charge_card", "-f", file, "--payload", "{}"},
		{"conform", "no_such_operation", "-f", "../headgate.yaml", "--payload", "{}"},
		{"conform", "charge_card", "-f", "../headgate.yaml", "--payload", `{"a": 1, "a": 2}`},
		{"apply", "headgate.yaml"},
	} {
		got := command("", args...)
		assert.Equal(t, exitUsage, got.status, "%v: %s", args, got.errors)
		assert.True(t, strings.HasPrefix(got.errors, "headgate: "), "%v: %s", args, got.errors)
		assert.Empty(t, got.out, args)
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	got := command("", "submit")
	assert.Contains(t, got.errors, "want headgate submit OPERATION --tenant TENANT | --file FILE\n")
	got = command("", "queue", "acme")
	assert.Contains(t, got.errors, "want headgate queue\n")
}

func TestSubmitSends(t *testing.T) {
	answers := map[string][]canned{submitRoute: {{202, task(contract.PhaseAccepted)}}}
	file := filepath.Join(t.TempDir(), "payload.json")
	require.NoError(t, os.WriteFile(file, []byte(" {\"amount\": 1}\n"), 0o600))
	for name, payload := range map[string]string{"argument": `{"amount": 1}`, "file": "@" + file, "standard input": "-"} {
		t.Run(name, func(t *testing.T) {
			g := newCannedGateway(t, answers)
			got := command(` {"amount": 1}`, "submit", "charge_card", "--tenant", "acme", "--agent", "billing-1", "--key", `a "b"\c`,
				"--priority", "high", "--deadline", "2026-12-01T10:00:00Z", "--payload", payload)
			require.Equal(t, exitDone, got.status, got.errors)
			r := g.requests[0]
			assert.Equal(t, "POST /v1/tasks", r.line)
			assert.Equal(t, `"a \"b\"\\c"`, r.header.Get("Idempotency-Key"))
			assert.Equal(t, "application/json", r.header.Get("Content-Type"))
			assert.JSONEq(t, `{"tenant": "acme", "agent": "billing-1", "operation": "charge_card", "priority": "high",
				"deadline": "2026-12-01T10:00:00Z", "payload": {"amount": 1}}`, r.body)
		})
	}
	t.Run("made-up keys differ", func(t *testing.T) {
		g := newCannedGateway(t, answers)
		for range 2 {
			require.Equal(t, exitDone, command("", "submit", "charge_card", "--tenant", "acme").status)
		}
		assert.NotEqual(t, g.requests[0].header.Get("Idempotency-Key"), g.requests[1].header.Get("Idempotency-Key"))
	})
	t.Run("a refusal for programs", func(t *testing.T) {
		newCannedGateway(t, map[string][]canned{submitRoute: {problem(429, "queue_full", "retry_later", 7)}})
		got := command("", "submit", "charge_card", "--tenant", "acme", "--json")
		assert.Equal(t, exitLater, got.status)
		var p contract.Problem
		require.NoError(t, json.Unmarshal([]byte(got.out), &p))
		assert.Equal(t, 7, p.RetryAfter)
		assert.Contains(t, got.errors, "Try again in 7 s, with the same key.")
	})
}

func TestReadTime(t *testing.T) {
	got, err := readTime("--deadline", "10m", *at(0))
	require.NoError(t, err)
	assert.Equal(t, at(0).Add(10*time.Minute), *got)
	got, err = readTime("--deadline", "", *at(0))
	require.NoError(t, err)
	assert.Nil(t, got)
}
