package console

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/config"
	"headgate/contract"
)

const resolvePath = "/console/tasks/acme/inv-7/resolve"

func resolution() url.Values {
	return url.Values{"id": {"console-1"}, "version": {"3"}, "outcome": {"happened"}, "evidence": {"ch_1 in the portal <i>"}}
}

// Each form is one order to the API, in the name that was given.
func TestOrders(t *testing.T) {
	approval := url.Values{"id": {"d"}, "version": {"1"}, "evidence": {"the invoice is right"}, "payload_hash": {"sha256:payload"}, "operation_digest": {"sha256:op"}, "from": {"task"}}
	decided := map[string]any{"id": "d", "actor": "mara", "evidence": "the invoice is right", "version": 1.0, "payload_hash": "sha256:payload", "operation_digest": "sha256:op"}
	for _, c := range []struct {
		path string
		form url.Values
		want map[string]any
		api  string
		back string
		says string
	}{
		{resolvePath, resolution(), map[string]any{"id": "console-1", "actor": "mara", "outcome": "happened", "evidence": "ch_1 in the portal <i>", "version": 3.0},
			"/v1/tasks/acme/inv-7/resolve", "/console/?done=resolved&of=acme%2Finv-7", "The outcome of acme/inv-7 is decided."},
		{"/console/tasks/acme/pay%2F9/approve", approval, decided, "/v1/tasks/acme/pay%2F9/approve", "/console/tasks/acme/pay%2F9?done=approved&of=acme%2Fpay%2F9", "acme/pay/9 is approved."},
		{"/console/tasks/acme/pay%2F9/decline", approval, decided, "/v1/tasks/acme/pay%2F9/decline", "/console/tasks/acme/pay%2F9?done=declined&of=acme%2Fpay%2F9", "is declined"},
		{"/console/tenants/acme/pause", url.Values{"reason": {"audit"}, "what": {"dispatch"}, "until": {"2026-12-01T18:30"}},
			map[string]any{"actor": "mara", "reason": "audit", "dispatch": true, "admission": false, "until": "2026-12-01T18:30:00Z"}, "/v1/tenants/acme/pause", "/console/?done=paused&of=acme", "acme is paused."},
		{"/console/tenants/acme/pause", url.Values{"reason": {"audit"}, "what": {"both"}}, map[string]any{"actor": "mara", "reason": "audit", "dispatch": true, "admission": true},
			"/v1/tenants/acme/pause", "/console/?done=paused&of=acme", ""},
		{"/console/tenants/acme/pause", url.Values{"reason": {"audit"}, "what": {"admission"}}, map[string]any{"actor": "mara", "reason": "audit", "dispatch": false, "admission": true},
			"/v1/tenants/acme/pause", "/console/?done=paused&of=acme", ""},
		{"/console/tenants/zeta/resume", url.Values{}, map[string]any{"actor": "mara", "reason": ""}, "/v1/tenants/zeta/resume", "/console/?done=resumed&of=zeta", "zeta goes on."},
		{"/console/operations/refund/unfreeze", url.Values{"reason": {"mended"}}, map[string]any{"actor": "mara", "reason": "mended"}, "/v1/operations/refund/unfreeze", "/console/?done=unfrozen&of=refund", "refund is not frozen any more."},
		{"/console/operations/charge_card/freeze", url.Values{"reason": {"look"}}, map[string]any{"actor": "mara", "reason": "look"}, "/v1/operations/charge_card/freeze", "/console/?done=frozen&of=charge_card", ""},
	} {
		w := newWorld(t)
		con := w.console(nil)
		r := send(con, "mara", c.path, c.form, "Authorization", "Bearer k")
		require.Equal(t, 303, r.Code, "%s: %s", c.path, body(r))
		assert.Equal(t, c.back, r.Header().Get("Location"))
		require.Len(t, w.orders, 1)
		c.want["path"] = c.api
		assert.Equal(t, c.want, w.orders[0])
		assert.Equal(t, "Bearer k", w.sent[len(w.sent)-1], "an order has its sender's credentials")
		_, page := visit(con, "mara", c.back)
		assert.Contains(t, page, c.says)
	}
}

