package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// ledger runs the findings of one operation.
type ledger struct {
	*testsuite.TestWorkflowEnvironment
	t       *testing.T
	freezes []contract.FreezeRequest
	frozen  func() error // what the budget answers
	settled func(task string) (contract.Settled, error)
}

func newLedger(t *testing.T) *ledger {
	var suite testsuite.WorkflowTestSuite
	l := &ledger{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t, frozen: func() error { return nil }}
	l.SetTestTimeout(30 * time.Second)
	l.SetWorkflowRunTimeout(1000 * time.Hour)
	Register(l)
	l.OnSignalExternalWorkflow(mock.Anything, "budget/default", "", contract.FreezeSignal, mock.Anything).Return(
		func(_, _, _, _ string, arg any) error {
			if err := l.frozen(); err != nil {
				return err
			}
			l.freezes = append(l.freezes, arg.(contract.FreezeRequest))
			return nil
		})
	l.RegisterActivityWithOptions(func(_ context.Context, in contract.SettledRequest) (contract.Settled, error) {
		return l.settled(in.Task)
	}, activity.RegisterOptions{Name: contract.SettledActivity})
	return l
}

// play runs the steps, one a minute, and gives what is carried over.
func (l *ledger) play(steps ...func()) contract.FindingsInput {
	for i, step := range steps {
		l.RegisterDelayedCallback(step, time.Duration(i+1)*time.Minute)
	}
	l.RegisterDelayedCallback(func() {
		l.SetContinueAsNewSuggested(true)
		l.SignalWorkflow(contract.NoteSignal, contract.FindingNote{})
	}, time.Duration(len(steps)+1)*time.Minute)
	l.ExecuteWorkflow(contract.FindingsWorkflow, contract.FindingsInput{Operation: "charge"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(l.t, l.GetWorkflowError(), &again)
	var in contract.FindingsInput
	require.NoError(l.t, dataConverter.FromPayloads(again.Input, &in))
	return in
}

func (l *ledger) note(freeze bool, found ...contract.Finding) {
	l.SignalWorkflow(contract.NoteSignal, contract.FindingNote{Operation: "charge", Freeze: freeze, Findings: found})
}

// A finding stays, is told once, keeps the highest count, and freezes once.
func TestFindingsAreSticky(t *testing.T) {
	l := newLedger(t)
	orphan := func(key string) contract.Finding {
		return contract.Finding{Kind: contract.FindingOrphaned, Effect: key}
	}
	twice := contract.Finding{Kind: contract.FindingDuplicate, Task: "task/acme/1", Count: 3}
	down := 2
	l.frozen = func() error {
		if down--; down >= 0 {
			return errors.New("no budget")
		}
		return nil
	}
	in := l.play(
		func() { l.note(false, orphan("hg-1"), orphan("hg-2"), orphan("hg-1")) },
		func() { l.note(true, twice) },
		func() { // a person has unfrozen it meanwhile; a lesser look takes nothing back
			lesser := twice
			lesser.Count = 1
			l.note(true, lesser, orphan("hg-1"))
		},
	)
	require.Len(t, in.Findings, 3)
	require.Equal(t, 3, in.Findings[2].Count)
	require.False(t, in.Findings[0].At.IsZero())
	require.Empty(t, in.Freezes)
	require.Equal(t, []contract.FreezeRequest{{Operation: "charge", Frozen: true, Actor: "findings/charge", Reason: "duplicate: task/acme/1"}}, l.freezes)
}

// Evidence about a task that has ended is kept until its end could be read.
func TestEvidenceIsHeldAgainstTheEnd(t *testing.T) {
	l := newLedger(t)
	reads := 0
	l.settled = func(task string) (contract.Settled, error) {
		switch task {
		case "task/acme/failed":
			if reads++; reads < 5 {
				return contract.Settled{}, errors.New("out of reach")
			}
			return contract.Settled{State: contract.AuditClosed, Phase: contract.PhaseFailed}, nil
		case "task/acme/fine":
			return contract.Settled{State: contract.AuditClosed, Phase: contract.PhaseSucceeded, Attempt: 1}, nil
		}
		return contract.Settled{State: contract.AuditMissing}, nil
	}
	said := func(task string) contract.ClosedEvidence {
		return contract.ClosedEvidence{Task: task, Attempt: 1, Replay: contract.ReplayNever, Freeze: true,
			Evidence: contract.Evidence{Kind: contract.EvidenceLate, Finding: contract.Happened, Reference: "ch_1", Actor: "http@here:1"}}
	}
	in := l.play(
		func() { l.SignalWorkflow(contract.EvidenceSignal, said("task/acme/failed")) },
		func() {
			l.SignalWorkflow(contract.EvidenceSignal, said("task/acme/fine"))
			l.SignalWorkflow(contract.EvidenceSignal, said("task/acme/deleted"))
		},
	)
	require.Empty(t, in.Pending)
	require.Len(t, in.Findings, 2)
	require.Equal(t, contract.FindingContradicted, in.Findings[0].Kind)
	require.Equal(t, "task/acme/failed", in.Findings[0].Task)
	require.Contains(t, in.Findings[0].Detail, "the task is failed, and a late says happened")
	require.Equal(t, contract.FindingOrphaned, in.Findings[1].Kind)
	require.Len(t, l.freezes, 2)
}

// What a task learns against itself it tells before it closes.
func TestTaskTellsFindings(t *testing.T) {
	late := func(s *stage, attempt int, class admission.Class) {
		s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: attempt, Outcome: contract.Outcome{Class: class, Reference: "ch_9"}})
	}
	op := operation()
	op.OnFinding = contract.OnFindingFreeze
	op.Probe = probe()
	unknown := contract.Outcome{Class: admission.Unknown, Reason: "no_answer"}
	absent := func(int) (contract.Evidence, error) { return contract.Evidence{Finding: contract.DidNotHappen}, nil }
	for name, row := range map[string]struct {
		outcome func(s *stage, n int) (contract.Outcome, error)
		probe   func(int) (contract.Evidence, error)
		phase   contract.Phase
		kinds   []string
	}{
		"a look-up shows two": {
			func(*stage, int) (contract.Outcome, error) { return unknown, nil },
			func(int) (contract.Evidence, error) {
				return contract.Evidence{Finding: contract.Happened, Count: 2}, nil
			},
			contract.PhaseSucceeded, []string{contract.FindingDuplicate}},
		"its absence was proven, and then it was answered": {
			func(s *stage, n int) (contract.Outcome, error) {
				if n == 1 {
					return unknown, nil
				}
				late(s, 1, admission.Succeeded)
				return contract.Outcome{Class: admission.NotDispatched, Reason: "connection_failed"}, nil
			}, absent, contract.PhaseSucceeded, []string{contract.FindingContradicted}},
		"both attempts were answered": {
			func(s *stage, n int) (contract.Outcome, error) {
				if n == 1 {
					return unknown, nil
				}
				late(s, 1, admission.Succeeded)
				return succeeded()
			}, absent, contract.PhaseSucceeded, []string{contract.FindingDuplicate}},
		"an answer comes while the task would fail": {
			func(s *stage, n int) (contract.Outcome, error) {
				late(s, 1, admission.Succeeded)
				return contract.Outcome{Class: admission.Failed, Reason: "rejected_by_provider"}, nil
			}, absent, contract.PhaseSucceeded, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			var notes []contract.FindingNote
			s.RegisterActivityWithOptions(func(_ context.Context, in contract.FindingNote) error {
				notes = append(notes, in)
				return nil
			}, activity.RegisterOptions{Name: contract.NoteActivity})
			s.outcome = func(n int) (contract.Outcome, error) { return row.outcome(s, n) }
			s.probe = row.probe
			res := s.run(input(op))
			require.Equal(t, row.phase, res.Phase, "%+v", res)
			var kinds []string
			for _, n := range notes {
				require.True(t, n.Freeze)
				for _, f := range n.Findings {
					require.Equal(t, "task/acme/k/1", f.Task)
					kinds = append(kinds, f.Kind)
				}
			}
			require.Equal(t, row.kinds, kinds)
		})
	}
}
