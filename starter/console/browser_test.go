package console

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/activities/playwright/pagetest"
	"headgate/config"
	"headgate/contract"
)

// site is a console in front of a small state, in a real browser.
type site struct {
	*world
	console *Console
	url     string
}

// newSite has a clock that goes, and refreshes as fast as a test wants it.
func newSite(t *testing.T, people config.People) *site {
	t.Helper()
	begun := time.Now()
	w := newWorld(t)
	c, err := New(Options{API: w, People: people, UI: "http://127.0.0.1:8233",
		Now: func() time.Time { return w.clock().Add(time.Since(begun)) }})
	require.NoError(t, err)
	c.poll, c.looks.every, c.looks.lists = 200*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	server := httptest.NewServer(Front(w, c.Handler()))
	t.Cleanup(server.Close)
	return &site{world: w, console: c, url: server.URL}
}

// set changes the state behind the page.
func (s *site) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func as(name string) pagetest.Options {
	return pagetest.Options{Cookies: map[string]string{actorCookie: name}}
}

// TestInABrowser looks at the pages in Chromium, as people do.
func TestInABrowser(t *testing.T) {
	b := pagetest.Start(t)
	for _, part := range []struct {
		name string
		test func(t *testing.T, b *pagetest.Browser)
	}{
		{"every page fits, and can be used by everybody", testPagesFit},
		{"an outcome is resolved with evidence", testResolve},
		{"a stale version is refused in words", testStaleVersion},
		{"what is being typed stays", testTypedTextStays},
		{"a row that goes leaves what was typed", testRowGoes},
		{"stale data switches everything off", testStaleData},
		{"a gateway that is gone switches everything off", testSilence},
		{"a page that nobody sees asks for nothing", testHidden},
		{"a viewer can do nothing", testViewer},
		{"everything works without JavaScript", testNoScript},
		{"everything works by keyboard", testKeyboard},
		{"a key signs in and out", testSignIn},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, b) })
	}
}

func testPagesFit(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	for _, width := range []int{1280, 390} {
		o := as("mara")
		o.Width, o.Allow = width, []string{"404"}
		p := b.Open(t, s.url, "/console/", o)
		for name, path := range map[string]string{"state": "/", "task": "/console/tasks/acme/inv-7", "approval": "/console/tasks/acme/pay%2F9",
			"list": "/console/tasks?phase=unknown", "find": "/console/find?q=nothing", "problem": "/console/tasks/acme/none"} {
			_, err := p.Goto(s.url + path)
			require.NoError(t, err)
			if name == "state" {
				p.Eventually(`document.querySelectorAll(".tiles li").length === 11`)
				assert.Equal(t, "165", p.Value(`String([...document.querySelectorAll(".tiles strong")].reduce((sum, n) => sum + Number(n.textContent), 0))`))
				p.Refreshed(2) // also what a refresh makes of it
				_, err := p.Evaluate(`() => document.querySelectorAll("details").forEach((d) => d.open = true)`)
				require.NoError(t, err)
			}
			p.Fits()
			p.Shoot(name + map[int]string{1280: "-wide", 390: "-narrow"}[width])
		}
	}
}

// form selects a part of the form that resolves a task.
func form(key, rest string) string { return "#" + domID("resolve", "acme", key) + rest }

