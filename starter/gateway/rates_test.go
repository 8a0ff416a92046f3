package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"headgate/config"
	"headgate/contract"
)

func TestRates(t *testing.T) {
	r := newRates(10)
	for i := range 20 {
		require.Zero(t, r.take(start, "a"), i)
	}
	assert.Equal(t, 100*time.Millisecond, r.take(start, "a"))
	assert.Equal(t, 100*time.Millisecond, r.take(start, "a"), "a refusal costs nothing")
	assert.Zero(t, r.take(start, "b"))
	assert.Zero(t, r.take(start.Add(100*time.Millisecond), "a"))

	// A crowd of clients is not told apart, and does not grow the table.
	r = newRates(10)
	for i := range maxClients {
		require.Zero(t, r.take(start, fmt.Sprint(i)))
	}
	for i := range 20 {
		require.Zero(t, r.take(start, fmt.Sprint("late ", i)))
	}
	assert.Positive(t, r.take(start, "one more"))
	assert.Len(t, r.clients, maxClients)
	assert.Zero(t, r.take(start.Add(time.Minute), "one more"), "the others have been silent")
	assert.Len(t, r.clients, 1)
}

func TestClientRate(t *testing.T) {
	var k ring
	keys := []string{k.add("a", "acme", config.RoleView), k.add("b", "acme", config.RoleView)}
	ring := k.open(t, zap.NewNop())
	ask := func(g *Gateway, from, key string) (status int, after, reason string) {
		r := httptest.NewRequest("GET", "/v1/tasks/acme/absent", nil)
		r.RemoteAddr = from
		r.Header.Set("Authorization", key)
		r.Header.Set("X-Forwarded-For", "9.9.9.9")
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		return w.Code, w.Header().Get("Retry-After"), decodeBody[contract.Problem](t, w.Result()).Reason
	}
	const here, there, other = "127.0.0.1:1000", "192.0.2.1:1000", "192.0.2.2:1000"
	for name, c := range map[string]struct {
		keys          *Keys
		first, second [2]string // from, key
		limited, free bool      // does the first meet the limit; is the second free then
	}{
		"open, from outside":          {nil, [2]string{there, ""}, [2]string{other, ""}, true, true},
		"open, same address":          {nil, [2]string{there, ""}, [2]string{"192.0.2.1:2000", ""}, true, false},
		"open, one IPv6 network":      {nil, [2]string{"[2001:db8::1]:1", ""}, [2]string{"[2001:db8::2]:1", ""}, true, false},
		"open, IPv4 in IPv6":          {nil, [2]string{"[::ffff:192.0.2.1]:1", ""}, [2]string{there, ""}, true, false},
		"open, from here":             {nil, [2]string{here, ""}, [2]string{there, ""}, false, true},
		"a key counts":                {ring, [2]string{here, keys[0]}, [2]string{here, keys[1]}, true, true},
		"a key counts, everywhere":    {ring, [2]string{there, keys[0]}, [2]string{other, keys[0]}, true, false},
		"guesses count, also at home": {ring, [2]string{here, "Bearer wrong"}, [2]string{here, "Bearer other"}, true, false},
		"guesses do not shut keys":    {ring, [2]string{here, "Bearer wrong"}, [2]string{here, keys[0]}, true, true},
	} {
		g := New(Options{Client: &fake{}, Operations: operations{}, Keys: c.keys, ClientRate: 2, Now: func() time.Time { return start }})
		limited := false
		for range 5 {
			status, after, reason := ask(g, c.first[0], c.first[1])
			if limited = status == 429; limited {
				assert.Equal(t, []string{"1", "client_rate"}, []string{after, reason}, name)
			}
		}
		assert.Equal(t, c.limited, limited, name)
		status, _, _ := ask(g, c.second[0], c.second[1])
		assert.Equal(t, c.free, status != 429, name)
	}
}

