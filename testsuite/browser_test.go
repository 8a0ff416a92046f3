package testsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

const browserOperations = `
  book_slot:
    type: browser
    browser:
      effect: "POST PROVIDER/site/bookings"
      read_only: "PROVIDER/site/**"
      steps:
        open: {goto: "PROVIDER/site/slots?key={key}"}
        slot: {select: "#slot", value: mon-9}
        name: {fill: "#name", value: "Ann {payload.amount}"}
        letter: {upload: "#letter", content: "of {tenant}", file: letter.txt}
        book: {click: "#book"}
        done: {expect: "#confirmation", text: Booked}
        reference: {extract: "#reference"}
      reference: body.reference
    cost: {browser_sessions: 1}
    timeout: 15s
    heartbeat: 8s
    retry: {max_attempts: 6, base: 200ms, max: 1s, max_age: 10m}
    replay: {class: never}
    probe:
      visit:
        read_only: "PROVIDER/site/find?key=*"
        steps:
          open: {goto: "PROVIDER/site/find?key={key}"}
          found: {extract: ".booking", count: true}
          first: {extract: ".booking", optional: true}
        happened: body.found > 0
        did_not_happen: body.found == 0
        reference: body.first
      settle: 500ms
      timeout: 15s
      attempts: 20
      base: 200ms
      max: 1s
  book_wrong:
    type: browser
    browser:
      effect: "POST PROVIDER/site/bookings"
      read_only: "PROVIDER/site/**"
      steps:
        open: {goto: "PROVIDER/site/slots?key={key}"}
        wrong: {click: "#nothing", timeout: 500ms}
    cost: {browser_sessions: 1}
    timeout: 15s
    heartbeat: 8s
    retry: {max_attempts: 1}
    replay: {class: never}
  book_busy:
    type: browser
    browser:
      effect: "POST PROVIDER/site/bookings"
      read_only: "PROVIDER/site/**"
      steps:
        open: {goto: "PROVIDER/site/slots?mode=busy&key={key}"}
        name: {fill: "#name", value: Ann}
        book: {click: "#book", timeout: 3s}
        done: {expect: "#confirmation", timeout: 3s}
    cost: {browser_sessions: 2}
    timeout: 15s
    heartbeat: 8s
    retry: {max_attempts: 1}
    replay: {class: never}
  book_jump:
    type: browser
    browser:
      effect: "POST PROVIDER/site/bookings"
      read_only: "PROVIDER/site/slots?**"
      steps:
        open: {goto: "PROVIDER/site/slots?mode=jump&key={key}"}
    cost: {browser_sessions: 1}
    timeout: 15s
    heartbeat: 8s
    retry: {max_attempts: 1}
    replay: {class: never}
`

// pages is a world with one worker in a browser, whose folders are the test's own.
type pages struct {
	*drill.World
	worker          *drill.Process
	temp, artefacts string
}

func newPages(ctx context.Context, t *testing.T) *pages {
	t.Helper()
	needBrowser(t)
	temp, err := os.MkdirTemp("/tmp", "hg-") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	p := &pages{World: newWorld(ctx, t), temp: temp, artefacts: t.TempDir()}
	text, err := os.ReadFile(configuration(p.World))
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "\n  resources:\n", "\n  resources:\n    browser_sessions: {concurrent: 2}\n", 1))
	text = []byte(strings.Replace(string(text), "soft: 8, hard: 12", "soft: 800, hard: 1000", 1))
	require.NoError(t, os.WriteFile(configuration(p.World), text, 0o600))
	declare(ctx, t, p.World, "  many: {weight: 1, max_in_flight: 8, max_queued: 400}\n", browserOperations)
	p.worker, err = p.AddWorker(ctx, "browser", "browser", "--browser-temp", temp, "--artefacts", p.artefacts, "--recycle", "60")
	require.NoError(t, err)
	t.Cleanup(func() { p.gone(t) })
	return p
}

// needBrowser skips where there is no browser, but not in CI.
func needBrowser(t *testing.T) {
	t.Helper()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	found, _ := filepath.Glob(filepath.Join(home, ".cache", "ms-playwright-go", "*", "package", "cli.js"))
	if len(found) == 0 && os.Getenv("PLAYWRIGHT_DRIVER_PATH") == "" && os.Getenv("CI") == "" {
		t.Skip("no browser driver: `make browser` installs it")
	}
}

