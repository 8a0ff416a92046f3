package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

func TestIndexShowsTheState(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	status, page := visit(c, "mara", "/console/")
	require.Equal(t, 200, status)
	for i, phase := range contract.Phases() { // each once
		tile := part(t, page, "tile-"+string(phase), "</li>")
		assert.Contains(t, tile, fmt.Sprintf("<strong>%d</strong>", 10+i))
		assert.Contains(t, tile, `href="/console/tasks?phase=`+string(phase)+`"`)
		assert.Equal(t, 1, strings.Count(page, `id="tile-`+string(phase)+`"`))
	}
	assert.Contains(t, part(t, page, "sum", "</p>"), "165 tasks: the phases add up.")
	assert.Contains(t, part(t, page, "tile-accepted", "</li>"), "oldest 1 min 35 s")
	assert.Contains(t, part(t, page, "tile-unknown", "</li>"), "oldest 5 min")

	acme := part(t, page, domID("tenant", "acme"), "</tr>")
	for _, want := range []string{`data-label="critical">1<`, `data-label="normal">3<`, `data-label="low">0<`, "4 of 200", "1 min 35 s",
		"the provider asked to wait: psp_calls until 2026-12-01 10:01:00Z", "Pause acme"} {
		assert.Contains(t, acme, want)
	}
	zeta := part(t, page, domID("tenant", "zeta"), "</tr>")
	assert.Contains(t, zeta, "PAUSED (dispatch) by mara since 2026-12-01 09:00:00Z: audit")
	assert.Contains(t, zeta, "Resume zeta")
	assert.Less(t, strings.Index(page, domID("tenant", "zeta")), strings.Index(page, domID("tenant", "acme")), "what is paused comes first")

	calls := part(t, page, domID("budget", "psp_calls"), "</tr>")
	for _, want := range []string{"4, lowered from 8", "2 of 4 in use", `data-label="Reserved"><div>2</div>`, "acme / inv-1", "charge_card, for 3 s",
		"1 held back: a lost worker may be alive", "the provider asked to wait until 2026-12-01 10:01:00Z"} {
		assert.Contains(t, calls, want)
	}
	assert.Contains(t, part(t, page, domID("budget", "model_tokens"), "</tr>"), "a debt of 50")
	assert.Contains(t, part(t, page, domID("budget", "model_tokens"), "</tr>"), "300 kept by unknown outcomes")
	assert.Contains(t, part(t, page, domID("gate", "refund"), "</div>"), "FROZEN by tom since 2026-12-01 10:00:00Z: two effects")
	assert.Contains(t, part(t, page, domID("gate", "charge_card"), "</div>"), "breaker is open until 2026-12-01 10:01:00Z")

	unknown := part(t, page, domID("unknown", "acme", "inv-7"), "</form>")
	for _, want := range []string{"no answer: timed out after dispatch", "2 look-ups, the last: inconclusive (status 503)", "Next safe step: ask the provider.",
		`name="version" value="3"`, `action="/console/tasks/acme/inv-7/resolve"`} {
		assert.Contains(t, unknown, want)
	}
	assert.Contains(t, part(t, page, "approvals", ""), `<a href="/console/tasks/acme/pay%2F9">acme / pay/9</a>`)
	assert.NotContains(t, page, "disabled")
	assert.NotContains(t, page, `id="stale"`)
	assert.NotContains(t, page, "style=")
}

// What does not add up is red only if tasks that move do not explain it.
func TestLedgerMismatch(t *testing.T) {
	w := newWorld(t)
	w.counts.Total++
	c := w.console(nil)
	for i := 1; i <= 3; i++ {
		_, page := visit(c, "", "/console/")
		sum := part(t, page, "sum", "</p>")
		if i < 3 {
			assert.Contains(t, sum, "166 tasks, 165 in phases: some moved while they were counted.")
		} else {
			assert.Contains(t, sum, "Ledger mismatch: 166 tasks, 165 in phases.")
		}
		w.pass(listEvery)
	}
}

