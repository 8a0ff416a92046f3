package testsuite

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/chaos"
	"headgate/testsuite/drill"
)

// TestChaos is a small run; `make chaos` has the large ones.
func TestChaos(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	var progress, table strings.Builder
	report, err := chaos.Run(ctx, chaos.Options{Binaries: binaries, Seed: 1, Tasks: 60, Faults: 8, Dir: t.TempDir(), Progress: &progress})
	require.NoError(t, report.Table(&table))
	require.NoError(t, err, "%s\n%s", progress.String(), table.String())
	require.Equal(t, 60, report.Accepted)
	require.GreaterOrEqual(t, report.Delivered, 8, "%s\n%s", progress.String(), table.String())
}
