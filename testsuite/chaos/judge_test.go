package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// A judge that finds nothing where there is something is worse than none.
func TestTheJudge(t *testing.T) {
	seen := func(phase contract.Phase, effects int) *task {
		view := contract.TaskView{Task: "task/north/k1", Phase: phase}
		return &task{Task: Task{Tenant: "north", Key: "k1", Operation: "charge"}, accepted: true, view: view,
			counts: provider.Counts{Effects: effects}, entries: effectsOf(effects),
			story: contract.Explanation{Task: view, Sentence: "it ended", Events: make([]contract.Event, 2)}}
	}
	for name, c := range map[string]struct {
		change func(*task)
		phase  contract.Phase
		n      int
		want   []string
	}{
		"as it must be":       {phase: contract.PhaseSucceeded, n: 1},
		"twice":               {phase: contract.PhaseSucceeded, n: 2, want: []string{"duplicate"}},
		"success of nothing":  {phase: contract.PhaseSucceeded, want: []string{"wrongly succeeded"}},
		"failure hides one":   {phase: contract.PhaseFailed, n: 1, want: []string{"wrongly failed"}},
		"expired hides one":   {phase: contract.PhaseExpired, n: 1, want: []string{"wrongly failed"}},
		"failed for nothing":  {phase: contract.PhaseFailed, want: []string{"failed without cause"}},
		"refused by provider": {phase: contract.PhaseFailed, change: func(t *task) { t.Refused, t.view.ErrorClass = true, "rejected_by_provider" }},
		"lost":                {change: func(t *task) { t.view = contract.TaskView{} }, want: []string{"lost"}},
		"not explained":       {phase: contract.PhaseSucceeded, n: 1, change: func(t *task) { t.story.Sentence = "" }, want: []string{"unexplained"}},
		"two payloads": {phase: contract.PhaseSucceeded, n: 1, want: []string{"payload"}, change: func(t *task) {
			t.entries = append(t.entries, provider.Entry{PayloadHash: "a"}, provider.Entry{PayloadHash: "b"})
		}},
		"counts that differ": {phase: contract.PhaseSucceeded, n: 1, want: []string{"invalid"}, change: func(t *task) { t.entries = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			one := seen(c.phase, c.n)
			if c.change != nil {
				c.change(one)
			}
			var r Report
			r.truth(one)
			var kinds []string
			for _, v := range r.Violations {
				kinds = append(kinds, v.Kind)
			}
			require.Equal(t, c.want, kinds)
		})
	}
}

func effectsOf(n int) (entries []provider.Entry) {
	for range n {
		entries = append(entries, provider.Entry{Event: provider.EventEffect, On: provider.OnCharge, Key: contract.ProviderKey("north", "k1")})
	}
	return entries
}

func TestClassification(t *testing.T) {
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	story := func(lost, concluded float64) *run {
		one := &task{Task: Task{Tenant: "north", Key: "k1"}, story: contract.Explanation{Events: []contract.Event{
			{Name: "scheduled", Attempt: 1, At: at(0)},
			{Name: "lost", Attempt: 1, At: at(lost), Actor: "http@host:17"},
			{Name: "lease_returned", At: at(concluded)},
		}}}
		w := &run{tasks: []*task{one}, deaths: []death{{pid: 7, at: at(0)}, {pid: 17, at: at(1)}}}
		return w
	}
	quick := story(2.9, 3)
	var r Report
	r.classifiedIn(quick, func(time.Time, time.Time) bool { return false })
	require.Equal(t, Classified{Attempts: 1, Median: 2, Max: 2, Noticed: 1.9, Concluded: 0.1}, r.Classified)
	require.Empty(t, r.Violations)

	r = Report{}
	r.classifiedIn(story(6, 6.1), func(time.Time, time.Time) bool { return false })
	require.Len(t, r.Violations, 1)
	require.Equal(t, "late classification", r.Violations[0].Kind)

	r = Report{}
	r.classifiedIn(story(6, 6.1), func(from, to time.Time) bool { return from.Equal(at(1)) && to.Equal(at(5)) })
	require.Equal(t, Classified{Disturbed: 1}, r.Classified)
}

func TestTheReportIsRead(t *testing.T) {
	r := Report{Seed: 3, Tasks: 2, Accepted: 2, Ends: []Count{{"succeeded", 2}}, Undelivered: []string{"charge after on k"}, Delivered: 1}
	r.violate("lost", "north/k1 was accepted and is not there")
	var out strings.Builder
	require.NoError(t, r.Table(&out))
	for _, line := range []string{"seed 3: 2 of 2 tasks accepted", "ends:  succeeded 2", "not met: charge after on k", "VIOLATION, lost: north/k1", "1 violations"} {
		require.Contains(t, out.String(), line)
	}
}
