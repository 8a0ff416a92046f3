package testsuite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/mutants"
)

// previous is the build before this one, made of the same source: it knows one
// logic less, so that the tasks it starts behave as the last change of Task left
// behind. Fields that came later it does not set. What older builds have really
// written is in the stored histories, which the replay test plays.
var previous = mutants.Mutant{Name: "previous", Edits: []mutants.Edit{
	{File: "contract/task.go", From: "\tLogicNewest = LogicProvenEnd", To: "\tLogicNewest = LogicProvenEnd - 1"},
	{File: "starter/version.go", From: "func buildID() string {\n", To: "func buildID() string {\n\treturn \"previous\"\n"},
}}

// TestUpgrade: what the previous build has begun in every phase, its budget
// included, ends under this one.
func TestUpgrade(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	next, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	program, err := previous.Build(ctx, root, t.TempDir())
	require.NoError(t, err)
	world, err := drill.NewWorld(ctx, t.TempDir(), drill.Binaries{Headgate: program, Server: next.Server})
	require.NoError(t, err)
	t.Cleanup(world.Close)

	play(ctx, t, world, drill.Upgrade(next.Headgate))

	// The test is about two builds, so both must have been at work.
	tasks := plain(t, world)
	builds := map[string]bool{}
	for _, key := range []string{"succeeded", "queued"} {
		story, err := world.Door.Explain(ctx, "a15", key)
		require.NoError(t, err)
		for _, e := range story.Events {
			if e.Name == "claimed" {
				builds[e.Detail] = true
			}
		}
	}
	require.Len(t, builds, 2, "%v", builds)
	require.Contains(t, builds, "build previous")
	logic := func(tenant, key string) int {
		var in contract.TaskInput
		begin := fetchHistory(ctx, t, tasks, contract.TaskID(tenant, key), "").GetEvents()[0]
		require.True(t, first(begin.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in))
		return in.Logic
	}
	require.Equal(t, contract.LogicNewest-1, logic("a15", "queued"))
	require.Equal(t, contract.LogicNewest, logic("a15-other", "new"))
}
