package gateway

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// ring is a file of keys of which the test knows the texts.
type ring struct {
	path  string
	lines []string
}

func (k *ring) add(name, tenant string, roles ...string) (header string) {
	text, entry := config.NewKey(name, tenant, roles)
	k.lines = append(k.lines, entry.Line())
	return "Bearer " + text
}

func (k *ring) write(t *testing.T) {
	require.NoError(t, os.WriteFile(k.path, []byte(strings.Join(k.lines, "\n")), 0o600))
}

func (k *ring) open(t *testing.T, log *zap.Logger) *Keys {
	k.path = filepath.Join(t.TempDir(), "keys")
	k.write(t)
	keys, err := OpenKeys(k.path, log)
	require.NoError(t, err)
	return keys
}

func lockedGateway(t *testing.T, f *fake, k *ring, people config.People) *Gateway {
	return New(Options{Client: f, Operations: operations{}, Keys: k.open(t, zap.NewNop()), People: people, Now: func() time.Time { return start }})
}

// whole is everything of an answer that a client sees.
func whole(t *testing.T, r *http.Response) string {
	var text strings.Builder
	require.NoError(t, r.Write(&text))
	return text.String()
}

// fill puts names in the places of a route.
func fillPath(path, tenant, key string) string {
	return strings.NewReplacer("{tenant}", tenant, "{key}", key, "{operation}", "charge_card").Replace(path)
}

// Every route but those that tell nothing wants a key, and a wrong one is
// answered like none.
func TestEveryRouteNeedsAKey(t *testing.T) {
	var k ring
	k.add("ci", "acme", config.RoleView)
	f := &fake{}
	g := lockedGateway(t, f, &k, nil)
	free := map[string]bool{"/healthz": true, "/readyz": true, "/v1/evidence": true, "/openapi.json": true}
	paths := []route{{"GET", "/nothing", views(), nil}, {"DELETE", "/v1/tasks", views(), nil}}
	for _, rt := range append(paths, g.routes()...) {
		path := fillPath(rt.path, "acme", "inv-42")
		none := do(t, g, rt.method, path, "")
		if free[rt.path] {
			assert.Empty(t, none.Header.Get("WWW-Authenticate"), path)
			continue
		}
		require.Equal(t, 401, none.StatusCode, path)
		require.Equal(t, "Bearer", none.Header.Get("WWW-Authenticate"), path)
		want := whole(t, none)
		for _, wrong := range []string{"", "Bearer", "Bearer ", "Basic YTpi", "Bearer hgk_wrong", "hgk_wrong", strings.Fields(k.lines[0])[1]} {
			assert.Equal(t, want, whole(t, do(t, g, rt.method, path, "", "Authorization", wrong)), "%s %q", path, wrong)
		}
		text, _ := config.NewKey("x", "acme", []string{config.RoleView})
		assert.Equal(t, want, whole(t, do(t, g, rt.method, path, "", "Authorization", "Bearer "+text)), path)
	}
	assert.Empty(t, f.updates)
}

