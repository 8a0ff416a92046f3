package testsuite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

// More tasks than the queue takes are submitted from a file, by a command that is
// killed, and after it the gateway: the second run goes on, and each has one effect.
func TestBulkSubmission(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	world := newWorld(ctx, t)
	const tenant, tasks = "bulk", 40
	var text bytes.Buffer
	for i := range tasks {
		key := fmt.Sprintf("k%d", i)
		fmt.Fprintf(&text, `{"key":%q,"tenant":%q,"operation":"charge_lookup","payload":%s}`+"\n", key, tenant, charge(tenant, key))
	}
	file := filepath.Join(t.TempDir(), "tasks.jsonl")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	submit := func() (*exec.Cmd, *bytes.Buffer) {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, world.Program, "submit", "--file", file, "--gateway", world.Door.URL)
		cmd.Stdout, cmd.Stderr = &out, &out
		return cmd, &out
	}
	kept := func() int {
		text, _ := os.ReadFile(file + ".progress")
		return bytes.Count(text, []byte("\n"))
	}

	first, _ := submit()
	require.NoError(t, first.Start())
	eventually(ctx, t, "some lines are done", func() bool { return kept() >= 5 })
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	require.Less(t, kept(), tasks, "it was killed in the middle")
	restart(ctx, t, world.Gateway)

	second, out := submit()
	require.NoError(t, second.Run(), "%s", out)
	for i := range tasks {
		key := fmt.Sprintf("k%d", i)
		answer, err := world.Door.Await(ctx, tenant, key, 20*time.Second)
		require.NoError(t, err)
		require.Equal(t, contract.PhaseSucceeded, answer.Task.Phase, key)
		counts, err := world.Provider.Effects(ctx, contract.ProviderKey(tenant, key))
		require.NoError(t, err)
		require.Equal(t, 1, counts.Effects, key)
	}
}
