package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// However a doubt ends, the budget hears of it once, after the report that began it.
func TestTheBudgetHearsOfADoubtAndItsEnd(t *testing.T) {
	unknown := func(then func() (contract.Outcome, error)) func(int) (contract.Outcome, error) {
		return func(n int) (contract.Outcome, error) {
			if n == 1 {
				return contract.Outcome{Class: admission.Unknown, Reason: "no_answer"}, nil
			}
			return then()
		}
	}
	finding := func(f string) func(int) (contract.Evidence, error) {
		return func(int) (contract.Evidence, error) { return contract.Evidence{Finding: f}, nil }
	}
	failed := func() (contract.Outcome, error) {
		return contract.Outcome{Class: admission.Failed, Reason: "rejected_by_provider"}, nil
	}
	for name, row := range map[string]struct {
		replay  string
		probe   func(int) (contract.Evidence, error)
		then    func() (contract.Outcome, error)
		old     bool // pinned before there was a ceiling
		settled int
	}{
		"a look-up finds it":                      {contract.ReplayNever, finding(contract.Happened), succeeded, false, 1},
		"a look-up proves absence, then success":  {contract.ReplayNever, finding(contract.DidNotHappen), succeeded, false, 1},
		"the report of a replay's answer says it": {contract.ReplaySafe, nil, succeeded, false, 0},
		"a replay fails":                          {contract.ReplaySafe, nil, failed, false, 1},
		"an older declaration":                    {contract.ReplayNever, finding(contract.Happened), succeeded, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.outcome, s.probe = unknown(row.then), row.probe
			op := operation()
			op.Replay.Class, op.Doubts = row.replay, !row.old
			if row.probe != nil {
				op.Probe = probe()
			}
			s.run(input(op))
			require.Equal(t, !row.old, s.reports[0].Doubt)
			for _, r := range s.reports[1:] {
				require.False(t, r.Doubt)
			}
			require.Len(t, s.settled, row.settled)
			for _, r := range s.settled {
				require.Equal(t, admission.Resolved, r.Kind)
				require.Equal(t, "task/acme/k/1", r.Task)
			}
		})
	}
}