// The keys of one tenant reach nothing of another, and the answer is the same for
// what exists and what does not: Temporal and the budget are not even asked.
func TestForeignTenant(t *testing.T) {
	var k ring
	keys := map[string]string{"view": k.add("v", "acme", config.RoleView), "submit": k.add("s", "acme", config.RoleSubmit),
		"operate": k.add("o", "acme", config.RoleOperate), "all roles": k.add("a", "acme", config.RoleView, config.RoleSubmit, config.RoleOperate)}
	asked := 0
	f := &fake{describe: func(string) error { asked++; return nil },
		query: func(string, []any) (any, error) { asked++; return admission.View{}, nil },
		list: func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			asked++
			return &workflowservice.ListWorkflowExecutionsResponse{}, nil
		}}
	theirs := contract.TaskInput{Tenant: "globex", Key: "there", Operation: "charge_card"}
	f.put(openTask(theirs))
	g := lockedGateway(t, f, &k, nil)
	word := `{"id": "d-1", "actor": "v", "outcome": "happened", "evidence": "seen", "version": 1}`
	seen := 0
	for role, key := range keys {
		for _, rt := range g.routes() {
			if !strings.Contains(rt.path, "{tenant}") {
				continue
			}
			body := ""
			if rt.method != "GET" {
				body = word
			}
			there := do(t, g, rt.method, fillPath(rt.path, "globex", "there"), body, "Authorization", key)
			absent := do(t, g, rt.method, fillPath(rt.path, "globex", "absent"), body, "Authorization", key)
			nobody := do(t, g, rt.method, fillPath(rt.path, "nobody", "absent"), "not JSON", "Authorization", key)
			require.Equal(t, 403, there.StatusCode, "%s %s", role, rt.path)
			answer := whole(t, there)
			assert.NotContains(t, answer, "globex")
			assert.Equal(t, answer, whole(t, absent), "%s %s", role, rt.path)
			assert.Equal(t, answer, whole(t, nobody), "%s %s", role, rt.path)
			seen++
		}
		for _, path := range []string{"/v1/tasks", "/v1/unknown", "/v1/approvals"} {
			r := do(t, g, "GET", path+"?tenant=globex", "", "Authorization", key)
			assert.Equal(t, 403, r.StatusCode, path)
			assert.Equal(t, "tenant_forbidden", decodeBody[contract.Problem](t, r).Reason)
		}
	}
	assert.Greater(t, seen, 4*8, "routes were tried")
	for _, id := range []string{"there", "absent"} {
		r := do(t, g, "POST", "/v1/tasks", strings.Replace(body, "acme", "globex", 1), "Authorization", keys["submit"], "Idempotency-Key", id)
		p := decodeBody[contract.Problem](t, r)
		assert.Equal(t, []string{"tenant_forbidden", "REJECTED", "the key is bound to another tenant"}, []string{p.Reason, p.DeliveryState, p.Detail})
	}
	for _, rt := range g.routes() { // what is everybody's is not for one tenant's keys
		if rt.needs.all {
			r := do(t, g, rt.method, fillPath(rt.path, "", ""), "", "Authorization", keys["all roles"])
			assert.Equal(t, "role_missing", decodeBody[contract.Problem](t, r).Reason, rt.path)
		}
	}
	assert.Zero(t, asked)
	assert.Empty(t, f.updates)
	assert.Empty(t, f.cancelled)
	assert.Empty(t, f.started)
}

// What a tenant's key may do with its own, by role.
func TestRoles(t *testing.T) {
	var k ring
	keys := map[string]string{"view": k.add("v", "acme", config.RoleView), "submit": k.add("s", "acme", config.RoleSubmit),
		"operate": k.add("o", "acme", config.RoleOperate), "everywhere": k.add("e", "*", config.RoleOperate)}
	g := lockedGateway(t, &fake{query: func(string, []any) (any, error) { return admission.View{}, nil },
		list: func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			return &workflowservice.ListWorkflowExecutionsResponse{}, nil
		}}, &k, nil)
	reasons := map[string]bool{"key_required": true, "role_missing": true, "tenant_forbidden": true}
	for _, rt := range g.routes() {
		for role, key := range keys {
			r := do(t, g, rt.method, fillPath(rt.path, "acme", "inv-42"), "", "Authorization", key)
			var refused bool
			if r.StatusCode >= 400 {
				refused = reasons[decodeBody[contract.Problem](t, r).Reason]
			}
			want := rt.needs.role != "" && (rt.needs.role == "submit" && role != "submit" ||
				rt.needs.role == "operate" && role != "operate" && role != "everywhere" || rt.needs.all && role != "everywhere")
			assert.Equal(t, want, refused, "%s %s by %s: %d", rt.method, rt.path, role, r.StatusCode)
		}
	}
}