func TestTaskPage(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	status, page := visit(c, "mara", "/console/tasks/acme/inv-7")
	require.Equal(t, 200, status)
	assert.Contains(t, page, "It is what it is.")
	assert.Contains(t, page, "lease returned")
	assert.Contains(t, page, "&lt;b&gt;worker&lt;/b&gt;")
	assert.Contains(t, page, `href="http://127.0.0.1:8233/namespaces/default/workflows/task%2Facme%2Finv-7"`)
	assert.Contains(t, page, `action="/console/tasks/acme/inv-7/resolve"`)

	status, page = visit(c, "mara", "/console/tasks/acme/pay%2F9")
	require.Equal(t, 200, status)
	assert.Contains(t, part(t, page, "payload", "</pre>"), "&#34;amount&#34;: 1200")
	assert.Contains(t, page, `formaction="/console/tasks/acme/pay%2F9/decline"`)

	status, page = visit(c, "mara", "/console/tasks/acme/nothing")
	assert.Equal(t, 404, status)
	assert.Contains(t, page, "has no task with the key nothing")
	status, _ = visit(c, "mara", "/console/nothing")
	assert.Equal(t, 404, status)
}

func TestWithoutTheWebUIThereAreNoLinks(t *testing.T) {
	w := newWorld(t)
	c, err := New(Options{API: w, Now: w.clock})
	require.NoError(t, err)
	_, page := visit(c, "", "/console/tasks/acme/inv-7")
	assert.NotContains(t, page, "Temporal Web UI")
	_, err = New(Options{API: w, UI: "127.0.0.1:8233"})
	assert.ErrorContains(t, err, "no base URL of a Temporal Web UI")
}

func TestListAndFind(t *testing.T) {
	w := newWorld(t)
	w.tasks = []contract.TaskView{{Tenant: "acme", Key: "order", Phase: contract.PhaseSucceeded}, {Tenant: "zeta", Key: "order", Phase: contract.PhaseFailed}, {Tenant: "idle", Key: "x"}}
	c := w.console(nil)
	status, page := visit(c, "", "/console/tasks?phase=unknown&tenant=acme")
	require.Equal(t, 200, status)
	assert.Contains(t, page, "acme / inv-7")
	assert.Contains(t, page, `href="/console/tasks?cursor=more&amp;phase=unknown&amp;tenant=acme"`)

	for query, want := range map[string]string{"acme/inv-7": "/console/tasks/acme/inv-7", "task/acme/pay/9": "/console/tasks/acme/pay%2F9",
		"inv-8": "/console/tasks/acme/inv-8", "pay/9": "/console/tasks/acme/pay%2F9", "idle/x": "/console/tasks/idle/x", "": "/console/"} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7280/console/find", nil)
		q := r.URL.Query()
		q.Set("q", query)
		r.URL.RawQuery = q.Encode()
		answer := ask(c, "", r, nil)
		assert.Equal(t, 303, answer.Code, query)
		assert.Equal(t, want, answer.Header().Get("Location"), query)
	}
	status, page = visit(c, "", "/console/find?q=order")
	assert.Equal(t, 200, status)
	assert.Contains(t, page, "acme / order")
	assert.Contains(t, page, "zeta / order")
	status, page = visit(c, "", "/console/find?q=x")
	assert.Equal(t, 404, status)
	assert.Contains(t, page, "the key of each of 2 tenants")
}