// processes are those of the worker's browsers that can be told by their command
// line.
func (p *pages) processes() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if pid, failed := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && failed == nil &&
			bytes.Contains(line, []byte(p.temp)) && bytes.Contains(line, []byte("--user-data-dir")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (p *pages) killBrowsers() error {
	all := p.processes()
	if len(all) == 0 {
		return fmt.Errorf("there is no browser to kill")
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return nil
}

// gone requires that nothing is left once the worker was killed, started, used
// and ended.
func (p *pages) gone(t *testing.T) {
	t.Helper()
	p.worker.Kill()
	require.Eventually(t, func() bool { return len(p.processes()) == 0 }, 20*time.Second, 50*time.Millisecond, "browsers are gone with their worker")
}

// TestBrowser is E1 and E2 with a real worker and a real browser.
func TestBrowser(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	p := newPages(ctx, t)
	one := drill.Range{Least: 1, Most: 1}
	two := drill.Range{Least: 2, Most: 2}
	booked := drill.End{Keys: []string{"k"}, Phase: contract.PhaseSucceeded, Effects: 1, Requests: one}
	with := func(change func(e *drill.End)) []drill.End {
		e := booked
		change(&e)
		return []drill.End{e}
	}
	submit := func(s *drill.Scene) func(ctx context.Context) error {
		return func(ctx context.Context) error { return s.Submit(ctx, "k", "book_slot") }
	}
	end := func(ctx context.Context, s *drill.Scene, err error) error {
		if err != nil {
			return err
		}
		return s.Until(ctx, "k", contract.PhaseSucceeded)
	}
	for _, c := range []drill.Case{
		{ID: "E0", Title: "a slot is booked through a web form", Play: func(ctx context.Context, s *drill.Scene) error {
			return end(ctx, s, submit(s)(ctx))
		}, Ends: with(func(e *drill.End) { e.Attempts = one })},
		{ID: "E1", Variant: "worker", Title: "worker killed while the request is held", Play: func(ctx context.Context, s *drill.Scene) error {
			return end(ctx, s, s.HoldBeat(proxy.Before, "k", admission.StepDispatching).Catch(ctx, submit(s), func(worker *drill.Process, _ *proxy.Point) error {
				worker.Kill()
				if err := s.Unsent(ctx, "k"); err != nil {
					return err
				}
				return worker.Start(ctx)
			}))
		}, Ends: with(func(e *drill.End) { e.Attempts, e.Retries = two, []string{"worker_lost"} })},
		{ID: "E1", Variant: "browser", Title: "browser killed while the request is held", Play: func(ctx context.Context, s *drill.Scene) error {
			return end(ctx, s, s.HoldBeat(proxy.After, "k", admission.StepDispatching).Catch(ctx, submit(s), func(_ *drill.Process, point *proxy.Point) error {
				err := p.killBrowsers()
				point.Release()
				return err
			}))
		}, Ends: with(func(e *drill.End) { e.Attempts, e.Retries = two, []string{"effect_withheld"} })},
		{ID: "E2", Variant: "worker", Title: "worker killed after the request was let go; it happened", Play: func(ctx context.Context, s *drill.Scene) error {
			worker, err := s.Dispatch(ctx, "k", "book_slot", provider.Hang)
			if err != nil {
				return err
			}
			worker.Kill()
			return end(ctx, s, worker.Start(ctx))
		}, Ends: with(func(e *drill.End) { e.Attempts, e.Evidence = one, contract.EvidenceLookup })},
		{ID: "E2", Variant: "did not", Title: "worker killed after the request was let go; it did not happen", Play: func(ctx context.Context, s *drill.Scene) error {
			worker, err := s.Dispatch(ctx, "k", "book_slot", provider.HangBefore)
			if err != nil {
				return err
			}
			worker.Kill()
			return end(ctx, s, worker.Start(ctx))
		}, Ends: with(func(e *drill.End) { e.Attempts, e.Requests = two, two })},
		{ID: "E2", Variant: "browser", Title: "browser killed after the request was let go", Play: func(ctx context.Context, s *drill.Scene) error {
			if _, err := s.Dispatch(ctx, "k", "book_slot", provider.Hang); err != nil {
				return err
			}
			return end(ctx, s, p.killBrowsers())
		}, Ends: with(func(e *drill.End) { e.Attempts, e.Evidence = one, contract.EvidenceLookup })},
	} {
		t.Run(c.Name(), func(t *testing.T) { play(ctx, t, p.World, c) })
	}
	t.Run("artefacts", func(t *testing.T) {
		view := p.fails(ctx, t, "book_wrong")
		folder := filepath.Join(p.artefacts, contract.ProviderKey("t", "book_wrong")+"-1")
		require.Contains(t, view.Detail, folder)
		require.FileExists(t, filepath.Join(folder, "page.png"))
		require.FileExists(t, filepath.Join(folder, "trace.zip"))
	})
	t.Run("E4", func(t *testing.T) {
		require.Contains(t, p.fails(ctx, t, "book_jump").Detail, "net::ERR_BLOCKED_BY_CLIENT; refused: [a redirect to GET http:")
	})
	t.Run("P32", func(t *testing.T) {
		p.fails(ctx, t, "book_busy") // it had both sessions
		play(ctx, t, p.World, drill.Case{ID: "P32", Title: "a page that never yields gives its sessions back", Play: func(ctx context.Context, s *drill.Scene) error {
			return end(ctx, s, submit(s)(ctx))
		}, Ends: with(func(e *drill.End) { e.Attempts = one })})
	})
}

// fails runs one task that must fail without a request at the provider.
func (p *pages) fails(ctx context.Context, t *testing.T, operation string) (view contract.TaskView) {
	t.Helper()
	accepted, err := send(ctx, p.World, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {operation}},
		fmt.Appendf(nil, `{"tenant": "t", "operation": %q, "payload": {}}`, operation))
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, accepted.status, "%s", accepted.body)
	eventually(ctx, t, operation+" has failed", func() bool {
		answer, err := send(ctx, p.World, http.MethodGet, "/v1/tasks/t/"+operation, nil, nil)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(answer.body, &view))
		require.NotEqual(t, contract.PhaseSucceeded, view.Phase)
		return view.Phase == contract.PhaseFailed
	})
	counts, err := p.Provider.Effects(ctx, contract.ProviderKey("t", operation))
	require.NoError(t, err)
	require.Zero(t, counts.Requests)
	return view
}
