package testsuite

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/drill"
	"headgate/testsuite/mutants"
)

var which = flag.String("mutants", "naive,blind-rerun", "mutants to play, by name, or all")

// TestMutantsAreUpToDate: a mutant that can no longer be made proves nothing.
func TestMutantsAreUpToDate(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	names := map[string]bool{}
	ours := 0
	for _, m := range mutants.All() {
		require.False(t, names[m.Name], m.Name)
		names[m.Name] = true
		_, err := m.Overlay(root, t.TempDir())
		require.NoError(t, err)
		_, err = drill.Select(slices.Concat(drill.Cases(), drill.ControlCases()), true, m.Cases)
		require.NoError(t, err, m.Name)
		require.Equal(t, m.Passes, m.Shows == "", m.Name)
		if len(m.Adds) == 0 {
			ours++
		}
	}
	require.GreaterOrEqual(t, ours, 6, "mutants of Headgate itself")
}

// TestMutants plays the drill against broken builds, which must be noticed. The
// test suite plays few, beside TestDrill; `make mutants` plays all, and the same
// cases against the sound build.
func TestMutants(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	var tried []mutants.Verdict
	play := func(m mutants.Mutant, program string) {
		v, err := mutants.Try(ctx, m, program, binaries.Server, t.TempDir())
		require.NoError(t, err)
		tried = append(tried, v)
		if v.Wrong != "" {
			t.Errorf("%s: %s\n%s", m.Name, v.Wrong, v.Report)
		}
	}
	var cases []string
	for _, m := range mutants.All() {
		if *which != "all" && !slices.Contains(strings.Split(*which, ","), m.Name) {
			continue
		}
		cases = append(cases, m.Cases...)
		t.Run(m.Name, func(t *testing.T) {
			program, err := m.Build(ctx, root, t.TempDir())
			require.NoError(t, err)
			play(m, program)
		})
	}
	require.NotEmpty(t, tried, "-mutants %s names none", *which)
	if *which == "all" {
		t.Run("unchanged", func(t *testing.T) {
			slices.Sort(cases)
			play(mutants.Mutant{Name: "unchanged", Breaks: "nothing", Passes: true, Cases: slices.Compact(cases)}, binaries.Headgate)
		})
	}
	require.NoError(t, mutants.Table(os.Stdout, tried))
}
