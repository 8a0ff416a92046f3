package playwright

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// patience is what a faulty session may take; slack is what may come on top.
const (
	patience = 4 * time.Second
	slack    = 2 * time.Second
)

// pids finds the engine's processes by what their command line holds.
func (s *site) pids(word string) (found []int) {
	s.Helper()
	folders, err := filepath.Glob(filepath.Join(s.temp, "*"))
	require.NoError(s, err)
	for _, folder := range folders {
		for _, pid := range processes(folder) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			text := strings.ReplaceAll(string(line), "\x00", " ")
			switch {
			case word == "driver" && strings.Contains(text, "run-driver"),
				word == "browser" && strings.Contains(text, "--user-data-dir") && !strings.Contains(text, "--type="),
				word == "renderer" && strings.Contains(text, "--type=renderer"):
				found = append(found, pid)
			}
		}
	}
	require.NotEmpty(s, found, "no process of the %s", word)
	return found
}

func (s *site) signal(word string, signal syscall.Signal) {
	s.Helper()
	for _, pid := range s.pids(word) {
		_ = syscall.Kill(pid, signal)
	}
}

// E1: what is killed while the effect is held has sent nothing, and says so.
func TestKilledWhileHeld(t *testing.T) {
	for _, word := range []string{"browser", "driver", "renderer"} {
		t.Run(word, func(t *testing.T) {
			s := newSite(t)
			session := s.hold(s.plan("held", "", form...))
			s.signal(word, syscall.SIGKILL)
			ctx, cancel := context.WithTimeout(s.ctx, patience)
			defer cancel()
			start := time.Now()
			seen := session.Send(ctx, allowed)
			require.Less(t, time.Since(start), patience+slack)
			if word == "renderer" { // the browser still has the request, and may let it go
				require.NoError(t, session.Close())
				require.LessOrEqual(t, s.effects("held"), int64(1))
				if !seen.Sent {
					require.Zero(t, s.requests("held"))
				}
				return
			}
			require.False(t, seen.Sent)
			require.Error(t, seen.Err)
			require.NoError(t, session.Close())
			require.Zero(t, s.requests("held"))

			again := s.hold(s.plan("held", "", form...))
			require.NoError(t, again.Send(s.ctx, allowed).Err)
			require.EqualValues(t, 1, s.effects("held"))
		})
	}
}

// E2: what is killed after the effect has left knows that it may have happened.
func TestKilledAfterSending(t *testing.T) {
	for _, word := range []string{"browser", "driver"} {
		t.Run(word, func(t *testing.T) {
			s := newSite(t)
			_, err := s.Inject(s.ctx, provider.Fault{Key: "sent", Kind: provider.Hang})
			require.NoError(t, err)
			session := s.hold(s.plan("sent", "", form...))
			done := make(chan Seen, 1)
			go func() { done <- session.Send(s.ctx, allowed) }()
			require.NoError(t, s.WaitFor(s.ctx, "sent", provider.Counts{Effects: 1}))
			s.signal(word, syscall.SIGKILL)
			start := time.Now()
			seen := <-done
			require.Less(t, time.Since(start), slack)
			require.True(t, seen.Sent)
			require.Zero(t, seen.Status)
			require.Error(t, seen.Err)
			require.EqualValues(t, 1, s.requests("sent"))
		})
	}
}