// The deepest queues are shown, and a search finds the rest.
func TestManyTenants(t *testing.T) {
	w := newWorld(t)
	w.queue.Tenants = nil
	for i := range 1000 {
		w.queue.Tenants = append(w.queue.Tenants, admission.TenantView{TenantPolicy: admission.TenantPolicy{Name: fmt.Sprintf("tenant-%04d", i)}, Queued: i})
	}
	c := w.console(nil)
	_, page := visit(c, "", "/console/")
	assert.Contains(t, page, domID("tenant", "tenant-0999"))
	assert.NotContains(t, page, domID("tenant", "tenant-0100"))
	assert.Contains(t, page, "950 more are not shown")
	_, page = visit(c, "", "/console/?q=T-0100")
	assert.Contains(t, page, domID("tenant", "tenant-0100"))
	assert.NotContains(t, page, domID("tenant", "tenant-0999"))
	_, page = visit(c, "", "/console/?q=idle")
	assert.Contains(t, page, `action="/console/tenants/idle/pause"`)
}

func TestPageIsGuarded(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	r := ask(c, "", httptest.NewRequest(http.MethodGet, "/console/", nil), nil)
	assert.Equal(t, policy, r.Header().Get("Content-Security-Policy"))
	assert.Equal(t, "nosniff", r.Header().Get("X-Content-Type-Options"))
	for _, file := range []string{"htmx-4.0.1.min.js", "htmx-4.0.1.LICENSE", "console.js", "console.css", "icon.svg"} {
		status, text := visit(c, "", "/console/assets/"+file)
		assert.Equal(t, 200, status, file)
		assert.NotEmpty(t, text)
	}
	// Only the part that is refreshed, if the page itself asks.
	_, page := visit(c, "", "/console/", "HX-Request", "true")
	assert.NotContains(t, page, "<html")
	assert.Contains(t, page, `id="tile-unknown"`)
}

func TestFront(t *testing.T) {
	said := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	front := Front(said("api"), said("console"))
	for _, c := range []struct{ method, path, accept, want string }{
		{"GET", "/", "text/html,*/*", ""}, {"GET", "/", "application/json", "api"}, {"GET", "/", "", "api"}, {"POST", "/", "text/html", "api"},
		{"GET", "/v1/queue", "text/html", "api"}, {"GET", "/console", "", "console"}, {"POST", "/console/actor", "", "console"}, {"GET", "/consoles", "", "api"},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if c.want == "" {
			assert.Equal(t, 303, w.Code)
			assert.Equal(t, "/console/", w.Header().Get("Location"))
			continue
		}
		assert.Equal(t, c.want, w.Body.String(), "%+v", c)
	}
}

// The trend has one point a look, inside its box.
func TestTrend(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	for i := range 4 {
		w.queue.Depth = 10 * i
		visit(c, "", "/console/")
		w.pass(lookEvery)
	}
	_, page := visit(c, "", "/console/")
	assert.Contains(t, page, `points="0.0,39.0 75.0,26.3 150.0,13.7 225.0,1.0 300.0,1.0"`)
	assert.Empty(t, trendOf([]sample{{At: start, Depth: 3}}))
}

// Who has waited longest for a person comes first.
func TestUnknownOldestFirst(t *testing.T) {
	w := newWorld(t)
	w.unknown[1].Reconciliation.Since = start.Add(-time.Hour)
	_, page := visit(w.console(nil), "", "/console/")
	assert.Less(t, strings.Index(page, domID("unknown", "acme", "inv-8")), strings.Index(page, domID("unknown", "acme", "inv-7")))
	assert.Contains(t, part(t, page, "tile-unknown", "</li>"), "oldest 1 h 0 min")
}

// What is in no phase that is known has a tile of its own, so that all adds up.
func TestTilesOfTheRest(t *testing.T) {
	w := newWorld(t)
	w.counts.Outside, w.counts.Unlooked, w.counts.Total = 2, 30, w.counts.Total+32
	_, page := visit(w.console(nil), "", "/console/")
	assert.Contains(t, part(t, page, "tile-outside", "</li>"), "<strong>2</strong>")
	assert.Contains(t, part(t, page, "tile-unlooked", "</li>"), "<strong>30</strong>")
	assert.Contains(t, part(t, page, "sum", "</p>"), "197 tasks: the phases add up.")
}
