package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/config"
	"headgate/testsuite/drill"
)

// bareArgument makes the test program a bare worker.
const bareArgument = "bare-worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == bareArgument {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		if err := RunBare(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		stop()
		return
	}
	os.Exit(m.Run())
}

// progress shows the lines of a run as they come.
type progress struct{ *testing.T }

func (p progress) Write(text []byte) (int, error) {
	p.Log(strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// TestQuick measures everything against real processes. No speed is judged.
func TestQuick(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)

	report, err := Run(ctx, Options{Binaries: binaries, Bare: []string{self, bareArgument}, Quick: true, Dir: t.TempDir(), Progress: progress{t}})
	require.NoError(t, err)

	var text strings.Builder
	require.NoError(t, report.Table(&text))
	t.Log(text.String())
	text.Reset()
	require.NoError(t, report.JSON(&text))
	var figures map[string]struct {
		Value *float64
		Unit  string
		Pairs [][]float64
	}
	require.NoError(t, json.Unmarshal([]byte(text.String()), &figures))
	require.Len(t, figures, len(Keys()))
	mayBeZero := []string{"refusal_events", "share_error"}
	for _, key := range Keys() {
		f, ok := figures[key]
		require.True(t, ok, "%s is missing", key)
		require.NotEmpty(t, f.Unit, key)
		require.NotNil(t, f.Value, key)
		if !slices.Contains(mayBeZero, key) {
			require.Positive(t, *f.Value, key)
		}
		require.GreaterOrEqual(t, *f.Value, 0.0, key)
		require.Len(t, f.Pairs, 1, key)
		for _, pair := range f.Pairs {
			require.Len(t, pair, 2, key)
			for _, v := range pair {
				require.GreaterOrEqual(t, v, 0.0, key)
			}
		}
	}
	require.LessOrEqual(t, *figures["utilisation"].Value, 1.0)
	require.LessOrEqual(t, *figures["jain"].Value, 1.0)
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := Run(t.Context(), Options{Only: []string{"speed"}})
	require.ErrorContains(t, err, `no part "speed"`)
	_, err = Run(t.Context(), Options{Pairs: 1000})
	require.ErrorContains(t, err, "pairs is 1000: want 1 to 100")
	_, err = Run(t.Context(), Options{Flood: -1})
	require.ErrorContains(t, err, "flood is -1")
}

func TestEveryFigureBelongsToAPart(t *testing.T) {
	for _, k := range catalogue {
		require.Contains(t, Parts(), k.part, k.key)
	}
	for _, name := range Parts() {
		require.NotEmpty(t, Keys(name), name)
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(Keys()))), len(catalogue), "keys are there once")
}

func TestTheDeclarationIsValid(t *testing.T) {
	c, err := config.Parse("bench.yaml", []byte(declaration))
	require.NoError(t, err)
	for _, l := range []lane{plenty, eight, one, holdEight, holdOne} {
		_, ok := c.Operation(string(l))
		require.True(t, ok, l)
	}
	r, ok := c.Budget.Resource(string(eight))
	require.True(t, ok)
	require.Equal(t, int64(sharedSlots), r.Concurrent)
}

// A part that gave no number is no figure.
func TestAMissingFigureIsAFailure(t *testing.T) {
	var r Report
	require.ErrorContains(t, r.lacks("utilisation"), "utilisation has no value")
	r.add("utilisation", median(nil), [][2]float64{{1, 1}}, nil)
	require.ErrorContains(t, r.lacks("utilisation"), "utilisation has no value")
	r = Report{}
	r.add("utilisation", 0.5, [][2]float64{{0.5, 1}}, nil)
	require.NoError(t, r.lacks("utilisation"))
}

func TestStatistics(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
	require.Equal(t, 99.0, percentile(upTo(100), 0.99))
	require.Equal(t, 12.0, percentile(upTo(12), 0.99))
	require.Equal(t, 1.0, percentile(upTo(12), 0))
	require.Equal(t, 1.0, jainIndex([]float64{2, 2, 2, 2}))
	require.Equal(t, 0.25, jainIndex([]float64{8, 0, 0, 0}))
	require.Zero(t, shareError([]float64{10, 20, 40}, []float64{1, 2, 4}))
	require.InDelta(t, 4.0/3, shareError([]float64{1, 1, 1}, []float64{1, 2, 4}), 1e-9)
}

func upTo(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i + 1)
	}
	return values
}

// effects are spans in milliseconds since a fixed time.
func effects(tenant string, times ...int) []span {
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var all []span
	for i := 0; i < len(times); i += 2 {
		all = append(all, span{tenant: tenant, key: fmt.Sprint(times[i]), start: at(times[i]), end: at(times[i+1])})
	}
	return all
}

func TestGaps(t *testing.T) {
	all, err := gaps(effects("a", 0, 10, 15, 20, 20, 30))
	require.NoError(t, err)
	require.Equal(t, []float64{5, 0}, all)
	_, err = gaps(effects("a", 0, 10, 9, 20))
	require.ErrorContains(t, err, "two effects were under way at once in one slot")
}

func TestTheUseOfSlotsIsThatOfTheTimeInWhichAllHadWork(t *testing.T) {
	// a: 0-100, 100-200, 300-400; b: 50-150, 200-300. All have work from 50 to 200.
	spans := slices.Concat(effects("a", 0, 100, 100, 200, 300, 400), effects("b", 50, 150, 200, 300))
	w := saturated(spans)
	require.Equal(t, 150*time.Millisecond, w.length())
	require.Equal(t, map[string]time.Duration{"a": 150 * time.Millisecond, "b": 100 * time.Millisecond}, w.effectTime(spans))
	require.InDelta(t, 250.0/300, w.use(spans, 2), 1e-9)
	require.Equal(t, 2, most(spans))
	require.Equal(t, 1, most(effects("a", 0, 100, 100, 200)), "one ends as the other starts")
}

func TestTurnsMixInProportion(t *testing.T) {
	var names []string
	for _, o := range turns(batch("a", "p", eight, 2, 1), batch("b", "p", eight, 4, 2)) {
		names = append(names, o.tenant)
	}
	require.Equal(t, "b a b b a b", strings.Join(names, " "))
}

func TestTheTableHasALineForEachFigure(t *testing.T) {
	r := Report{Seconds: 61, Failures: []string{"growth: no"}}
	r.add("handoff_ratio", 1.25, [][2]float64{{50, 40}, {52.5, 40}}, map[string]float64{"extra": 0.5})
	var out strings.Builder
	require.NoError(t, r.Table(&out))
	for _, line := range []string{"handoff_ratio  1.25", "50:40 52.5:40", "handoff_ratio: extra 0.500", "not measured: growth: no", "1 figures in 1m1s"} {
		require.Contains(t, out.String(), line)
	}
}