// E3: whatever hangs, each call ends soon after its time, and nothing is left.
func TestHanging(t *testing.T) {
	within := func(t *testing.T, what string, most time.Duration, call func()) {
		t.Helper()
		start := time.Now()
		call()
		require.Less(t, time.Since(start), most, what)
	}
	for _, c := range []struct {
		name, mode string
		steps      []contract.Step
		fault      func(s *site)
	}{
		{name: "a page that never yields", mode: "busy", steps: form},
		{name: "a page that never ends", mode: "stuck", steps: form},
		{name: "renderer killed", steps: []contract.Step{{Name: "wait", Do: contract.StepExpect, Target: "#never"}}, fault: func(s *site) { s.signal("renderer", syscall.SIGKILL) }},
		{name: "browser stopped", steps: []contract.Step{{Name: "wait", Do: contract.StepExpect, Target: "#never"}}, fault: func(s *site) { s.signal("browser", syscall.SIGSTOP) }},
		{name: "driver stopped", steps: []contract.Step{{Name: "wait", Do: contract.StepExpect, Target: "#never"}}, fault: func(s *site) { s.signal("driver", syscall.SIGSTOP) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			session := s.open(s.plan("hang", c.mode, c.steps...))
			ctx, cancel := context.WithTimeout(s.ctx, patience)
			defer cancel()
			if c.fault != nil {
				time.AfterFunc(time.Second, func() { c.fault(s) }) // in the middle of the steps
			}
			within(t, "run", patience+slack, func() {
				held, err := session.Run(ctx)
				require.False(t, held)
				require.Error(t, err)
			})
			within(t, "keep and close", slack+time.Second, func() {
				session.Keep()
				require.NoError(t, session.Close())
			})
			require.Zero(t, s.requests("hang"))
		})
	}
}

// P32, P34: a browser that does not close, or does not let a page close, is
// killed with all its processes, and the next session has a new one.
func TestCloseHangs(t *testing.T) {
	s := newSite(t)
	session := s.hold(s.plan("close", "", form...))
	s.signal("browser", syscall.SIGSTOP)
	start := time.Now()
	require.NoError(t, session.Close())
	require.Less(t, time.Since(start), calmCloseFor+slack)
	s.clean()
	s.hold(s.plan("next", "", form...))
}

// P33: a browser that opens no page is an error, not a page, and is replaced.
func TestPageDoesNotOpen(t *testing.T) {
	s := newSite(t)
	first := s.open(s.plan("first", "", form...))
	require.NoError(t, first.Close())
	s.signal("browser", syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	start := time.Now()
	_, err := s.driver.Open(ctx, s.plan("second", "", form...))
	require.Error(t, err)
	require.Less(t, time.Since(start), patience+slack)
	s.clean()
	s.hold(s.plan("third", "", form...))
}

// E4: there is no other way out than the one that is held.
func TestOtherWays(t *testing.T) {
	s := newSite(t)
	settle := contract.Step{Name: "settle", Do: contract.StepWait, Target: "#never", State: "visible", Timeout: contract.Duration(1500 * time.Millisecond)}
	for _, c := range []struct {
		mode, refused string
		steps         []contract.Step
	}{
		{mode: "jump", refused: "a redirect to GET"},
		{mode: "service", steps: []contract.Step{settle}},
		{mode: "socket", refused: "a WebSocket GET", steps: []contract.Step{settle}},
		{mode: "worker", steps: []contract.Step{settle}},
		{mode: "beacon", refused: "POST", steps: []contract.Step{settle}},
		{mode: "fetch", refused: "POST", steps: []contract.Step{pick, name, book, settle}},
		{mode: "get", refused: "GET", steps: []contract.Step{pick, name, book, settle}},
		{mode: "relay", refused: "POST", steps: []contract.Step{pick, name, book, settle}},
	} {
		t.Run(c.mode+", undeclared", func(t *testing.T) {
			plan := s.plan(c.mode, c.mode, c.steps...)
			// Another effect is declared, and only what reads may pass.
			plan.Browser.Effect = "POST " + s.url + "/other"
			plan.Browser.ReadOnly = []string{s.url + "/site/slots?**", s.url + "/site/script.js?**", s.url + "/site/booked?**"}
			session := s.open(plan)
			held, _ := session.Run(s.ctx)
			require.False(t, held)
			require.NoError(t, session.Close())
			require.Zero(t, s.requests(c.mode), "requests at the provider")
			if c.refused != "" {
				require.Contains(t, strings.Join(session.Refused(), "\n"), c.refused)
			}
		})
	}
	t.Run("get, declared", func(t *testing.T) {
		plan := s.plan("got", "get", form...)
		plan.Browser.Effect = "GET " + s.url + "/site/book?**"
		session := s.hold(plan)
		require.Zero(t, s.requests("got"))
		seen := session.Send(s.ctx, allowed)
		require.NoError(t, seen.Err)
		require.EqualValues(t, 1, s.requests("got"))
	})
	t.Run("a beacon, declared", func(t *testing.T) {
		session := s.hold(s.plan("sent", "beacon", form...))
		require.Zero(t, s.requests("sent"))
		require.NoError(t, session.Close())
		require.Zero(t, s.requests("sent"))
	})
	t.Run("the effect redirects to another", func(t *testing.T) {
		plan := s.plan("relayed", "relay", form...)
		plan.Browser.Effect = "POST " + s.url + "/site/relay"
		session := s.hold(plan)
		seen := session.Send(s.ctx, allowed)
		require.True(t, seen.Sent)
		require.Equal(t, 307, seen.Status)
		require.Zero(t, s.requests("relayed"), "the first address had no effect, the second was not declared")
	})
	t.Run("two at once", func(t *testing.T) {
		session := s.hold(s.plan("twice", "twice", pick, name, book, booked))
		seen := session.Send(s.ctx, allowed)
		require.NoError(t, seen.Err)
		require.NoError(t, session.Close())
		require.EqualValues(t, 1, s.requests("twice"))
		require.Contains(t, strings.Join(session.Refused(), "\n"), "a second POST")
	})
}

// What a killed worker leaves, running and on disk, the next one removes.
func TestSweep(t *testing.T) {
	s := newSite(t)
	dead := filepath.Join(s.temp, "1-dead")
	require.NoError(t, os.Mkdir(dead, 0o700))
	orphan := exec.Command("sleep", "1000")
	orphan.Env = append(os.Environ(), "TMPDIR="+dead)
	require.NoError(t, orphan.Start())
	exited := make(chan error, 1)
	go func() { exited <- orphan.Wait() }()
	old := time.Now().Add(-time.Minute)
	require.NoError(t, os.Chtimes(dead, old, old))
	alive, err := newFolder(s.temp)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(alive.path, old, old))

	require.Equal(t, 1, sweepTemp(s.temp))
	require.Error(t, <-exited, "it was killed")
	require.NoDirExists(t, dead)
	require.DirExists(t, alive.path, "its worker lives")
	alive.remove()

	artefacts := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(artefacts, "old"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(artefacts, "new"), 0o700))
	require.NoError(t, os.Chtimes(filepath.Join(artefacts, "old"), old, old))
	require.Equal(t, 1, sweepOld(artefacts, old.Add(time.Second)))
	require.DirExists(t, filepath.Join(artefacts, "new"))
}

