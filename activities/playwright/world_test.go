package playwright

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// site is the provider's web site, and a driver of a test's own.
type site struct {
	*testing.T
	*provider.Server
	url    string
	driver *Driver
	temp   string
	ctx    context.Context
}

func newSite(t *testing.T) *site {
	t.Helper()
	needBrowser(t)
	server := provider.New(provider.Options{})
	url, err := server.Listen("127.0.0.1:0")
	require.NoError(t, err)
	temp, err := os.MkdirTemp("/tmp", "hg-") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	s := &site{T: t, Server: server, url: url, temp: temp,
		driver: New(Options{Temp: temp, Artefacts: t.TempDir(), Log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))})}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	s.ctx = ctx
	t.Cleanup(func() {
		cancel()
		require.NoError(t, s.driver.Close())
		s.clean()
		require.NoError(t, server.Close())
	})
	return s
}

// needBrowser skips where there is no browser, but not in CI.
func needBrowser(t *testing.T) {
	t.Helper()
	folder, err := DriverFolder()
	if err == nil {
		_, err = os.Stat(folder + "/package/cli.js")
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("no browser driver: `make browser` installs it")
	}
}

// clean requires that nothing is left of any browser, running or on disk.
func (s *site) clean() {
	s.Helper()
	entries, err := os.ReadDir(s.temp)
	require.NoError(s, err)
	for _, entry := range entries {
		require.Empty(s, processes(s.temp+"/"+entry.Name()))
	}
	require.Empty(s, entries, "temporary folders")
}

// plan books for a key on the page with a mode.
func (s *site) plan(key, mode string, steps ...contract.Step) Plan {
	b := contract.Browser{Effect: "POST " + s.url + "/site/bookings", ReadOnly: []string{s.url + "/site/**"}}
	b.Steps = append(b.Steps, contract.Step{Name: "open", Do: contract.StepGoto, Target: s.url + "/site/slots?key=" + key + "&mode=" + mode})
	b.Steps = append(b.Steps, steps...)
	for i := range b.Steps {
		if b.Steps[i].Timeout == 0 {
			b.Steps[i].Timeout = contract.Duration(10 * time.Second)
		}
	}
	return Plan{Browser: b, Key: key, Artefacts: key}
}

var (
	pick   = contract.Step{Name: "pick", Do: contract.StepSelect, Target: "#slot", Value: "mon-9"}
	name   = contract.Step{Name: "name", Do: contract.StepFill, Target: "#name", Value: `Ann "O'Hara"`}
	letter = contract.Step{Name: "letter", Do: contract.StepUpload, Target: "#letter", Value: "hello", File: "letter.txt"}
	book   = contract.Step{Name: "book", Do: contract.StepClick, Target: "#book"}
	booked = contract.Step{Name: "booked", Do: contract.StepExpect, Target: "#confirmation", Value: "Booked"}
	number = contract.Step{Name: "number", Do: contract.StepExtract, Target: "#reference"}
	form   = []contract.Step{pick, name, letter, book, booked, number}
)

// open opens a session that ends with the test.
func (s *site) open(plan Plan) *Session {
	s.Helper()
	session, err := s.driver.Open(s.ctx, plan)
	require.NoError(s, err)
	s.Cleanup(func() { _ = session.Close() })
	return session
}

// hold opens a session and runs it until the effect is held.
func (s *site) hold(plan Plan) *Session {
	s.Helper()
	session := s.open(plan)
	held, err := session.Run(s.ctx)
	require.NoError(s, err)
	require.True(s, held, "the effect is held; refused: %v", session.Refused())
	return session
}

func (s *site) effects(key string) int64 {
	s.Helper()
	counts, err := s.Effects(s.ctx, key)
	require.NoError(s, err)
	return int64(counts.Effects)
}

func (s *site) requests(key string) int64 {
	s.Helper()
	counts, err := s.Effects(s.ctx, key)
	require.NoError(s, err)
	return int64(counts.Requests)
}

func allowed() error { return nil }

var errNo = errors.New("too late")