func testResolve(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	p := b.Open(t, s.url, "/console/", as("mara"))
	require.NoError(t, p.Locator(form("inv-7", "-open summary")).Click())
	require.NoError(t, p.Locator(form("inv-7", " input[value=happened]")).Check())
	require.NoError(t, p.Locator(form("inv-7", " button")).Click())
	p.Eventually(`document.querySelector("` + form("inv-7", " textarea") + `").matches(":invalid")`)
	assert.Empty(t, s.orders, "the browser wants the evidence")

	// Without the browser's help the server refuses.
	p.Allow("400")
	_, err := p.Evaluate(`() => { const f = document.querySelector("` + form("inv-7", "") + `"); f.noValidate = true; f.querySelector("button").click() }`)
	require.NoError(t, err)
	p.Eventually(`document.getElementById("refused").textContent.includes("evidence is required")`)
	assert.Empty(t, s.orders)
	p.Shoot("refused")

	require.NoError(t, p.Locator(form("inv-7", " textarea")).Fill("charge ch_1 in the portal"))
	require.NoError(t, p.Locator(form("inv-7", " button")).Click())
	p.Eventually(`document.getElementById("done").textContent.includes("acme/inv-7 is decided")`)
	p.Eventually(`!document.getElementById("` + domID("unknown", "acme", "inv-7") + `")`)
	require.Len(t, s.orders, 1)
	assert.Equal(t, []any{"mara", "happened", "charge ch_1 in the portal", 3.0}, []any{s.orders[0]["actor"], s.orders[0]["outcome"], s.orders[0]["evidence"], s.orders[0]["version"]})
}

func testStaleVersion(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	p := b.Open(t, s.url, "/console/", as("mara"))
	require.NoError(t, p.Locator(form("inv-7", "-open summary")).Click())
	require.NoError(t, p.Locator(form("inv-7", " input[value=did_not_happen]")).Check())
	require.NoError(t, p.Locator(form("inv-7", " textarea")).Fill("nothing in the portal"))
	s.set(func() { s.unknown[0] = s.doubt("inv-7", 4) })
	p.Refreshed(3)
	assert.Equal(t, "3", p.Value(`document.querySelector("`+form("inv-7", " input[name=version]")+`").value`), "it is decided on what was read")

	p.Allow("409")
	require.NoError(t, p.Locator(form("inv-7", " button")).Click())
	p.Eventually(`document.getElementById("refused").textContent.includes("The reconciliation has moved on")`)
	assert.Empty(t, s.orders)
	p.Refreshed(2)
	assert.Equal(t, "nothing in the portal", p.Value(`document.querySelector("`+form("inv-7", " textarea")+`").value`))
	p.Shoot("stale-version")

	require.NoError(t, p.Locator(form("inv-7", " button")).Click())
	p.Eventually(`document.getElementById("done")`)
	require.Len(t, s.orders, 1)
	assert.Equal(t, 4.0, s.orders[0]["version"])
}

func testTypedTextStays(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	p := b.Open(t, s.url, "/console/", as("mara"))
	require.NoError(t, p.Locator(form("inv-8", "-open summary")).Click())
	require.NoError(t, p.Locator(form("inv-8", " textarea")).PressSequentially("half a sen"))
	s.set(func() { // the row above goes, and the state moves
		s.unknown = s.unknown[1:]
		s.counts.Phases[5].Tasks++
		s.counts.Total++
	})
	p.Eventually(`document.querySelector("#tile-succeeded strong").textContent === "16"`)
	p.Refreshed(3)
	require.NoError(t, p.Keyboard().Type("tence"))
	assert.Equal(t, "half a sentence", p.Value(`document.querySelector("`+form("inv-8", " textarea")+`").value`))
	assert.Equal(t, true, p.Value(`document.activeElement.closest("form").action.endsWith("/tasks/acme/inv-8/resolve")`), "the focus stays")
	assert.Equal(t, true, p.Value(`document.getElementById("kept").hidden`))

	// The same for a tenant's reason, while its row moves.
	pause := "#" + domID("pause", "acme")
	require.NoError(t, p.Locator(pause+"-open summary").Click())
	require.NoError(t, p.Locator(pause+"-reason").Fill("an aud"))
	s.set(func() { s.queue.Tenants[1].Pause = nil })
	p.Eventually(`!document.body.textContent.includes("PAUSED")`)
	assert.Equal(t, "an aud", p.Value(`document.querySelector("`+pause+`-reason").value`))
}

