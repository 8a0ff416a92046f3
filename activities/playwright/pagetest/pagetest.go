// Package pagetest shows our own pages in a real browser, for tests. A test fails
// when a page logs an error, breaks its content policy, or asks another site.
package pagetest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mxschmitt/playwright-go"
	"github.com/stretchr/testify/require"

	driver "headgate/activities/playwright"
)

// AxeVersion is the release of axe-core that `make test` puts beside the driver.
const AxeVersion = "4.14.1"

// shots is the variable that names a folder for screenshots; empty: none is kept.
const shots = "HEADGATE_SCREENSHOTS"

// Browser is one Chromium.
type Browser struct {
	t       testing.TB
	browser playwright.Browser
	axe     string
}

// Start starts a browser that ends with the test. Without a driver the test is
// skipped, but not in CI.
func Start(t testing.TB) *Browser {
	t.Helper()
	folder, err := driver.DriverFolder()
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "package", "cli.js"))
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("no browser driver: `make browser` installs it")
	}
	require.NoError(t, err)
	options := &playwright.RunOptions{DriverDirectory: folder, SkipInstallBrowsers: true, Stdout: io.Discard, Stderr: io.Discard}
	require.NoError(t, playwright.Install(options)) // it is there: nothing is downloaded
	pw, err := playwright.Run(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pw.Stop()) })
	launch := playwright.BrowserTypeLaunchOptions{Headless: playwright.Bool(true), ChromiumSandbox: playwright.Bool(os.Geteuid() != 0),
		Args: []string{"--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"}}
	if p := driver.Program(""); p != "" {
		launch.ExecutablePath = playwright.String(p)
	}
	browser, err := pw.Chromium.Launch(launch)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, browser.Close()) })
	return &Browser{t: t, browser: browser, axe: filepath.Join(folder, "axe-"+AxeVersion+".min.js")}
}

// Options of a page. Zero: 1280 by 900, with JavaScript.
type Options struct {
	Width    int
	NoScript bool
	Allow    []string          // see Page.Allow
	Cookies  map[string]string // of the site, as it sets them: with the path /console
}

// Page is one page of a site, in a profile of its own.
type Page struct {
	playwright.Page
	t       testing.TB
	site    string
	axe     string
	mu      sync.Mutex
	wrong   []string
	allowed []string // parts of errors that are meant
}

// Open opens a page of a site. What goes wrong on it fails the test in the end.
func (b *Browser) Open(t testing.TB, site, path string, o Options) *Page {
	t.Helper()
	if o.Width == 0 {
		o.Width = 1280
	}
	profile, err := b.browser.NewContext(playwright.BrowserNewContextOptions{JavaScriptEnabled: playwright.Bool(!o.NoScript),
		Viewport: &playwright.Size{Width: o.Width, Height: 900}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, profile.Close()) })
	profile.SetDefaultTimeout(15_000)
	for name, value := range o.Cookies {
		require.NoError(t, profile.AddCookies([]playwright.OptionalCookie{{Name: name, Value: value, Domain: playwright.String("127.0.0.1"), Path: playwright.String("/console")}}))
	}
	require.NoError(t, profile.AddInitScript(playwright.Script{Content: playwright.String(
		`document.addEventListener("securitypolicyviolation", (e) => console.error("content policy: " + e.violatedDirective + " " + e.blockedURI))`)}))
	page, err := profile.NewPage()
	require.NoError(t, err)
	p := &Page{Page: page, t: t, site: site, axe: b.axe, allowed: o.Allow}
	page.OnConsole(func(m playwright.ConsoleMessage) {
		if m.Type() == "error" {
			p.fault("console: " + m.Text())
		}
	})
	page.OnPageError(func(err error) { p.fault("page: " + err.Error()) })
	page.OnRequest(func(r playwright.Request) {
		if !strings.HasPrefix(r.URL(), site+"/") {
			p.fault("a request of another site: " + r.URL())
		}
	})
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Empty(t, p.wrong)
	})
	_, err = page.Goto(site + path)
	require.NoError(t, err)
	return p
}

// Allow lets errors pass that hold one of the texts, such as the status of a
// refusal, which a browser logs.
func (p *Page) Allow(texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = texts
}

func (p *Page) fault(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.allowed, func(part string) bool { return strings.Contains(text, part) }) {
		p.wrong = append(p.wrong, text)
	}
}

// Eventually waits until an expression is true on the page.
func (p *Page) Eventually(expression string) {
	p.t.Helper()
	_, err := p.WaitForFunction("() => { try { return Boolean("+expression+") } catch { return false } }", nil)
	if err != nil {
		text, _ := p.Locator("body").InnerText()
		p.t.Fatalf("waiting for %s: %v\n%s", expression, err, text)
	}
}

// Value evaluates an expression.
func (p *Page) Value(expression string) any {
	p.t.Helper()
	v, err := p.Evaluate("() => " + expression)
	require.NoError(p.t, err)
	return v
}

// Fits requires that nothing is wider than the window, and what axe finds in order.
func (p *Page) Fits() {
	p.t.Helper()
	require.Equal(p.t, true, p.Value("document.documentElement.scrollWidth <= window.innerWidth"), "a horizontal scroll bar")
	script, err := os.ReadFile(p.axe)
	if err != nil && os.Getenv("CI") == "" {
		p.t.Log("no axe-core: `make test` installs it")
		return
	}
	require.NoError(p.t, err)
	_, err = p.Evaluate(string(script))
	require.NoError(p.t, err)
	found, err := p.Evaluate(`async () => (await axe.run(document)).violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join(" | "))`)
	require.NoError(p.t, err)
	require.Empty(p.t, found)
}

// Shoot keeps a picture of the whole page, if somebody wants them.
func (p *Page) Shoot(name string) {
	p.t.Helper()
	folder := os.Getenv(shots)
	if folder == "" {
		return
	}
	require.NoError(p.t, os.MkdirAll(folder, 0o755))
	_, err := p.Screenshot(playwright.PageScreenshotOptions{Path: playwright.String(filepath.Join(folder, name+".png")), FullPage: playwright.Bool(true)})
	require.NoError(p.t, err)
}

// TabTo presses the tabulator until an element has the focus.
func (p *Page) TabTo(selector string) {
	p.t.Helper()
	for range 200 {
		require.NoError(p.t, p.Keyboard().Press("Tab"))
		if p.Value(fmt.Sprintf("document.activeElement.matches(%q)", selector)) == true {
			return
		}
	}
	p.t.Fatalf("no tabulator leads to %s", selector)
}

// Refreshed waits until the page has refreshed its parts n times.
func (p *Page) Refreshed(n int) {
	p.t.Helper()
	for range n {
		before := p.Value(`document.getElementById("as-of").dataset.tick`)
		deadline := time.Now().Add(15 * time.Second)
		for p.Value(`document.getElementById("as-of").dataset.tick`) == before {
			require.True(p.t, time.Now().Before(deadline), "the page refreshes itself")
			require.NoError(p.t, p.frame())
		}
	}
}

// frame waits until the page has drawn itself once more.
func (p *Page) frame() error {
	_, err := p.Evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))")
	return err
}
