package drill

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/config"
	"headgate/contract"
)

func TestTheShortDrillIsWhatIsRequired(t *testing.T) {
	short, err := Select(Cases(), false, nil)
	require.NoError(t, err)
	var names []string
	for _, c := range short {
		names = append(names, c.Name())
	}
	require.Equal(t, []string{"A4", "A5 happened", "A5 did not", "A6 happened", "A6 did not", "A9 beat", "A9 completion", "A8", "A12", "A14", "A17"}, names)

	one, err := Select(Cases(), false, []string{"a5", "A2"})
	require.NoError(t, err)
	require.Len(t, one, 4)
	_, err = Select(Cases(), true, []string{"A99"})
	require.ErrorContains(t, err, `no case is called "A99"`)
}

func TestCasesAreWellFormed(t *testing.T) {
	tenants := map[string]bool{}
	for _, c := range Cases() {
		require.NoError(t, contract.CheckName("tenant", c.tenant()))
		require.False(t, tenants[c.tenant()], "two cases share the tenant %s", c.tenant())
		tenants[c.tenant()] = true
		require.NotEmpty(t, c.Title)
		require.NotEmpty(t, c.Ends)
		for _, end := range c.Ends {
			require.NotEmpty(t, end.Keys, c.Name())
			require.Equal(t, end.Phase == contract.PhaseSucceeded || end.Phase == contract.PhaseUnknown, end.Effects == 1, c.Name())
		}
	}
}

func TestTheDeclarationIsValid(t *testing.T) {
	c, err := config.Parse("drill.yaml", []byte(declaration))
	require.NoError(t, err)
	require.Equal(t, int64(capacity), c.Budget.Resources[0].Concurrent)
	require.Equal(t, [...]int{soft, hard, reserve}, [...]int{c.Budget.Queue.Soft, c.Budget.Queue.Hard, c.Budget.Queue.CriticalReserve})
}

func TestTheTableSaysWhatDiffers(t *testing.T) {
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	report := Report{Failed: 1, Passed: 1, Seconds: 3.2, Results: []Result{
		{Case: "A4", Passed: true, Rows: []Row{{Task: "a4/k", Tasks: 1, Delivery: "ACCEPTED", Execution: "SUCCEEDED", Attempts: 2, Effects: 1,
			Retries: []contract.Count{{Class: "worker_lost", N: 1}},
			Events:  []contract.Event{{Name: "accepted", At: began}, {Name: "claimed", At: began.Add(4200 * time.Millisecond), Attempt: 2}}}}},
		{Case: "A8", Leases: 1, Error: "all leases are back: no", Rows: []Row{{Task: "a8/k", Delivery: "ACCEPTED", Execution: "UNKNOWN", Differs: []string{"it is unknown"}}}},
	}}
	var out strings.Builder
	require.NoError(t, report.Table(&out))
	for _, line := range []string{"worker_lost:1", "accepted 0.0 > claimed#2 4.2", "DIFFERS", "A8, a8/k: it is unknown", "A8: all leases are back: no", "1 of 2 cases ended as they must, in 3s"} {
		require.Contains(t, out.String(), line)
	}
}

func TestPhasesAreSeenInOrder(t *testing.T) {
	steps := []Step{{Phase: contract.PhaseLeased}, {Phase: contract.PhaseUnknown}, {Phase: contract.PhaseSucceeded}}
	require.True(t, through(steps, []contract.Phase{contract.PhaseUnknown, contract.PhaseSucceeded}))
	require.False(t, through(steps, []contract.Phase{contract.PhaseSucceeded, contract.PhaseUnknown}))
	require.False(t, through(steps, []contract.Phase{contract.PhaseReconciling}))
}

func TestAPhaseThatGoesBackIsNoted(t *testing.T) {
	step := func(phase contract.Phase, attempts int) Step { return Step{Phase: phase, Attempts: attempts} }
	require.Empty(t, backwards([]Step{step(contract.PhaseAccepted, 0), step(contract.PhaseDispatched, 1), step(contract.PhaseReconciling, 1),
		step(contract.PhaseAccepted, 1), step(contract.PhaseLeased, 2), step(contract.PhaseSucceeded, 2)}, 2))
	require.Equal(t, []string{"shown leased after dispatched, 0.0s into the case"},
		backwards([]Step{step(contract.PhaseDispatched, 1), step(contract.PhaseLeased, 1), step(contract.PhaseSucceeded, 1)}, 1))
}

func TestAProcessIsKilledPausedAndStartedAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &Process{Name: "ticker", program: "/bin/sh", log: filepath.Join(t.TempDir(), "log"),
		args: []string{"-c", "echo ready; while :; do sleep 0.02; echo tick; done"}}
	p.ready = saying(p, "ready")
	t.Cleanup(p.Kill)
	for range 2 {
		require.NoError(t, p.Start(ctx))
		require.NoError(t, until(ctx, "it ticks", func(context.Context) (bool, error) { return strings.Contains(p.Tail(1), "tick"), nil }))
		require.NoError(t, p.Lost())
		require.NoError(t, p.Pause(ctx))
		still, err := standsStill(p.run.pid)
		require.NoError(t, err)
		require.True(t, still)
		before := p.Tail(1000)
		require.NoError(t, p.Continue())
		require.NoError(t, until(ctx, "it goes on", func(context.Context) (bool, error) { return p.Tail(1000) != before, nil }))
		p.Kill()
		require.False(t, p.running())
		require.NoError(t, p.Lost(), "killed by us is not lost")
	}
	p.args = []string{"-c", "echo broken; exit 3"}
	err := p.Start(ctx)
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, p.Lost(), "ended by itself")
	require.Equal(t, "broken", p.Tail(1))
}
