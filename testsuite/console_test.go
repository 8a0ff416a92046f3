package testsuite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mxschmitt/playwright-go"
	"github.com/stretchr/testify/require"

	"headgate/activities/playwright/pagetest"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// consoleForm selects what a form of the console about some names has.
func consoleForm(kind, rest string, names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return "#" + kind + "-" + hex.EncodeToString(sum[:6]) + rest
}

// TestConsole has people decide in a browser, in a real world.
func TestConsole(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	browser := pagetest.Start(t)
	world := newWorld(ctx, t)
	text, err := os.ReadFile(configuration(world))
	require.NoError(t, err)
	changed := strings.Replace(string(text), "\n  resources:\n", "\n  resources:\n    human: {concurrent: 2}\n", 1)
	changed = strings.Replace(changed, "\ntenants:\n", "\npeople: {mara: \"approve, pause, resolve\", eve: approve}\ntenants:\n", 1)
	require.NoError(t, os.WriteFile(configuration(world), []byte(changed), 0o600))
	declare(ctx, t, world, "", peopleOperations)

	as := func(name string, width int) pagetest.Options {
		return pagetest.Options{Width: width, Cookies: map[string]string{"headgate_actor": name}}
	}
	play(ctx, t, world, drill.Case{ID: "console", Title: "people decide in the console", Play: func(ctx context.Context, s *drill.Scene) error {
		// 1. Two outcomes that nobody saw, and a question. Every task is in one phase.
		_, err := s.Dispatch(ctx, "happened", "charge", provider.Hang)
		require.NoError(t, err)
		_, err = s.Dispatch(ctx, "failed", "charge", provider.HangBefore)
		require.NoError(t, err)
		require.NoError(t, s.Submit(ctx, "asked", "charge_asked"))
		require.NoError(t, s.Until(ctx, "happened", contract.PhaseUnknown))
		require.NoError(t, s.Until(ctx, "failed", contract.PhaseUnknown))
		p := browser.Open(t, world.Door.URL, "/", as("mara", 1280)) // the front page leads there
		require.Equal(t, world.Door.URL+"/console/", p.URL())
		p.Eventually(`document.querySelector("#tile-unknown strong").textContent === "2" && document.querySelector("#tile-accepted strong").textContent === "1"`)
		require.Contains(t, p.Value(`document.getElementById("sum").textContent`), "3 tasks: the phases add up.")
		p.Fits()
		p.Shoot("live-wide")
		narrow := browser.Open(t, world.Door.URL, "/console/", as("mara", 390))
		narrow.Fits()
		narrow.Shoot("live-narrow")

		// 2. A pause outlives the gateway, and holds what comes.
		pause := consoleForm("pause", "", s.Tenant)
		require.NoError(t, p.Locator(pause+"-open summary").Click())
		require.NoError(t, p.Locator(pause+"-reason").Fill("the bank is closed"))
		require.NoError(t, p.Locator(pause+" button").Click())
		p.Eventually(`document.getElementById("tenants").textContent.includes("PAUSED (dispatch) by mara")`)
		p.Allow("Failed to fetch", "ERR_")
		narrow.Allow("Failed to fetch", "ERR_")
		restart(ctx, t, world.Gateway)
		require.NoError(t, s.Submit(ctx, "held", "charge"))
		_, err = p.Reload()
		require.NoError(t, err)
		p.Eventually(`document.getElementById("tenants").textContent.includes("the bank is closed")`)
		require.NoError(t, p.Locator(pause+"-resume input[type=text]").Fill("it is open"))
		require.NoError(t, p.Locator(pause+"-resume button").Click())
		p.Eventually(`!document.getElementById("tenants").textContent.includes("PAUSED")`)
		require.NoError(t, s.Until(ctx, "held", contract.PhaseSucceeded))

		// 3. Who has no right is refused by the server, whatever the page shows.
		resolve := consoleForm("resolve", "", s.Tenant, "happened")
		eve := browser.Open(t, world.Door.URL, "/console/", as("eve", 1280))
		eve.Allow("403")
		require.Equal(t, true, eve.Value(`document.querySelector("`+resolve+` fieldset[data-action]").disabled`))
		status, err := eve.Evaluate(`async () => (await fetch(document.querySelector("` + resolve + `").action, {method: "POST",
			body: new URLSearchParams({version: "1", outcome: "failed", evidence: "I say so"})})).status`)
		require.NoError(t, err)
		require.Equal(t, 403, status)

		// 4. A version that is not the current one is refused in words; then the
		// decision is taken as typed.
		p.Allow("Failed to fetch", "ERR_", "409")
		require.NoError(t, p.Locator(resolve+"-open summary").Click())
		require.NoError(t, p.Locator(resolve+" input[value=happened]").Check())
		require.NoError(t, p.Locator(resolve+" textarea").Fill("ch_1 is in the ledger"))
		_, err = p.Evaluate(`() => { document.querySelector("` + resolve + ` input[name=version]").value = "99" }`)
		require.NoError(t, err)
		require.NoError(t, p.Locator(resolve+" button").Click())
		p.Eventually(`document.getElementById("refused").textContent.includes("moved on")`)
		require.NoError(t, p.Locator(resolve+" button").Click())
		p.Eventually(`document.getElementById("done").textContent.includes("is decided")`)
		require.NoError(t, s.Until(ctx, "happened", contract.PhaseSucceeded))

		// 5. The page of a task, found by its key: it did not happen, for good.
		require.NoError(t, p.Locator("#find").Fill("failed"))
		require.NoError(t, p.Locator("#find").Press("Enter"))
		p.Eventually(`document.getElementById("explain-title").textContent.includes("failed: unknown")`)
		failed := consoleForm("resolve", "", s.Tenant, "failed")
		require.NoError(t, p.Locator(failed+"-open summary").Click())
		require.NoError(t, p.Locator(failed+" input[value=failed]").Check())
		require.NoError(t, p.Locator(failed+" textarea").Fill("nothing in the ledger"))
		require.NoError(t, p.Locator(failed+" button").Click())
		p.Eventually(`document.getElementById("explain-title").textContent.includes("failed: failed")`)
		require.Contains(t, p.Value(`document.getElementById("timeline").textContent`), "nothing in the ledger")

		// 6. An approval is given by who has read the payload.
		_, err = p.Goto(world.Door.URL + "/console/")
		require.NoError(t, err)
		require.NoError(t, p.GetByRole("link", playwright.PageGetByRoleOptions{Name: s.Tenant + " / asked"}).Click())
		require.NoError(t, p.Locator("#payload").WaitFor())
		require.Contains(t, p.Value(`document.getElementById("payload").textContent`), `"amount": 1200`)
		p.Fits()
		approve := consoleForm("approve", "", s.Tenant, "asked")
		require.NoError(t, p.Locator(approve+" textarea").Fill("the invoice is right"))
		require.NoError(t, p.Locator(approve+" button").First().Click())
		p.Eventually(`document.getElementById("explain-title").textContent.includes("asked: succeeded")`)
		require.Contains(t, p.Value(`document.getElementById("timeline").textContent`), "the invoice is right")
		p.Fits()
		p.Shoot("live-task")
		return nil
	}, Ends: []drill.End{
		{Keys: []string{"happened"}, Phase: contract.PhaseSucceeded, Effects: 1, Evidence: contract.EvidencePerson},
		{Keys: []string{"failed"}, Phase: contract.PhaseFailed},
		{Keys: []string{"held", "asked"}, Phase: contract.PhaseSucceeded, Effects: 1},
	}})
}