// What is refused changes nothing, is told in words, and loses nothing of what
// was typed.
func TestRefusedOrders(t *testing.T) {
	without := func(field string) url.Values {
		form := resolution()
		form.Del(field)
		return form
	}
	stale := resolution()
	stale.Set("version", "2")
	for name, c := range map[string]struct {
		path   string
		form   url.Values
		status int
		says   string
	}{
		"without evidence":  {resolvePath, without("evidence"), 400, "evidence is required"},
		"without outcome":   {resolvePath, without("outcome"), 400, "say what happened"},
		"without version":   {resolvePath, without("version"), 400, "no row version"},
		"a stale version":   {resolvePath, stale, 409, "The reconciliation has moved on: version is not the current one"},
		"pause, no reason":  {"/console/tenants/acme/pause", url.Values{"what": {"both"}}, 400, "a reason is required"},
		"until is nonsense": {"/console/tenants/acme/pause", url.Values{"reason": {"x"}, "until": {"tomorrow"}}, 400, "until is not a time"},
		"approve, no word":  {"/console/tasks/acme/pay%2F9/approve", url.Values{"version": {"1"}, "from": {"task"}}, 400, "evidence is required"},
		"a body too long":   {resolvePath, url.Values{"evidence": {strings.Repeat("x", maxForm)}}, 400, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := send(w.console(nil), "mara", c.path, c.form)
			page := body(r)
			require.Equal(t, c.status, r.Code, page)
			assert.Contains(t, page, c.says)
			assert.Empty(t, w.orders)
			assert.Contains(t, page, `<html lang="en">`)
			if c.path == resolvePath && c.status != 400 {
				form := part(t, page, domID("resolve", "acme", "inv-7")+"-open", "</form>")
				assert.Contains(t, form, "ch_1 in the portal &lt;i&gt;</textarea>")
				assert.Contains(t, form, `value="happened" required checked`)
				assert.Contains(t, form, `name="version" value="3"`, "the version that is shown now")
				assert.NotContains(t, form, `value="console-1"`)
				assert.Contains(t, form, "data-held")
			}
		})
	}
}

// A task that was decided meanwhile is not there any more; what was typed is.
func TestDecidedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.unknown = w.unknown[1:]
	r := send(w.console(nil), "mara", resolvePath, resolution())
	page := body(r)
	assert.Equal(t, 409, r.Code)
	assert.Contains(t, page, "The reconciliation has moved on")
	assert.Contains(t, page, "<blockquote>ch_1 in the portal &lt;i&gt;</blockquote>")
}

// After an answer that does not say whether it was taken, the same decision is
// sent again.
func TestAnUncertainAnswerKeepsTheDecision(t *testing.T) {
	w := newWorld(t)
	w.refuse = &contract.Problem{Status: 503, Reason: "temporal_unavailable", Title: "Temporal does not answer", Detail: "nothing is known"}
	r := send(w.console(nil), "mara", resolvePath, resolution())
	assert.Equal(t, 503, r.Code)
	assert.Contains(t, part(t, body(r), domID("resolve", "acme", "inv-7")+"-open", "</form>"), `name="id" value="console-1"`)
}

