package console

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

var start = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

// world is an API of a small state, and a clock.
type world struct {
	t  testing.TB
	mu sync.Mutex

	now       time.Time
	queue     queueView
	counts    contract.PhaseCounts
	unknown   []contract.TaskView
	approvals []contract.TaskView
	tasks     []contract.TaskView        // found by tenant and key, beside those above
	down      string                     // reason of every answer about the budget; empty: it answers
	refuse    *contract.Problem          // the next order is answered so
	keys      map[string]contract.Caller // nil: the API asks for none

	calls  []string // method and path
	sent   []string // Authorization of each
	orders []map[string]any
}

// newWorld has one tenant in each state that the page tells apart.
func newWorld(t testing.TB) *world {
	w := &world{t: t, now: start}
	held := start.Add(time.Minute)
	w.queue = queueView{View: admission.View{Now: start, Depth: 7, Soft: 800, Hard: 1000, OldestAge: admission.Duration(95 * time.Second), InFlight: 2, Policy: "sha256:aa",
		Resources: []admission.ResourceView{
			{Resource: admission.Resource{Name: "psp_calls", Concurrent: 8}, Limit: 4, Used: 2, Reserved: 2, Held: &held},
			{Resource: admission.Resource{Name: "model_tokens", Per: admission.Duration(time.Minute), Amount: 120000, Burst: 20000}, Level: -50},
		},
		Tenants: []admission.TenantView{
			{TenantPolicy: admission.TenantPolicy{Name: "acme", MaxQueued: 200}, Queued: 4, InFlight: 2, OldestAge: admission.Duration(95 * time.Second), WaitingOn: admission.ProviderHold, Resource: "psp_calls",
				ByPriority: []admission.PriorityDepth{{Priority: admission.Normal, Queued: 3}, {Priority: admission.Critical, Queued: 1}}},
			{TenantPolicy: admission.TenantPolicy{Name: "zeta"}, Queued: 3, OldestAge: admission.Duration(10 * time.Second), WaitingOn: admission.TenantPaused,
				Pause: &admission.Pause{Dispatch: true, Actor: "mara", Reason: "audit", Since: start.Add(-time.Hour)}},
		},
		Gates: []admission.GateView{{Operation: "refund", State: admission.OperationFrozen, Frozen: &admission.Freeze{Actor: "tom", Reason: "two effects", Since: start}},
			{Operation: "charge_card", State: admission.BreakerOpen, Until: &held}},
		Doubts: []admission.DoubtView{{Operation: "charge_card", Tenant: "acme", Tasks: 2, Ceiling: 5, Since: start, Held: []admission.Cost{{Resource: "model_tokens", Amount: 300}}}},
		Leases: []admission.LeaseView{{Task: "task/acme/inv-1", Tenant: "acme", Operation: "charge_card", Lease: admission.Lease{ID: "l1", Granted: start.Add(-3 * time.Second)}, Cost: []admission.Cost{{Resource: "psp_calls", Amount: 1}}},
			{Task: "task/acme/inv-2", Tenant: "acme", Operation: "charge_card", Lease: admission.Lease{ID: "l2", Granted: start}, Grace: true, Cost: []admission.Cost{{Resource: "psp_calls", Amount: 1}}}},
	}}
	for i, phase := range contract.Phases() {
		w.counts.Phases = append(w.counts.Phases, contract.PhaseCount{Phase: phase, Tasks: 10 + i})
		w.counts.Total += 10 + i
	}
	w.unknown = []contract.TaskView{w.doubt("inv-7", 3), w.doubt("inv-8", 1)}
	ask := contract.TaskView{Tenant: "acme", Key: "pay/9", Task: "task/acme/pay/9", Operation: "pay_out", Phase: contract.PhaseAccepted,
		Approval: &contract.ApprovalStand{Version: 1, Since: start, Expires: start.Add(time.Hour), Hash: "sha256:payload", Digest: "sha256:op"}}
	w.approvals = []contract.TaskView{ask}
	return w
}

