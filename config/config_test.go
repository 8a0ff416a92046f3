package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares a value's JSON with a file of testdata.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n")
}

// The digests are in the golden files: they must not change by accident, since
// attempts are pinned to them.
func TestGoldenFiles(t *testing.T) {
	for name, path := range map[string]string{"headgate": "../headgate.yaml", "full": "testdata/full.yaml"} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(path)
			require.NoError(t, err)
			require.NoError(t, c.Budget.Validate())
			require.Equal(t, c.Budget, c.Budget.Normalize())
			golden(t, name+".golden.json", struct {
				*Config
				PolicyDigest string `json:"policy_digest"`
			}{c, c.PolicyDigest()})
		})
	}
}

func TestDefaults(t *testing.T) {
	c, err := Parse("test.yaml", []byte(`
budget: {resources: {calls: {concurrent: 1}}}
operations:
  one:
    type: http
    request: {method: POST, url: "http://psp.example/"}
    cost: {calls: 1}
    probe: {lookup: {url: "http://psp.example/{key}", happened: "status == 200"}}
`))
	require.NoError(t, err)
	op, ok := c.Operation("one")
	require.True(t, ok)
	d := op.Declared
	require.Equal(t, contract.Duration(30*time.Second), d.Timeout)
	require.Equal(t, contract.Duration(10*time.Second), d.Heartbeat)
	require.Equal(t, contract.Retry{MaxAttempts: 5, Base: seconds(1), Max: seconds(60), MaxAge: seconds(900)}, d.Retry)
	require.Equal(t, contract.Replay{Class: contract.ReplayNever}, d.Replay)
	require.Equal(t, &contract.Probe{URL: "http://psp.example/{key}", Happened: "status == 200", Settle: seconds(2),
		Timeout: seconds(10), Attempts: 5, Base: seconds(1), Max: seconds(60)}, d.Probe)
	require.Equal(t, admission.QueuePolicy{Soft: 800, Hard: 1000}, c.Budget.Queue)
	require.Equal(t, admission.TenantPolicy{Weight: 1}, c.Budget.Default)
	require.Equal(t, Gateway{Listen: "127.0.0.1:7280"}, c.Gateway)
	require.Equal(t, Temporal{}, c.Temporal)

	_, ok = c.Operation("two")
	require.False(t, ok)
}

func seconds(n int) contract.Duration { return contract.Duration(time.Duration(n) * time.Second) }

func TestSmallestQueue(t *testing.T) {
	c, err := Parse("test.yaml", []byte(strings.Replace(base, "{soft: 8, hard: 10}", "{hard: 1}", 1)))
	require.NoError(t, err)
	require.Equal(t, admission.QueuePolicy{Soft: 1, Hard: 1}, c.Budget.Queue)
}

func TestLoad(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "missing.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(t.TempDir())
	require.Error(t, err)

	path := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(path, []byte("a: 1\n"), 0o600))
	_, err = Load(path)
	var all Errors
	require.ErrorAs(t, err, &all)
	require.Equal(t, path, all[0].File)
	require.Contains(t, err.Error(), path+`:1:1: there is no field "a" here`)
}

// A file may be ordered and quoted as one likes; that is no other declaration.
func TestDigestIsOfTheMeaning(t *testing.T) {
	const same = `operations:
  charge:
    replay: {window: 60m, class: "keyed"}
    cost: {"calls": 1}
    timeout: 30s
    probe: {lookup: {happened: 'status == 200', url: "http://psp.example/?key={key}"}}
    request: {idempotency_header: Idempotency-Key, url: http://psp.example/charges, method: POST}
    type: http
budget: {queue: {hard: 10, soft: 8}, resources: {tokens: {amount: 1000, per: 60s, burst: 100}, calls: {concurrent: 4}}}
`
	first, err := Parse("a.yaml", []byte(base))
	require.NoError(t, err)
	second, err := Parse("b.yaml", []byte(same))
	require.NoError(t, err)
	require.Equal(t, first.Operations[0].Declared, second.Operations[0].Declared)
	require.Equal(t, first.PolicyDigest(), second.PolicyDigest())
}

// Whatever is changed, the digest changes; and only that of what is changed.
func TestDigestTellsChanges(t *testing.T) {
	first, err := Parse("a.yaml", []byte(base))
	require.NoError(t, err)
	seen := map[string]string{first.Operations[0].Declared.Digest: "base"}
	for _, pair := range [][2]string{
		{"  charge:", "  charged:"},
		{"POST", "PUT"},
		{"http://psp.example/charges", "http://psp.example/charge"},
		{"Idempotency-Key", "Request-Key"},
		{"cost: {calls: 1}", "cost: {calls: 2}"},
		{"cost: {calls: 1}", "cost: {tokens: 1}"},
		{"cost: {calls: 1}", `cost: {calls: "1"}`},
		{"cost: {calls: 1}", `cost: {calls: "1 + 0"}`},
		{"window: 1h", "window: 2h"},
		{"class: keyed, window: 1h", "class: safe"},
		{"?key={key}", "?id={key}"},
		{"status == 200", "status == 201"},
		{"type: http", "type: http\n    timeout: 31s"},
		{"type: http", "type: http\n    heartbeat: 31s"},
		{"type: http", "type: http\n    retry: {max_attempts: 1}"},
		{"    probe:", "    probe:\n      settle: 3s"},
	} {
		c, err := Parse("b.yaml", []byte(strings.Replace(base, pair[0], pair[1], 1)))
		require.NoError(t, err, pair[1])
		digest := c.Operations[0].Declared.Digest
		require.Empty(t, seen[digest], pair[1])
		seen[digest] = pair[1]
		require.Equal(t, first.PolicyDigest(), c.PolicyDigest())
	}
	c, err := Parse("c.yaml", []byte(strings.Replace(base, "concurrent: 4", "concurrent: 5", 1)))
	require.NoError(t, err)
	require.NotEqual(t, first.PolicyDigest(), c.PolicyDigest())
	require.Equal(t, first.Operations[0].Declared.Digest, c.Operations[0].Declared.Digest)
}