// A viewer sees why nothing can be done, and is refused if it tries.
func TestViewersAndOperators(t *testing.T) {
	people := config.People{{Name: "mara", Rights: []string{config.RightResolve}}, {Name: "ops", Rights: []string{config.RightPause}}}
	for _, c := range []struct {
		actor, role     string
		resolves, pause bool
		off             string
	}{
		{"", "viewer", false, false, "Off: say who you are first"},
		{"eve", "viewer", false, false, "Off: eve does not hold the right to resolve."},
		{"mara", "operator: resolve", true, false, "Off: mara does not hold the right to pause."},
		{"ops", "operator: pause", false, true, "Off: ops does not hold the right to resolve."},
	} {
		w := newWorld(t)
		con := w.console(people)
		_, page := visit(con, c.actor, "/console/")
		assert.Contains(t, page, `id="role">`+c.role+"<")
		assert.Contains(t, page, c.off)
		assert.Equal(t, c.resolves, !strings.Contains(part(t, page, domID("resolve", "acme", "inv-7"), "</form>"), "<fieldset data-action disabled>"))
		assert.Equal(t, c.pause, !strings.Contains(part(t, page, domID("pause", "acme"), "</form>"), "<fieldset data-action disabled>"))
		if c.actor != "" {
			// The API is the one that refuses, and its status goes through.
			w.refuse = &contract.Problem{Status: 403, Reason: "not_allowed", Title: "The decision is not this actor's to make", Detail: "no right"}
		}
		r := send(con, c.actor, resolvePath, resolution())
		assert.Equal(t, 403, r.Code)
		assert.Empty(t, w.orders)
	}
}

// While the budget does not answer, or the last look is too old, nothing is done.
func TestStaleDataDisablesEverything(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	_, page := visit(c, "mara", "/console/")
	require.NotContains(t, page, "disabled")
	w.down = "budget_unavailable"
	w.pass(lookEvery)
	status, page := visit(c, "mara", "/console/")
	assert.Equal(t, 200, status)
	assert.Contains(t, part(t, page, "stale", "</div>"), "What you see is not current since 2026-12-01 10:00:00Z: no worker took the question. Every action is off until it is.")
	assert.Contains(t, page, "acme / inv-7", "what is known is still shown")
	assert.Equal(t, strings.Count(page, "<fieldset data-action"), strings.Count(page, "<fieldset data-action disabled"))
	for _, path := range []string{resolvePath, "/console/tenants/acme/pause", "/console/tasks/acme/pay%2F9/approve", "/console/operations/refund/unfreeze"} {
		r := send(c, "mara", path, resolution())
		assert.Equal(t, 503, r.Code)
		assert.Contains(t, body(r), "Nothing was done")
	}
	assert.Empty(t, w.orders)
	w.down = ""
	w.pass(lookEvery)
	_, page = visit(c, "mara", "/console/")
	assert.NotContains(t, page, "disabled")

	// A look that was never taken counts as stale.
	w.down = "budget_unavailable"
	_, page = visit(w.console(nil), "mara", "/console/")
	assert.Contains(t, page, "Nothing could be read yet: no worker took the question.")
	assert.NotContains(t, page, "<fieldset data-action>")
}

// A look that is too old is stale, whatever it says.
func TestOldLooksAreStale(t *testing.T) {
	l := &look{At: start}
	assert.False(t, l.staleAt(start.Add(10*time.Second), 10*time.Second))
	assert.True(t, l.staleAt(start.Add(10*time.Second+1), 10*time.Second))
	assert.True(t, (&look{}).staleAt(start, time.Hour))
}

// A form is taken from our own pages only.
func TestOrdersOfOtherSites(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		status int
	}{
		"our page":            {[]string{"Sec-Fetch-Site", "same-origin"}, 303},
		"our page, old":       {[]string{"Sec-Fetch-Site", "", "Origin", "http://127.0.0.1:7280"}, 303},
		"another site":        {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port":        {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"another site, old":   {[]string{"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, 403},
		"a hidden origin":     {[]string{"Sec-Fetch-Site", "", "Origin", "null"}, 403},
		"nothing says whence": {[]string{"Sec-Fetch-Site", ""}, 403},
	} {
		w := newWorld(t)
		r := send(w.console(nil), "mara", resolvePath, resolution(), c.header...)
		assert.Equal(t, c.status, r.Code, name)
		assert.Equal(t, c.status == 303, len(w.orders) == 1, name)
	}
}