func (w *world) doubt(key string, version int) contract.TaskView {
	return contract.TaskView{Tenant: "acme", Key: key, Task: contract.TaskID("acme", key), Operation: "charge_card", Attempts: 1, Phase: contract.PhaseUnknown,
		ErrorClass: "no_answer", Detail: "timed out after dispatch", NextStep: "ask the provider", Reconciliation: &contract.Stand{Version: version, Phase: contract.PhaseUnknown,
			Reason: "no_answer", Since: start.Add(-5 * time.Minute), Probes: 2, LastProbe: &contract.Evidence{Finding: contract.Inconclusive, Detail: "status 503"}}}
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := r.URL.EscapedPath()
	w.calls, w.sent = append(w.calls, r.Method+" "+path), append(w.sent, r.Header.Get("Authorization"))
	who, known := w.keys[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	switch {
	case w.keys != nil && !known:
		w.fail(out, contract.Problem{Status: 401, Reason: "key_required", Title: "A key is required", Detail: "send a valid API key"})
	case r.Method != http.MethodGet:
		w.order(out, r, path)
	case path == "/v1/caller":
		w.answer(out, who)
	case w.down != "" && (path == "/v1/queue" || path == "/v1/phases"):
		w.fail(out, contract.Problem{Status: 503, Reason: w.down, Title: "The budget does not answer", Detail: "no worker took the question"})
	case path == "/v1/queue":
		w.answer(out, w.queue)
	case path == "/v1/phases":
		w.answer(out, w.counts)
	case path == "/v1/unknown":
		w.answer(out, contract.TaskPage{Tasks: w.unknown})
	case path == "/v1/approvals":
		w.answer(out, contract.TaskPage{Tasks: w.approvals})
	case path == "/v1/tasks":
		w.answer(out, contract.TaskPage{Tasks: w.all(), Cursor: "more"})
	default:
		w.one(out, path)
	}
}

func (w *world) all() []contract.TaskView {
	return slices.Concat(w.unknown, w.approvals, w.tasks)
}

// one answers about one task.
func (w *world) one(out http.ResponseWriter, path string) {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/tasks/"), "/")
	key, err := url.PathUnescape(parts[1])
	require.NoError(w.t, err)
	all := w.all()
	i := slices.IndexFunc(all, func(t contract.TaskView) bool { return t.Tenant == parts[0] && t.Key == key })
	switch {
	case i < 0:
		w.fail(out, contract.Problem{Status: 404, Reason: "task_not_found", Title: "No such task", Detail: "tenant " + parts[0] + " has no task with the key " + key})
	case len(parts) == 2:
		w.answer(out, all[i])
	case parts[2] == "approval":
		w.answer(out, contract.ApprovalView{Task: all[i], Payload: json.RawMessage(`{"amount":1200}`)})
	default:
		w.answer(out, contract.Explanation{Task: all[i], Sentence: "It is what it is.", Events: []contract.Event{
			{At: start, Name: "accepted", Detail: "charge_card", Actor: "gateway-1"}, {At: start.Add(time.Second), Name: "lease_returned", Attempt: 1, Actor: "<b>worker</b>"}}})
	}
}

// order carries out what a console asks.
func (w *world) order(out http.ResponseWriter, r *http.Request, path string) {
	var body map[string]any
	require.NoError(w.t, json.NewDecoder(r.Body).Decode(&body))
	require.Equal(w.t, "application/json", r.Header.Get("Content-Type"))
	if w.refuse != nil {
		w.fail(out, *w.refuse)
		w.refuse = nil
		return
	}
	body["path"] = path
	w.orders = append(w.orders, body)
	name := strings.Split(path, "/")[3]
	switch {
	case strings.HasSuffix(path, "/resolve"):
		key := strings.Split(path, "/")[4]
		i := slices.IndexFunc(w.unknown, func(t contract.TaskView) bool { return t.Key == key })
		if i < 0 || body["version"] != float64(w.unknown[i].Reconciliation.Version) {
			w.orders = w.orders[:len(w.orders)-1]
			w.fail(out, contract.Problem{Status: 409, Reason: "stale_version", Title: "The reconciliation has moved on", Detail: "version is not the current one; read the task again and decide on what it shows now"})
			return
		}
		w.unknown = slices.Delete(slices.Clone(w.unknown), i, i+1)
	case strings.HasSuffix(path, "/pause"), strings.HasSuffix(path, "/resume"):
		i := slices.IndexFunc(w.queue.Tenants, func(t admission.TenantView) bool { return t.Name == name })
		w.queue.Tenants = slices.Clone(w.queue.Tenants)
		if w.queue.Tenants[i].Pause = nil; strings.HasSuffix(path, "/pause") {
			w.queue.Tenants[i].Pause = &admission.Pause{Dispatch: true, Actor: body["actor"].(string), Reason: body["reason"].(string), Since: w.now}
		}
	}
	w.answer(out, body)
}

func (w *world) answer(out http.ResponseWriter, v any) {
	out.Header().Set("Content-Type", "application/json")
	require.NoError(w.t, json.NewEncoder(out).Encode(v))
}

func (w *world) fail(out http.ResponseWriter, p contract.Problem) {
	out.Header().Set("Content-Type", "application/problem+json")
	out.WriteHeader(p.Status)
	require.NoError(w.t, json.NewEncoder(out).Encode(p))
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// asked counts the calls of a path.
func (w *world) asked(path string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.calls {
		if call == "GET "+path {
			n++
		}
	}
	return n
}

func (w *world) console(people config.People) *Console {
	c, err := New(Options{API: w, People: people, UI: "http://127.0.0.1:8233/", Now: w.clock})
	require.NoError(w.t, err)
	return c
}

// visit gets a page as somebody; empty: nobody.
func visit(c *Console, as, path string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7280"+path, nil)
	answer := ask(c, as, r, header)
	return answer.Code, answer.Body.String()
}

// send posts a form as somebody, as a browser does from one of our pages.
func send(c *Console, as, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7280"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return ask(c, as, r, header)
}

func ask(c *Console, as string, r *http.Request, header []string) *httptest.ResponseRecorder {
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if as != "" {
		r.AddCookie(&http.Cookie{Name: actorCookie, Value: url.QueryEscape(as)})
	}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, r)
	return w
}

func body(r *httptest.ResponseRecorder) string {
	text, _ := io.ReadAll(r.Result().Body)
	return string(text)
}

// part cuts a page from an element with an ID to another text.
func part(t *testing.T, page, id, until string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `id="`+id+`"`)
	require.True(t, ok, "%s is on the page", id)
	text, _, ok := strings.Cut(rest, cmp.Or(until, "</section>"))
	require.True(t, ok)
	return text
}

func notAllowed() *contract.Problem {
	return &contract.Problem{Status: 403, Reason: "not_allowed", Title: "The decision is not this actor's to make", Detail: "no right"}
}
