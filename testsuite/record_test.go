package testsuite

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"headgate/contract"
	"headgate/testsuite/drill"
)

var record = flag.Bool("record", false, "play and store the histories that are not there yet")

// recording is a history that is stored.
type recording struct {
	name     string   // below the folder
	workflow string   // ID; of a budget, the first run that shows what it must
	shows    []string // marks, see shows
}

// scene is a case whose workflows are recorded.
type scene struct {
	drill.Case
	records []recording
}

// budgetRuns are recorded of the one budget that all scenes share, whose server
// suggests to continue as new early.
var budgetRuns = []recording{
	{"budget/first-run", contract.BudgetID(contract.DefaultBudget),
		[]string{markFirst, "configure", "admit", "report", "request", markNew}},
	{"budget/pause-and-resume", contract.BudgetID(contract.DefaultBudget), // resume is a pause of nothing
		[]string{markContinued, "pause", "admit", "pause", "deliver", markNew}},
	{"budget/frozen", contract.BudgetID(contract.DefaultBudget), // an end of a freeze is a freeze too
		[]string{markContinued, "freeze", "stop-attempts", "freeze", markNew}},
	{"budget/handed-on", contract.BudgetID(contract.DefaultBudget),
		[]string{markContinued, "deliver", "admit", "report", markNew}},
	{"budget/holders-inspected", contract.BudgetID(contract.DefaultBudget),
		[]string{markContinued, "admit", "audit", markNew}},
	{"budget/open", contract.BudgetID(contract.DefaultBudget),
		[]string{markContinued, "admit", "report", markOpen}},
}

// TestRecordHistories holds the stored histories against the list of what is to
// be stored, and what each of them shows. With -record it first plays the scenes
// of those that are not there in a real world. It never replaces one: somebody's
// task may have it, as long as it was made by a version that was released.
func TestRecordHistories(t *testing.T) {
	all := slices.Clone(budgetRuns)
	for _, s := range scenes(t) {
		all = append(all, s.records...)
	}
	if *record && slices.ContainsFunc(all, recording.missing) {
		recordMissing(t)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.name)
	}
	slices.Sort(names)
	require.Equal(t, names, storedHistories(t), "`make record` stores what is missing; what is not on the list has to be deleted")
	for _, r := range all {
		h := loadHistory(t, r.name)
		require.True(t, shows(h, r.shows), "%s must show %q, but shows %q", r.name, r.shows, marks(h))
		for _, e := range h.GetEvents() {
			// What storeHistory has made of worker@machine:process.
			who := e.GetWorkflowTaskStartedEventAttributes().GetIdentity() + e.GetActivityTaskStartedEventAttributes().GetIdentity()
			require.Regexp(t, `^(.*@host:.*)?$`, who, "%s names a machine", r.name)
		}
	}
}

func (r recording) missing() bool {
	_, err := os.Stat(historyFile(r.name))
	return err != nil
}

func recordMissing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	t.Setenv("PSP_WEBHOOK_SECRET", callbackSecret)
	world := newWorld(ctx, t, "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=80")
	declare(ctx, t, world, recordedTenants, recordedOperations+askedOperations+evidenceOperations)
	c := plain(t, world)
	// Runs of the budget come from all scenes together.
	every := slices.ContainsFunc(budgetRuns, recording.missing)
	for _, s := range scenes(t) {
		if !every && !slices.ContainsFunc(s.records, recording.missing) {
			continue
		}
		began := time.Now()
		play(ctx, t, world, s.Case)
		require.False(t, t.Failed(), "scene %s", s.Name())
		for _, r := range s.records {
			if r.missing() {
				storeHistory(t, r.name, fetchHistory(ctx, t, c, r.workflow, ""))
			}
		}
		t.Logf("%-12s %4.1fs", s.Name(), time.Since(began).Seconds())
	}
	if !every {
		return
	}
	runs := budgetHistories(ctx, t, c)
	for _, r := range budgetRuns {
		i := slices.IndexFunc(runs, func(h *history.History) bool { return shows(h, r.shows) })
		if i < 0 {
			for _, h := range runs {
				t.Log(strings.Join(marks(h), " "))
			}
		}
		require.GreaterOrEqual(t, i, 0, "no run shows what %s must", r.name)
		if r.missing() {
			storeHistory(t, r.name, runs[i])
		}
		runs = slices.Delete(runs, i, i+1) // each run once
	}
}

// budgetHistories reads all runs of the budget, oldest first.
func budgetHistories(ctx context.Context, t *testing.T, c client.Client) []*history.History {
	t.Helper()
	id := contract.BudgetID(contract.DefaultBudget)
	var runs []*history.History
	for run := ""; ; {
		h := fetchHistory(ctx, t, c, id, run)
		runs = append(runs, h)
		run = h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		if run == "" {
			slices.Reverse(runs)
			return runs
		}
	}
}

// borrowed is one of the drill's own cases.
func borrowed(t *testing.T, name string, records ...recording) scene {
	t.Helper()
	found, err := drill.Select(drill.Cases(), true, []string{name})
	require.NoError(t, err)
	require.Len(t, found, 1, name)
	return scene{found[0], records}
}