// The actor of an order is the key's name, whatever the body says; people's
// rights are those of that name; and who may ask does not decide.
func TestActorIsTheKey(t *testing.T) {
	var k ring
	mara, ops := k.add("mara", "acme", config.RoleOperate), k.add("ops", "*", config.RoleOperate)
	both := k.add("tom", "acme", config.RoleOperate, config.RoleSubmit)
	people := config.People{{Name: "mara", Rights: []string{"approve", "resolve"}}, {Name: "ops", Rights: []string{"pause"}}, {Name: "tom", Rights: []string{"approve", "resolve"}}}
	f := &fake{update: func(o client.UpdateWorkflowOptions) (any, error) {
		switch o.UpdateName {
		case contract.PauseUpdate:
			return o.Args[0], nil
		case contract.FreezeUpdate:
			return contract.FreezeReply{Operation: "charge_card"}, nil
		}
		return contract.ApprovalReply{Outcome: "done", Version: 2}, nil
	}}
	f.put(openTask(acmeInput()))
	g := lockedGateway(t, f, &k, people)
	approve := `{"id": "d-1", "evidence": "checked", "version": 1, "payload_hash": "sha256:aa", "operation_digest": "sha256:op"}`
	resolve := `{"actor": "ops", "outcome": "happened", "evidence": "seen", "version": 3}`
	for _, c := range []struct {
		key, method, path, body string
		status                  int
	}{
		{mara, "POST", "/v1/tasks/acme/inv-42/approve", approve, 200},
		{mara, "POST", "/v1/tasks/acme/inv-42/resolve", resolve, 200},
		{ops, "POST", "/v1/tasks/acme/inv-42/resolve", resolve, 403},
		{both, "POST", "/v1/tasks/acme/inv-42/approve", approve, 403},
		{both, "POST", "/v1/tasks/acme/inv-42/resolve", resolve, 403},
		{mara, "POST", "/v1/tenants/acme/pause", `{"actor": "ops"}`, 403},
		{ops, "POST", "/v1/tenants/acme/pause", `{"actor": "mara"}`, 200},
		{ops, "PUT", "/v1/operations/charge_card/freeze", `{"actor": "mara", "reason": "look"}`, 200},
		{both, "POST", "/v1/tasks/acme/inv-42/cancel", `{"actor": "mara", "reason": "typo"}`, 202},
	} {
		r := do(t, g, c.method, c.path, c.body, "Authorization", c.key)
		require.Equal(t, c.status, r.StatusCode, "%s %s", c.path, c.body)
	}
	require.Len(t, f.updates, 4)
	assert.Equal(t, "mara", f.updates[0].Args[0].(contract.ApprovalDecision).Actor)
	assert.Equal(t, "mara", f.updates[1].Args[0].(contract.Resolution).Actor)
	assert.Equal(t, "ops", f.updates[2].Args[0].(contract.PauseRequest).Actor)
	assert.Equal(t, "ops", f.updates[3].Args[0].(contract.FreezeRequest).Actor)
	assert.Equal(t, []string{"task/acme/inv-42 by tom: typo"}, f.cancelled)
}

// A submission needs no tenant where the key has one.
func TestTenantOfTheKey(t *testing.T) {
	var k ring
	bound, free := k.add("agent", "acme", config.RoleSubmit), k.add("agents", "*", config.RoleSubmit)
	for key, c := range map[string]struct {
		body   string
		status int
	}{bound: {`{"operation": "charge_card"}`, 202}, free: {`{"operation": "charge_card"}`, 400}} {
		f := &fake{}
		r := do(t, lockedGateway(t, f, &k, nil), "POST", "/v1/tasks", c.body, "Authorization", key, "Idempotency-Key", "k")
		require.Equal(t, c.status, r.StatusCode)
		if c.status == 202 {
			assert.Equal(t, "acme", f.inputs[0].Tenant)
		}
	}
}

// Shared answers hold nothing of other tenants.
func TestOwnView(t *testing.T) {
	var k ring
	key, all := k.add("v", "acme", config.RoleView), k.add("ops", "*", config.RoleView)
	probe, lease := "task/globex/first", admission.LeaseView{Task: "task/globex/x", Tenant: "globex"}
	view := admission.View{Depth: 9, InFlight: 7, OldestAge: 5, Hard: 10,
		Resources: []admission.ResourceView{{Resource: admission.Resource{Name: "psp_calls", Concurrent: 4}, Limit: 2, Used: 2, Asked: 1}},
		Tenants:   []admission.TenantView{{TenantPolicy: admission.TenantPolicy{Name: "acme"}, Queued: 1}, {TenantPolicy: admission.TenantPolicy{Name: "globex"}, Queued: 8}},
		Gates:     []admission.GateView{{Operation: "charge_card", State: admission.BreakerProbe, Probe: probe, Stopping: 3}},
		Doubts:    []admission.DoubtView{{Tenant: "globex"}, {Tenant: "acme"}},
		Leases:    []admission.LeaseView{lease, {Task: "task/acme/x", Tenant: "acme"}}}
	why := admission.Why{Stand: admission.StandQueued, Reason: admission.BreakerProbe}
	f := &fake{query: func(name string, _ []any) (any, error) {
		switch name {
		case contract.WhyQuery:
			return why, nil
		case contract.LeasesQuery:
			return []admission.LeaseView{{Task: "task/acme/x", Tenant: "acme"}, lease}, nil
		}
		return view, nil
	}}
	f.put(openTask(acmeInput()))
	g := lockedGateway(t, f, &k, nil)
	ask := func(path, key string) string {
		r := do(t, g, "GET", path, "", "Authorization", key)
		require.Equal(t, 200, r.StatusCode, path)
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return string(text)
	}
	mine := ask("/v1/queue", key)
	assert.NotContains(t, mine, "globex")
	assert.Contains(t, mine, `"depth":1,`)
	assert.Contains(t, mine, `"used":0`)
	assert.Contains(t, mine, "task/acme/x")
	assert.NotContains(t, mine, "stopping")
	assert.Contains(t, ask("/v1/queue", all), probe)
	assert.NotContains(t, ask("/v1/tasks/acme/inv-42/why", key), "globex")
	assert.Contains(t, ask("/v1/tasks/acme/inv-42/why", all), probe)
	why = admission.Why{Stand: admission.StandStandby, Detail: "after task/globex/x"}
	assert.NotContains(t, ask("/v1/tasks/acme/inv-42/why", key), "globex")
	assert.Contains(t, ask("/v1/tasks/acme/inv-42/why", all), "after task/globex/x")

	page := ask("/v1/tasks?phase=leased&limit=2&cursor="+base64.RawURLEncoding.EncodeToString([]byte("lease:task/acme/a")), key)
	assert.NotContains(t, page, "cursor", "it would name another's task")
}