// A browser serves so many sessions, and a new one takes its place.
func TestRecycle(t *testing.T) {
	s := newSite(t)
	s.driver.o.Recycle = 2
	var last *engine
	seen := 0
	for range 5 {
		session := s.open(s.plan("n", "", form...))
		if session.engine != last {
			seen++
		}
		last = session.engine
		require.NoError(t, session.Close())
	}
	require.Equal(t, 3, seen)
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(s.temp)
		return err == nil && len(entries) == 1
	}, 10*time.Second, 50*time.Millisecond, "the browsers before are gone")
}

// KILLS kills (4 if it is not set; the measured run has 100), in turn of the
// browser, the driver and both, while the effect is held: nothing is sent, and
// nothing is left, running or on disk.
func TestKills(t *testing.T) {
	kills := 4
	if text := os.Getenv("KILLS"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(kills)*20*time.Second)
	defer cancel()
	s.ctx = ctx
	for i := range kills {
		session := s.hold(s.plan("kills", "", form...))
		switch i % 3 {
		case 0:
			s.signal("browser", syscall.SIGKILL)
		case 1:
			s.signal("driver", syscall.SIGKILL)
		case 2:
			s.signal("driver", syscall.SIGSTOP)
			s.signal("browser", syscall.SIGKILL)
		}
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		seen := session.Send(ctx, allowed)
		cancel()
		require.False(t, seen.Sent)
		require.NoError(t, session.Close())
		<-session.engine.dead
		s.clean()
	}
	require.Zero(t, s.requests("kills"))
}
