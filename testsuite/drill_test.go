package testsuite

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/drill"
)

// TestDrill plays every case of the drill against real processes. Public cases go
// by the name of the nearest of ours:
//
//	P05 holder dies, its slot and who held it     A4, F2 slow
//	P06, P10 a late renewal or rescue of a done one   A9, A10 answer
//	P07 dies between claim and start              A4
//	P12 time-only rescue of a call that beats     F2 slow
//	P13 two recoverers of one task                A10, F9 probe, TestChaos (two control workers)
//	P23 timed out and still running               A10 (its slots are proved free)
//	P38 committed, then a time-out                A8, A6
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
