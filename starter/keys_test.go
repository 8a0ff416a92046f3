package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/client"
	"headgate/config"
)

func TestKeysNew(t *testing.T) {
	got := command("", "keys", "new", "mara", "--tenant", "acme", "--role", "view,operate", "--json")
	require.Equal(t, exitDone, got.status, got.errors)
	var made struct{ Key, Entry string }
	require.NoError(t, json.Unmarshal([]byte(got.out), &made))
	keys, err := config.ParseKeys("keys", []byte(made.Entry))
	require.NoError(t, err)
	k, ok := keys.Find(made.Key)
	require.True(t, ok)
	assert.Equal(t, []string{"mara", "acme"}, []string{k.Name, k.Tenant})

	got = command("", "keys", "new", "mara", "--tenant", "*", "--role", "operate")
	assert.Regexp(t, `(?s)\nhgk_[\w-]{43}\n.*\nmara sha256:[0-9a-f]{64} \* operate\n`, got.out)
	for _, args := range [][]string{{"mara"}, {"mara", "--tenant", "acme"}, {"mara", "--tenant", "a/b", "--role", "view"},
		{"mara", "--tenant", "acme", "--role", "admin"}, {"ma ra", "--tenant", "acme", "--role", "view"}} {
		got := command("", append([]string{"keys", "new"}, args...)...)
		assert.Equal(t, exitUsage, got.status, args)
		assert.Empty(t, got.out)
	}
}

// The key comes from the variable or from a file, never from an argument.
func TestKeyIsSent(t *testing.T) {
	g := newCannedGateway(t, map[string][]canned{taskRoute: {{200, task("succeeded")}}})
	sent := func(args ...string) string {
		got := command("", append([]string{"status", "acme", "inv/42"}, args...)...)
		require.Equal(t, exitDone, got.status, got.errors)
		return g.requests[len(g.requests)-1].header.Get("Authorization")
	}
	assert.Empty(t, sent())
	t.Setenv("HEADGATE_API_KEY", "hgk_a")
	assert.Equal(t, "Bearer hgk_a", sent())
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("hgk_b\n"), 0o600))
	assert.Equal(t, "Bearer hgk_b", sent("--api-key-file", file))
	assert.Equal(t, exitUsage, command("", "status", "acme", "inv/42", "--api-key-file", file+"x").status)
}

func TestOnlyHere(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "::1": true, "127.9.9.9": true, "0.0.0.0": false, "::": false, "10.0.0.1": false} {
		assert.Equal(t, want, onlyHere(&net.TCPAddr{IP: net.ParseIP(address)}), address)
	}
}

// A key is one segment of the path, whatever it holds.
func TestTaskPath(t *testing.T) {
	for key, segment := range map[string]string{"inv-42": "inv-42", "a/b": "a%2Fb", "..": "%2E%2E", ".": "%2E", "a b": "a%20b", "100%": "100%25",
		"q?x=1#y": "q%3Fx=1%23y", `"`: "%22"} {
		assert.Equal(t, "/v1/tasks/acme/"+segment, client.TaskPath("acme", key))
	}
}