// Each order leaves one line, whatever becomes of it, with who and what, and
// without the words that were meant for the history.
func TestAudit(t *testing.T) {
	var k ring
	mara, viewer := k.add("mara", "acme", config.RoleOperate), k.add("v", "acme", config.RoleView)
	core, lines := observer.New(zap.DebugLevel)
	down := false
	f := &fake{update: func(o client.UpdateWorkflowOptions) (any, error) {
		if down {
			return nil, http.ErrServerClosed
		}
		if o.UpdateName == contract.PauseUpdate {
			return o.Args[0], nil
		}
		return contract.ResolveReply{Verdict: "happened"}, nil
	}}
	f.put(openTask(acmeInput()))
	g := New(Options{Client: f, Operations: operations{}, Keys: k.open(t, zap.NewNop()), Audit: zap.New(core), Now: func() time.Time { return start }})
	resolve := `{"id": "d-1", "actor": "somebody", "outcome": "happened", "evidence": "the secret words", "version": 3}`
	for _, c := range []struct {
		key, path, body string
		want            string // actor, order, target, outcome, reason; empty: no line
	}{
		{mara, "/v1/tasks/acme/inv-42/resolve", resolve, "mara|resolve|task/acme/inv-42|done|"},
		{mara, "/v1/tasks/acme/absent/resolve", resolve, "mara|resolve|task/acme/absent|refused|task_not_found"},
		{mara, "/v1/tasks/acme/inv-42/resolve", "{", "mara|resolve|task/acme/inv-42|refused|invalid_request"},
		{viewer, "/v1/tasks/acme/inv-42/cancel", "", "v|cancel|task/acme/inv-42|refused|role_missing"},
		{mara, "/v1/tenants/globex/pause", "", "mara|pause|tenant/globex|refused|tenant_forbidden"},
		{mara, "/v1/operations/charge_card/audit", "", "mara|audit|operation/charge_card|refused|role_missing"},
		{"Bearer wrong", "/v1/tasks/acme/inv-42/cancel", "", ""},
		{mara, "/v1/tenants/acme/pause", "", "mara|pause|tenant/acme|done|"},
	} {
		do(t, g, "POST", c.path, c.body, "Authorization", c.key)
		all := lines.TakeAll()
		if c.want == "" {
			assert.Empty(t, all)
			continue
		}
		require.Len(t, all, 1, c.path)
		is := all[0].ContextMap()
		assert.Equal(t, "audit", all[0].LoggerName)
		assert.Equal(t, c.want, strings.Join([]string{is["actor"].(string), is["order"].(string), is["target"].(string), is["outcome"].(string), is["reason"].(string)}, "|"))
		assert.NotContains(t, fmt.Sprint(is), "secret words")
	}
	down = true
	do(t, g, "POST", "/v1/tenants/acme/pause", "", "Authorization", mara)
	is := lines.TakeAll()[0].ContextMap()
	assert.Equal(t, []any{"not known", "budget_unavailable"}, []any{is["outcome"], is["reason"]})

	open := New(Options{Client: f, Operations: operations{}, Audit: zap.New(core), Now: func() time.Time { return start }})
	do(t, open, "POST", "/v1/tasks/acme/inv-42/cancel", `{"actor": "tom"}`)
	assert.Equal(t, "tom", lines.TakeAll()[0].ContextMap()["actor"])
}

// Answers of every kind carry the headers that keep browsers from using them.
func TestSecurityHeaders(t *testing.T) {
	g := newGateway(&fake{query: func(string, []any) (any, error) { panic("oops") }})
	for path, status := range map[string]int{"/healthz": 200, "/nothing": 404, "/v1/queue": 500, "/v1/tasks/acme/absent": 404, "/v1/tasks?limit=x": 400} {
		r := do(t, g, "GET", path, "")
		require.Equal(t, status, r.StatusCode, path)
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
			"Referrer-Policy": "no-referrer", "Strict-Transport-Security": ""} {
			assert.Equal(t, want, r.Header.Get(name), "%s %s", path, name)
		}
	}
}
