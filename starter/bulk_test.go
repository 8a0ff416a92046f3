package main

import (
	"encoding/json"
	"fmt"
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

// bulkGateway answers by key, and remembers what came.
type bulkGateway struct {
	mu     sync.Mutex
	bodies map[string][]string // by key
	times  []time.Time
	answer func(key string, n int) (status int, reason string, after int) // the n-th of a key, from 1
}

func newBulkGateway(t *testing.T, answer func(key string, n int) (int, string, int)) *bulkGateway {
	g := &bulkGateway{bodies: map[string][]string{}, answer: answer}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	t.Setenv("HEADGATE_GATEWAY", server.URL)
	return g
}

func (g *bulkGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	key := strings.Trim(r.Header.Get("Idempotency-Key"), `"`)
	g.bodies[key], g.times = append(g.bodies[key], string(body)), append(g.times, time.Now())
	status, reason, after := g.answer(key, len(g.bodies[key]))
	if status == http.StatusAccepted {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(contract.TaskView{Key: key})
		return
	}
	next := contract.NextDoNotRetry
	if after > 0 {
		next = contract.NextRetryLater
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(contract.Problem{Title: "No", Status: status, Reason: reason, RetryAfter: after, NextAction: next})
}

func bulkFile(t *testing.T, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"key":"k%d","operation":"charge_card","payload":{"amount":%d}}`+"\n\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

func TestBulkWaitsAndKeepsItsKeys(t *testing.T) {
	g := newBulkGateway(t, func(key string, n int) (int, string, int) {
		if key == "k0" && n == 1 {
			return 429, "queue_full", 1
		}
		return 202, "", 0
	})
	file := bulkFile(t, 20)
	got := command("", "submit", "-f", file, "--tenant", "acme", "--parallel", "1")
	require.Equal(t, exitDone, got.status, got.errors)
	assert.Equal(t, "20 accepted, 0 refused.\n", got.out)
	require.Len(t, g.bodies["k0"], 2)
	assert.Equal(t, g.bodies["k0"][0], g.bodies["k0"][1], "the same request under the same key")
	assert.JSONEq(t, `{"tenant":"acme","operation":"charge_card","payload":{"amount":0}}`, without(t, g.bodies["k0"][0], "priority"))
	assert.GreaterOrEqual(t, g.times[1].Sub(g.times[0]), 990*time.Millisecond, "Retry-After")
	assert.Len(t, g.bodies, 20)

	// Once more: nothing is left to send.
	sent := len(g.times)
	got = command("", "submit", "-f", file, "--tenant", "acme")
	require.Equal(t, exitDone, got.status, got.errors)
	assert.Equal(t, "0 accepted, 20 before, 0 refused.\n", got.out)
	assert.Len(t, g.times, sent)
}

func without(t *testing.T, text, member string) string {
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	delete(m, member)
	out, err := json.Marshal(m)
	require.NoError(t, err)
	return string(out)
}

// A run that was killed goes on where it was; what was refused, or has changed, is
// sent again.
func TestBulkGoesOn(t *testing.T) {
	g := newBulkGateway(t, func(key string, n int) (int, string, int) {
		if key == "k3" && n == 1 {
			return 400, "invalid_payload", 0
		}
		return 202, "", 0
	})
	file := bulkFile(t, 6)
	got := command("", "submit", "-f", file, "--tenant", "acme")
	require.Equal(t, exitRefused, got.status)
	assert.Contains(t, got.errors, "line 7, key k3: No (invalid_payload)")
	assert.Contains(t, got.errors, "1 tasks were refused for good. Change their lines, then run the same command again.")

	// As a kill leaves it: the last entry is cut.
	text, err := os.ReadFile(file + ".progress")
	require.NoError(t, err)
	kept := strings.SplitAfter(strings.TrimSpace(string(text)), "\n")
	require.Len(t, kept, 6)
	cut := kept[5]
	var last entry
	require.NoError(t, json.Unmarshal([]byte(cut), &last))
	require.NoError(t, os.WriteFile(file+".progress", []byte(strings.Join(kept[:5], "")+cut[:len(cut)/2]), 0o600))
	lines, err := os.ReadFile(file)
	require.NoError(t, err)
	changed := strings.Replace(string(lines), `{"amount":0}`, `{"amount":99}`, 1)
	require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))

	got = command("", "submit", "-f", file, "--tenant", "acme")
	require.Equal(t, exitDone, got.status, got.errors)
	again := map[string]bool{"k0": true, "k3": true, last.Task[len("task/acme/"):]: true}
	for key, bodies := range g.bodies {
		want := 1
		if again[key] {
			want = 2
		}
		assert.Len(t, bodies, want, key)
	}
	got = command("", "submit", "-f", file, "--tenant", "acme")
	assert.Equal(t, "0 accepted, 6 before, 0 refused.\n", got.out)
}

func TestBulkGivesUp(t *testing.T) {
	g := newBulkGateway(t, func(string, int) (int, string, int) { return 503, "budget_unavailable", 1 })
	file := bulkFile(t, 3)
	got := command("", "submit", "-f", file, "--tenant", "acme", "--patience", "500ms", "--parallel", "1")
	assert.NotZero(t, got.status)
	assert.Contains(t, got.errors, "no task was answered for 500ms")
	assert.Equal(t, "0 accepted, 0 refused.\n", got.out)

	// A key that is not good is no fault of the lines.
	g.answer = func(string, int) (int, string, int) { return 401, "unauthorized", 0 }
	got = command("", "submit", "-f", file, "--tenant", "acme")
	assert.Equal(t, exitRefused, got.status)
	assert.Equal(t, "0 accepted, 0 refused.\n", got.out)
}

func TestBulkRefusesAFileBeforeItSendsAnything(t *testing.T) {
	g := newBulkGateway(t, func(string, int) (int, string, int) { return 202, "", 0 })
	good := `{"key":"a","tenant":"acme","operation":"x"}` + "\n"
	for text, want := range map[string]string{
		good + `{"tenant":"acme","operation":"x"}`: `line 2: there is no "key"`,
		good + good:                          `line 2: the key "a" is that of line 1`,
		good + `{"key":"b","operation":"x"}`: `line 2: there is no "tenant"`,
		good + `{"key":"b","tenant":"acme"}`: `line 2: there is no "operation"`,
		good + `{"key":"b","tenat":"acme"}`:  `line 2: json: unknown field "tenat"`,
		good + `{`:                           `line 2: `,
		good + `{"key":"b","tenant":"acme","operation":"x"} {}`:  `more than one task`,
		good + `{"key":"b","tenant":"acme","priority":"urgent"}`: `line 2: `,
	} {
		got := command(text, "submit", "-f", "-")
		assert.Equal(t, exitUsage, got.status, text)
		assert.Contains(t, got.errors, want)
	}
	assert.Empty(t, g.times)
	got := command("", "submit", "-f", "-", "charge_card")
	assert.Equal(t, exitUsage, got.status)
}

func TestMeter(t *testing.T) {
	var out strings.Builder
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	m := newMeter(&out, "tasks", 1000, 100)
	m.begun, m.now = now, func() time.Time { return now }
	for range 30 {
		now = now.Add(time.Second)
		m.add(10, "")
	}
	m.add(0, "2 refused")
	m.end()
	assert.Equal(t, "210 of 1000 tasks, 10/s, about 1m19s left\n310 of 1000 tasks, 10/s, about 1m9s left\n", out.String(), "no line that moves")
	assert.Equal(t, "400 of 1000 tasks, 10/s, about 1m left; 2 refused", m.text())
}