func testRowGoes(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	p := b.Open(t, s.url, "/console/", as("mara"))
	require.NoError(t, p.Locator(form("inv-7", "-open summary")).Click())
	require.NoError(t, p.Locator(form("inv-7", " textarea")).Fill("a long search"))
	s.set(func() { s.unknown = s.unknown[1:] }) // a look-up has decided
	p.Eventually(`!document.getElementById("kept").hidden`)
	assert.Equal(t, "a long search", p.Value(`document.querySelector("#kept textarea").value`))
	assert.Equal(t, true, p.Value(`document.querySelector("#kept form").action.endsWith("/tasks/acme/inv-7/resolve")`))
	assert.Equal(t, "", p.Value(`document.querySelector("`+form("inv-8", " textarea")+`").value`), "no other task gets it")
	p.Fits()
	p.Shoot("row-gone")
}

const (
	enabled  = `document.querySelectorAll("fieldset[data-action]:not(:disabled)").length`
	disabled = `document.querySelectorAll("fieldset[data-action]:disabled").length`
)

func testStaleData(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	p := b.Open(t, s.url, "/console/", as("mara"))
	assert.NotEqual(t, 0, p.Value(enabled))
	s.set(func() { s.down = "budget_unavailable" })
	p.Eventually(`document.getElementById("stale").textContent.includes("not current since 2026-12-01 10:00")`)
	assert.Equal(t, 0, p.Value(enabled))
	p.Fits()
	p.Shoot("stale")
	s.set(func() { s.down = "" })
	p.Eventually(disabled + ` === 0 && ` + enabled + ` > 0`)
}

func testSilence(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	s.console.stale = 3 * time.Second
	p := b.Open(t, s.url, "/console/", as("mara"))
	p.Allow("ERR_", "Failed to fetch") // the browser logs that nobody answers
	assert.Equal(t, true, p.Value(`document.getElementById("silent").hidden`))
	require.NoError(t, p.Context().SetOffline(true))
	p.Eventually(`!document.getElementById("silent").hidden`)
	assert.Equal(t, 0, p.Value(enabled))
	require.NoError(t, p.Context().SetOffline(false))
	p.Eventually(`document.getElementById("silent").hidden && ` + disabled + ` === 0`)
}

func testHidden(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	s.console.stale = 3 * time.Second
	p := b.Open(t, s.url, "/console/", as("mara"))
	p.Refreshed(1)
	_, err := p.Evaluate(`() => Object.defineProperty(document, "hidden", {value: true, writable: true})`)
	require.NoError(t, err)
	p.Eventually(`!document.getElementById("silent").hidden`) // nothing came
	assert.Equal(t, 0, p.Value(enabled))
	_, err = p.Evaluate(`() => { document.hidden = false }`)
	require.NoError(t, err)
	p.Eventually(`document.getElementById("silent").hidden && ` + disabled + ` === 0`)
}

func testViewer(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, config.People{{Name: "mara", Rights: []string{config.RightResolve}}})
	p := b.Open(t, s.url, "/console/", as("eve"))
	assert.Equal(t, "viewer", p.Value(`document.getElementById("role").textContent`))
	assert.Equal(t, 0, p.Value(enabled))
	p.Allow("403")
	s.set(func() { s.refuse = notAllowed() })
	status, err := p.Evaluate(`async () => (await fetch("` + resolvePath + `", {method: "POST", body: new URLSearchParams({version: "3", outcome: "happened", evidence: "x"})})).status`)
	require.NoError(t, err)
	assert.Equal(t, 403, status)
	assert.Empty(t, s.orders)

	// The name decides.
	require.NoError(t, p.Locator("#actor").Fill("mara"))
	require.NoError(t, p.Locator("#actor").Press("Enter"))
	p.Eventually(`document.getElementById("role").textContent === "operator: resolve" && ` + enabled + ` === 2`)
}

