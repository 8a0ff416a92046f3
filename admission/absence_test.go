package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each row is one reason why nothing found is not nothing there, and the one way
// in which it is.
func TestAbsent(t *testing.T) {
	sent := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	fenced := sent.Add(10 * time.Second)
	after := func(seconds ...int) (at []time.Time) {
		for _, s := range seconds {
			at = append(at, sent.Add(time.Duration(s)*time.Second))
		}
		return at
	}
	good := Reads{Covers: true, Consistent: true, LagKnown: true, Lag: Duration(2 * time.Second)}
	for name, c := range map[string]struct {
		change func(r *Reads)
		misses []time.Time
		want   Doubt
	}{
		"coverage, lag passed, two reads":          {nil, after(12, 13), NoDoubt},
		"more reads than needed":                   {nil, after(12, 13, 14), NoDoubt},
		"nothing was read":                         {nil, nil, OneRead},
		"one read":                                 {nil, after(13), OneRead},
		"inside the lag":                           {nil, after(10, 11), InsideLag},
		"one of two inside the lag":                {nil, after(11, 12), InsideLag},
		"the early one does not harm":              {nil, after(11, 12, 13), NoDoubt},
		"before the fence, though the lag is none": {func(r *Reads) { r.Lag = 0 }, after(8, 9), InsideLag},
		"no lag, after the fence":                  {func(r *Reads) { r.Lag = 0 }, after(10, 11), NoDoubt},
		"not covered":                              {func(r *Reads) { r.Covers = false }, after(12, 13), NotCovered},
		"reads that do not agree":                  {func(r *Reads) { r.Consistent = false }, after(12, 13), InconsistentReads},
		"unknown lag":                              {func(r *Reads) { r.LagKnown = false }, after(12, 13, 4000, 90000), LagUnknown},
		"kept long enough":                         {func(r *Reads) { r.Keeps = Duration(14 * time.Second) }, after(12, 13), NoDoubt},
		"deleted by now":                           {func(r *Reads) { r.Keeps = Duration(13 * time.Second) }, after(12, 13), Forgotten},
		"nothing is declared":                      {func(r *Reads) { *r = Reads{} }, after(12, 13, 14), NotCovered},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			if c.change != nil {
				c.change(&r)
			}
			require.Equal(t, c.want, Absent(r, sent, fenced, c.misses))
		})
	}
}
