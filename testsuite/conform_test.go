package testsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/starter/conform"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

const conformOperations = `
network: {private: "127.0.0.0/8"}
budget: {resources: {calls: {concurrent: 1}}}
operations:
  charge:
    type: http
    request: {method: POST, url: "PROVIDER/charges", idempotency_header: Idempotency-Key, reference: "body.id"}
    cost: {calls: 1}
    timeout: 5s
    replay: {class: keyed, window: 1h}
    probe:
      lookup: {url: "PROVIDER/charges?key={key}", happened: "status == 200", did_not_happen: "status == 404", reference: "body.id"}
      settle: 0s
    provider: {version: "2026-12", key_window: 24h, lookup: {covers: all, consistent: true, lag: 200ms}}
`

// TestConform is F5 as an operator sees it: the command tries the declaration,
// and its exit status says whether the provider does what is declared.
func TestConform(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	third := provider.New(provider.Options{})
	defer func() { require.NoError(t, third.Close()) }()
	url, err := third.Listen("127.0.0.1:0")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(conformOperations, "PROVIDER", url)), 0o600))

	try := func(args ...string) (status int, stdout, stderr string) {
		var out, problems bytes.Buffer
		command := exec.CommandContext(ctx, binaries.Headgate, append([]string{"conform", "charge", "--config", file,
			"--payload", `{"amount": 1.0}`, "--other", `{"amount": 2}`, "--patience", "5s"}, args...)...)
		command.Stdout, command.Stderr = &out, &problems
		var exit *exec.ExitError
		if err := command.Run(); errors.As(err, &exit) {
			status = exit.ExitCode()
		} else {
			require.NoError(t, err)
		}
		return status, out.String(), problems.String()
	}
	mismatches := func(text string) (checks []string) {
		var r conform.Report
		require.NoError(t, json.Unmarshal([]byte(text), &r), text)
		for _, l := range r.Lines {
			if l.Verdict == conform.Mismatch {
				checks = append(checks, l.Check)
			}
		}
		require.Len(t, checks, r.Mismatches)
		return checks
	}

	status, stdout, stderr := try()
	require.Zero(t, status, "%s%s", stdout, stderr)
	require.Contains(t, stdout, "duplicate_key")
	require.Contains(t, stdout, "provider 2026-12")
	require.NotContains(t, stdout, string(conform.Mismatch))

	for _, lie := range []struct {
		behaviour provider.Behaviour
		checks    []string
	}{
		{provider.Behaviour{Keys: provider.KeysIgnored}, []string{"duplicate_key", "other_body"}},
		{provider.Behaviour{LookupLag: provider.Duration(time.Second)}, []string{"lag"}},
	} {
		require.NoError(t, third.Configure(ctx, lie.behaviour))
		status, stdout, stderr = try("--json")
		require.Equal(t, 4, status, "%s%s", stdout, stderr)
		require.Equal(t, lie.checks, mismatches(stdout))
		require.Contains(t, stderr, "does not do what is declared")
	}
}