func testNoScript(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	o := as("mara")
	o.NoScript = true
	p := b.Open(t, s.url, "/", o)
	require.NoError(t, p.Locator(form("inv-7", "-open summary")).Click())
	require.NoError(t, p.Locator(form("inv-7", " input[value=failed]")).Check())
	require.NoError(t, p.Locator(form("inv-7", " textarea")).Fill("refused by the provider"))
	require.NoError(t, p.Locator(form("inv-7", " button")).Click())
	require.NoError(t, p.Locator("#done").WaitFor())
	pause := "#" + domID("pause", "acme")
	require.NoError(t, p.Locator(pause+"-open summary").Click())
	require.NoError(t, p.Locator(pause+"-reason").Fill("audit"))
	require.NoError(t, p.Locator(pause+"-until").Fill("2027-01-01T12:00"))
	require.NoError(t, p.Locator(pause+" button").Click())
	require.NoError(t, p.Locator(pause+"-resume").WaitFor())
	s.set(func() {
		require.Len(t, s.orders, 2)
		assert.Equal(t, "failed", s.orders[0]["outcome"])
		assert.Equal(t, []any{"audit", "2027-01-01T12:00:00Z", "mara"}, []any{s.orders[1]["reason"], s.orders[1]["until"], s.orders[1]["actor"]})
	})
	require.NoError(t, p.Locator(pause+"-resume button").Click())
	require.NoError(t, p.Locator("#done").WaitFor())
	s.set(func() { assert.Equal(t, "/v1/tenants/acme/resume", s.orders[2]["path"]) })
}

func testKeyboard(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	p := b.Open(t, s.url, "/console/", pagetest.Options{})
	keys := p.Keyboard()
	p.TabTo("#actor")
	require.NoError(t, keys.Type("mara"))
	require.NoError(t, keys.Press("Enter"))
	p.Eventually(`document.getElementById("role").textContent.startsWith("operator")`)
	p.TabTo(form("inv-7", "-open summary"))
	require.NoError(t, keys.Press("Enter"))
	p.TabTo(form("inv-7", " input[type=radio]"))
	require.NoError(t, keys.Press("Space"))
	p.TabTo(form("inv-7", " textarea"))
	require.NoError(t, keys.Type("seen"))
	p.TabTo(form("inv-7", " button"))
	require.NoError(t, keys.Press("Enter"))
	p.Eventually(`document.getElementById("done")`)
	s.set(func() {
		require.Len(t, s.orders, 1)
		assert.Equal(t, []any{"happened", "seen", "mara"}, []any{s.orders[0]["outcome"], s.orders[0]["evidence"], s.orders[0]["actor"]})
	})
}

func testSignIn(t *testing.T, b *pagetest.Browser) {
	s := newSite(t, nil)
	s.set(func() {
		s.keys = map[string]contract.Caller{"hgk_1": {Keys: true, Name: "mara", Tenant: "*", Rights: rights}}
	})
	p := b.Open(t, s.url, "/console/", pagetest.Options{Allow: []string{"401", "404"}})
	p.Fits()
	p.Shoot("sign-in")
	require.NoError(t, p.Locator("#key").Fill("hgk_2"))
	require.NoError(t, p.Locator("#key").Press("Enter"))
	p.Eventually(`document.body.textContent.includes("The key is not valid")`)
	require.NoError(t, p.Locator("#key").Fill("hgk_1"))
	require.NoError(t, p.Locator("#key").Press("Enter"))
	p.Eventually(`document.querySelector("header").textContent.includes("You are mara")`)
	require.NoError(t, p.Locator("header button:text('Sign out')").Click())
	require.NoError(t, p.Locator("#key").Fill("hgk_1"))
	require.NoError(t, p.Locator("#key").Press("Enter"))
	p.Refreshed(2)
	p.Fits()
	s.set(func() { delete(s.keys, "hgk_1") }) // taken back while the page is open
	p.Eventually(`document.getElementById("live").textContent.includes("not valid any more") && !document.body.textContent.includes("inv-7")`)
}
