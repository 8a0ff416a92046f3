package playwright

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mxschmitt/playwright-go"
	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// The version that is installed is the one that the module speaks to.
func TestVersion(t *testing.T) {
	d, err := playwright.NewDriver(&playwright.RunOptions{})
	require.NoError(t, err)
	require.Equal(t, Version, d.Version)
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	require.NoError(t, err)
	require.Contains(t, string(makefile), "PLAYWRIGHT_VERSION := "+Version+"\n")
}

func TestSession(t *testing.T) {
	s := newSite(t)
	t.Run("a form", func(t *testing.T) {
		plan := s.plan("form", "", form...)
		plan.Browser.IdempotencyHeader = "Idempotency-Key"
		session := s.hold(plan)
		require.Zero(t, s.requests("form"), "the effect is held")
		asked := 0
		seen := session.Send(s.ctx, func() error { asked++; return nil })
		require.NoError(t, seen.Err)
		require.Equal(t, 1, asked)
		require.True(t, seen.Sent)
		require.Equal(t, 200, seen.Status)
		require.Equal(t, map[string]any{"number": "ch_1"}, seen.Values)
		require.EqualValues(t, 1, s.effects("form"))
		entries, err := s.Ledger(s.ctx, "form")
		require.NoError(t, err)
		require.Equal(t, "/site/bookings", entries[0].Path)
	})
	t.Run("a script", func(t *testing.T) {
		session := s.hold(s.plan("fetch", "fetch", pick, name, book, booked))
		seen := session.Send(s.ctx, allowed)
		require.NoError(t, seen.Err)
		require.Equal(t, 200, seen.Status)
		require.EqualValues(t, 1, s.effects("fetch"))
	})
	t.Run("the guard says no", func(t *testing.T) {
		session := s.hold(s.plan("no", "", form...))
		start := time.Now()
		seen := session.Send(s.ctx, func() error { return errNo })
		require.ErrorIs(t, seen.Err, errNo)
		require.False(t, seen.Sent)
		require.Less(t, time.Since(start), 5*time.Second)
		require.NoError(t, session.Close())
		require.Zero(t, s.requests("no"))
	})
	t.Run("the answer is an error", func(t *testing.T) {
		_, err := s.Inject(s.ctx, provider.Fault{Key: "busy", Kind: provider.Status, Status: 503, RetryAfter: "7"})
		require.NoError(t, err)
		session := s.hold(s.plan("busy", "", form...))
		seen := session.Send(s.ctx, allowed)
		require.Equal(t, 503, seen.Status)
		require.Equal(t, "7", seen.RetryAfter)
		require.True(t, seen.Sent)
	})
	t.Run("no answer", func(t *testing.T) {
		_, err := s.Inject(s.ctx, provider.Fault{Key: "after", Kind: provider.After})
		require.NoError(t, err)
		session := s.hold(s.plan("after", "", form...))
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		defer cancel()
		seen := session.Send(ctx, allowed)
		require.True(t, seen.Sent)
		require.Zero(t, seen.Status)
		require.EqualValues(t, 1, s.requests("after"), "a browser sends again what broke on a connection that it had used")
		require.EqualValues(t, 1, s.effects("after"))
	})
	t.Run("a step fails, and is kept", func(t *testing.T) {
		wrong := contract.Step{Name: "wrong", Do: contract.StepClick, Target: "#nothing", Timeout: contract.Duration(time.Second / 2)}
		session := s.open(s.plan("wrong", "", pick, wrong, book))
		held, err := session.Run(s.ctx)
		require.False(t, held)
		require.ErrorContains(t, err, "step wrong (click)")
		folder := session.Keep()
		require.Equal(t, "wrong", filepath.Base(folder))
		for _, file := range []string{"page.png", "trace.zip"} {
			info, err := os.Stat(filepath.Join(folder, file))
			require.NoError(t, err)
			require.NotZero(t, info.Size())
		}
	})
	t.Run("a look-up", func(t *testing.T) {
		find := contract.Browser{ReadOnly: []string{s.url + "/site/find?key=*"}, Steps: []contract.Step{
			{Name: "open", Do: contract.StepGoto, Target: s.url + "/site/find?key=form", Timeout: contract.Duration(5 * time.Second)},
			{Name: "n", Do: contract.StepExtract, Target: ".booking", Count: true},
			{Name: "id", Do: contract.StepExtract, Target: ".booking", Optional: true},
			{Name: "none", Do: contract.StepExtract, Target: ".nothing", Optional: true}}}
		session := s.open(Plan{Browser: find})
		held, err := session.Run(s.ctx)
		require.NoError(t, err)
		require.False(t, held)
		status, values := session.Page()
		require.Equal(t, 200, status)
		require.Equal(t, map[string]any{"n": 1, "id": "ch_1", "none": nil}, values)
	})
}