func TestKeysAreReadAnew(t *testing.T) {
	var k ring
	old := k.add("agent", "acme", config.RoleView)
	core, lines := observer.New(zap.InfoLevel)
	keys := k.open(t, zap.New(core))
	g := New(Options{Client: &fake{}, Operations: operations{}, Keys: keys})
	status := func(key string) int { return do(t, g, "GET", "/v1/tasks/acme/k", "", "Authorization", key).StatusCode }
	require.Equal(t, 404, status(old))

	fresh := k.add("agent", "acme", config.RoleView)
	k.lines = k.lines[1:]
	k.write(t)
	require.Equal(t, 404, status(old), "nobody has looked")
	keys.reload(t.Context())
	assert.Equal(t, []int{401, 404}, []int{status(old), status(fresh)})

	require.NoError(t, os.WriteFile(k.path, []byte("broken\n"), 0o600))
	for range 3 {
		keys.reload(t.Context())
	}
	assert.Equal(t, []int{401, 404}, []int{status(old), status(fresh)}, "what was read before stays")
	require.NoError(t, os.WriteFile(k.path, nil, 0o600))
	keys.reload(t.Context())
	assert.Equal(t, 401, status(fresh), "an empty file lets nobody in")
	assert.Equal(t, 1, lines.FilterMessageSnippet("cannot be used").Len(), "told once")
	assert.Equal(t, 2, lines.FilterMessage("API keys were read anew").Len())
}

// A changed file is noticed by itself and, at once, by a signal.
func TestKeysAreWatched(t *testing.T) {
	for name, every := range map[string]time.Duration{"by itself": time.Millisecond, "by a signal": time.Hour} {
		var k ring
		old := k.add("agent", "acme", config.RoleView)
		keys := k.open(t, zap.NewNop())
		g := New(Options{Client: &fake{}, Operations: operations{}, Keys: keys})
		ctx, stop := context.WithCancel(t.Context())
		hup, done := make(chan struct{}, 1), make(chan struct{})
		go func() { defer close(done); keys.Watch(ctx, every, hup) }()
		status := func(key string) int { return do(t, g, "GET", "/v1/tasks/acme/k", "", "Authorization", key).StatusCode }
		fresh := k.add("agent", "acme", config.RoleView)
		k.write(t)
		hup <- struct{}{}
		require.Eventually(t, func() bool { return status(fresh) == 404 && status(old) == 404 }, 10*time.Second, 5*time.Millisecond, name)
		stop()
		<-done
	}
}

// A file that changes again while it is looked at is left for the next look.
func TestKeysThatAreBeingWritten(t *testing.T) {
	var k ring
	key := k.add("agent", "acme", config.RoleView)
	keys := k.open(t, zap.NewNop())
	require.NoError(t, os.WriteFile(k.path, nil, 0o600)) // as in the middle of a write
	keys.after = func(d time.Duration) <-chan time.Time {
		k.write(t)
		return time.After(0)
	}
	keys.reload(t.Context())
	_, ok := keys.now().Find(strings.TrimPrefix(key, "Bearer "))
	assert.True(t, ok, "nobody was shut out")
}
