package testsuite

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/drill"
)

// TestDrill plays every case of the drill against real processes.
func TestDrill(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	world, err := drill.NewWorld(ctx, t.TempDir(), binaries)
	require.NoError(t, err)
	t.Cleanup(world.Close)
	for _, c := range drill.Cases() {
		t.Run(c.Name(), func(t *testing.T) {
			result := world.Play(ctx, c)
			if !result.Passed {
				var table strings.Builder
				require.NoError(t, drill.Report{Results: []drill.Result{result}, Failed: 1, Seconds: result.Seconds}.Table(&table))
				t.Errorf("%s\n%s\n%s", c.Title, table.String(), result.Logs)
			}
		})
	}
}
