package gateway

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"headgate/contract"
)

// leaks are what no answer may hold: words of Go, of the machine, of Temporal.
var leaks = regexp.MustCompile(`\.go:|goroutine|headgate/|github\.com|json: |strconv|invalid character|runtime error|interface \{\}|rpc error|/root|/home|SELECT|taskqueue`)

// Bad input is answered by a problem document of the client's making: nothing is
// stored, ordered or logged as an error, and nothing of the inside is told.
// (Submissions have tables of their own: TestSubmitBadInput, TestRequestKey.)
func TestBadInput(t *testing.T) {
	const task = "/v1/tasks/acme/inv-42"
	const pause, freeze = "/v1/tenants/acme/pause", "/v1/operations/charge_card/freeze"
	long, deep := strings.Repeat("x", 5000), strings.Repeat("[", 30000)
	approve := func(field, value string) string {
		all := map[string]string{"id": `"d"`, "actor": `"mara"`, "evidence": `"seen"`, "version": `1`, "payload_hash": `"h"`, "operation_digest": `"d"`}
		all[field] = value
		var parts []string
		for name, text := range all {
			if text != "" {
				parts = append(parts, `"`+name+`": `+text)
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	resolve := func(more string) string { return `{"evidence": "seen"` + more + `}` }
	rows := []struct {
		line, body string
		status     int
		reason     string
	}{
		// Paths.
		{"GET /", "", 404, "no_such_route"},
		{"GET /v1", "", 404, "no_such_route"},
		{"GET /v1/tasks/", "", 404, "no_such_route"},
		{"GET /v1/tasks/acme/", "", 404, "no_such_route"},
		{"GET /v1/tasks/acme/a/b/c", "", 404, "no_such_route"},
		{"GET /v1/tasks/acme/%00", "", 400, "invalid_key"},
		{"GET /v1/tasks/acme/%0d%0aSet-Cookie:x", "", 400, "invalid_key"},
		{"GET /v1/tasks/acme/%ff%fe", "", 400, "invalid_key"},
		{"GET /v1/tasks/acme/%E2%80%AE", "", 400, "invalid_key"},
		{"GET /v1/tasks/acme/" + strings.Repeat("k", 256), "", 400, "invalid_key"},
		{"GET /v1/tasks/%2e%2e/k", "", 400, "invalid_name"},
		{"GET /v1/tasks/%2F/k", "", 404, "no_such_route"},
		{"GET /v1/tasks/a'--/k", "", 400, "invalid_name"},
		{"GET /v1/tasks/" + strings.Repeat("t", 65) + "/k", "", 400, "invalid_name"},
		{"GET /v1/tasks/acme/absent", "", 404, "task_not_found"},
		{"GET /v1/tasks/acme/..%2F..%2Fetc%2Fpasswd", "", 404, "task_not_found"},
		{"GET /v1/tasks/acme/a'%20OR%20'1'='1", "", 404, "task_not_found"},
		// Methods.
		{"DELETE " + task, "", 405, "method_not_allowed"},
		{"PATCH /v1/budget", "{}", 405, "method_not_allowed"},
		{"TRACE /v1/tasks", "", 405, "method_not_allowed"},
		{"OPTIONS /v1/tasks", "", 405, "method_not_allowed"},
		{"POST /healthz", "", 405, "method_not_allowed"},
		{"POST " + freeze, "{}", 405, "method_not_allowed"},
		// Queries.
		{"GET " + task + "?wait=forever", "", 400, "invalid_request"},
		{"GET " + task + "?wait=-5s", "", 400, "invalid_request"},
		{"GET " + task + "?wait=99999999999h", "", 400, "invalid_request"},
		{"GET /v1/tasks?limit=0", "", 400, "invalid_request"},
		{"GET /v1/tasks?limit=-1", "", 400, "invalid_request"},
		{"GET /v1/tasks?limit=101", "", 400, "invalid_request"},
		{"GET /v1/tasks?limit=1e9", "", 400, "invalid_request"},
		{"GET /v1/tasks?limit=99999999999999999999", "", 400, "invalid_request"},
		{"GET /v1/tasks?cursor=%21%21", "", 400, "invalid_request"},
		{"GET /v1/tasks?cursor=" + strings.Repeat("A", 6000), "", 400, "invalid_request"},
		{"GET /v1/tasks?tenant=a'%20OR%20'1'='1", "", 400, "invalid_name"},
		{"GET /v1/tasks?operation=" + long, "", 400, "invalid_name"},
		{"GET /v1/tasks?phase=done", "", 400, "invalid_request"},
		{"GET /v1/tasks?phase=accepted'--", "", 400, "invalid_request"},
		{"GET /v1/tasks?priority=urgent", "", 400, "invalid_request"},
		{"GET /v1/tasks?query=WorkflowType%3D'Budget'", "", 400, "invalid_request"},
		{"GET /v1/unknown?tenant=%00", "", 400, "invalid_name"},
		{"GET /v1/approvals?phase=accepted", "", 400, "invalid_request"},
		// Orders about a task.
		{"POST " + task + "/cancel", "{", 400, "invalid_request"},
		{"POST " + task + "/cancel", "[]", 400, "invalid_request"},
		{"POST " + task + "/cancel", deep, 400, "invalid_request"},
		{"POST " + task + "/cancel", `{"reason": 7}`, 400, "invalid_request"},
		{"POST " + task + "/cancel", `{"reason": "` + long + `"}`, 400, "invalid_request"},
		{"POST " + task + "/cancel", `{"actor": "` + long + `"}`, 400, "invalid_request"},
		{"POST " + task + "/cancel", `{"force": true}`, 400, "invalid_request"},
		{"POST " + task + "/cancel", `{"reason": "a", "reason": "b"}`, 400, "invalid_request"},
		{"POST " + task + "/cancel", "{\"reason\": \"\xff\"}", 400, "invalid_request"},
		{"POST " + task + "/cancel", `{"reason": "` + strings.Repeat("x", maxOrder) + `"}`, 413, "payload_too_large"},
		{"POST /v1/tasks/acme/absent/cancel", "", 404, "task_not_found"},
		{"POST " + task + "/resolve", "", 400, "invalid_request"},
		{"POST " + task + "/resolve", "null", 400, "invalid_request"},
		{"POST " + task + "/resolve", resolve(`, "version": 1`), 400, "invalid_request"},
		{"POST " + task + "/resolve", resolve(`, "version": 1, "outcome": "succeeded"`), 400, "invalid_request"},
		{"POST " + task + "/resolve", resolve(`, "version": 0, "outcome": "happened"`), 400, "invalid_request"},
		{"POST " + task + "/resolve", resolve(`, "version": 1.5, "outcome": "happened"`), 400, "invalid_request"},
		{"POST " + task + "/resolve", resolve(`, "version": 1e99, "outcome": "happened"`), 400, "invalid_request"},
		{"POST " + task + "/resolve", resolve(`, "version": "1", "outcome": "happened"`), 400, "invalid_request"},
		{"POST " + task + "/resolve", `{"version": 1, "outcome": "happened"}`, 400, "invalid_request"},
		{"POST " + task + "/resolve", `{"version": 1, "outcome": "happened", "evidence": "` + long + `"}`, 400, "invalid_request"},
		{"POST " + task + "/resolve", resolve(`, "version": 1, "outcome": "happened", "id": "` + long + `"`), 400, "invalid_request"},
		{"POST /v1/tasks/acme/absent/resolve", resolve(`, "version": 1, "outcome": "happened"`), 404, "task_not_found"},
		{"POST " + task + "/approve", "", 400, "invalid_request"},
		{"POST " + task + "/approve", approve("actor", ""), 400, "invalid_request"},
		{"POST " + task + "/approve", approve("version", "-1"), 400, "invalid_request"},
		{"POST " + task + "/approve", approve("payload_hash", ""), 400, "invalid_request"},
		{"POST " + task + "/decline", approve("evidence", `""`), 400, "invalid_request"},
		{"POST " + task + "/decline", approve("version", "9223372036854775808"), 400, "invalid_request"},
		{"GET " + task + "/approval", "", 409, "nothing_to_approve"},
		// Orders about a tenant or an operation.
		{"POST " + pause, `{"dispatch": false}`, 400, "invalid_request"},
		{"POST " + pause, `{"dispatch": "yes"}`, 400, "invalid_request"},
		{"POST " + pause, `{"until": "2020-01-01T00:00:00Z"}`, 400, "invalid_time"},
		{"POST " + pause, `{"until": "99999-01-01T00:00:00Z"}`, 400, "invalid_request"},
		{"POST " + pause, `{"until": 5}`, 400, "invalid_request"},
		{"POST /v1/tenants/%20/pause", "", 400, "invalid_name"},
		{"POST /v1/tenants/acme/resume", `{"dispatch": true}`, 400, "invalid_request"},
		{"PUT " + freeze, "", 400, "invalid_request"},
		{"PUT " + freeze, `{"reason": ""}`, 400, "invalid_request"},
		{"PUT /v1/operations/absent/freeze", `{"reason": "x"}`, 400, "unknown_operation"},
		{"PUT /v1/operations/a%2Fb/freeze", `{"reason": "x"}`, 400, "invalid_name"},
		{"POST /v1/operations/absent/audit", "", 400, "unknown_operation"},
		{"GET /v1/operations/charge_card/audit?run=%00", "", 404, "no_audit"},
		{"GET /v1/operations/absent/findings", "", 400, "unknown_operation"},
		// The budget.
		{"PUT /v1/budget", "", 400, "invalid_request"},
		{"PUT /v1/budget", `{"policy": null}`, 400, "invalid_request"},
		{"PUT /v1/budget", `{"policy": []}`, 400, "invalid_request"},
		{"PUT /v1/budget", `{"policy": {"no_such_limit": 1}}`, 400, "invalid_request"},
		{"PUT /v1/budget", `{"policy": {"resources": [{"name": "a", "concurrent": -1}]}}`, 400, "invalid_request"},
		{"PUT /v1/budget", `{"policy": {"queue": {"hard": "many"}}}`, 400, "invalid_request"},
		{"PUT /v1/budget", deep, 400, "invalid_request"},
		// Callbacks.
		{"POST /v1/evidence", "{}", 404, "callback_not_declared"},
		{"POST /v1/evidence?operation=" + long, "{}", 404, "callback_not_declared"},
		{"POST /v1/evidence?operation=silent", "{}", 404, "callback_not_declared"},
		{"POST /v1/evidence?operation=charge_card", `{"type": "captured"}`, 401, "signature_missing"},
	}
	require.GreaterOrEqual(t, len(rows), 60)
	for _, row := range rows {
		f := &fake{}
		f.put(openTask(acmeInput()))
		core, lines := observer.New(zap.WarnLevel)
		g := New(Options{Client: f, Operations: operations{}, Log: zap.New(core), Env: func(string) string { return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" }})
		method, path, _ := strings.Cut(row.line, " ")
		name := row.line[:min(len(row.line), 100)] + " " + row.body[:min(len(row.body), 60)]
		r := httptest.NewRequest(method, "http://127.0.0.1:7280/", strings.NewReader(row.body))
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "", "", ""
		u, err := r.URL.Parse(path)
		require.NoError(t, err, name)
		r.URL = u
		if row.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		documented(t, r, w)

		text, err := io.ReadAll(w.Result().Body)
		require.NoError(t, err)
		var p contract.Problem
		require.NoError(t, json.Unmarshal(text, &p), "%s: %s", name, text)
		assert.Equal(t, row.status, w.Code, "%s: %s", name, text)
		assert.Equal(t, row.reason, p.Reason, "%s: %s", name, text)
		assert.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), name)
		assert.NotRegexp(t, leaks, strings.ReplaceAll(string(text), problemBase, ""), name)
		assert.Less(t, len(p.Detail), 600, name)
		assert.NotEmpty(t, p.NextAction, name)
		assert.Empty(t, f.started, name)
		assert.Empty(t, f.updates, name)
		assert.Empty(t, f.cancelled, name)
		assert.Empty(t, f.signals, name)
		assert.Empty(t, lines.All(), name)
	}
}
