package workflows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// line is a budget over its runs: each begins with what the one before it left,
// at the time at which that one ended.
type line struct {
	t    *testing.T
	in   contract.BudgetInput
	at   time.Time
	runs int
}

func newLine(t *testing.T, p admission.Policy) *line {
	return &line{t: t, in: contract.BudgetInput{Name: "default", Policy: p.Normalize()}, at: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}
}

// run plays one run to its end, which must be a new one.
func (l *line) run(set func(b *till)) {
	l.t.Helper()
	b := newTill(l.t)
	b.SetStartTime(l.at)
	set(b)
	b.ExecuteWorkflow(contract.BudgetWorkflow, l.in)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(l.t, b.GetWorkflowError(), &again)
	l.in = contract.BudgetInput{}
	require.NoError(l.t, dataConverter.FromPayloads(again.Input, &l.in))
	l.at = b.Now()
	l.runs++
}

// suggest has the server suggest a new run from the next workflow task on.
func (b *till) suggest() { b.SetContinueAsNewSuggested(true) }

// nudge is a workflow task without news.
func (b *till) nudge() { b.SignalWorkflow(contract.ReportSignal, contract.ReportBatch{}) }

func asks(n int) contract.RequestBatch {
	return contract.RequestBatch{Requests: []contract.AttemptRequest{{Request: slot(n), Admit: true}}}
}

func released(n int) contract.ReportBatch {
	return contract.ReportBatch{Reports: []admission.Report{{Task: slot(n).Task, Attempt: 1, Kind: admission.Released, Class: admission.Succeeded}}}
}

// TestP17SignalsWhileTheBudgetContinuesAsNew: signals come in all the time, several
// with each workflow task, also with the one that ends a run. None is lost, the
// runs do end, and no task gets two leases.
func TestP17SignalsWhileTheBudgetContinuesAsNew(t *testing.T) {
	const tasks, burst, perRun = 240, 6, 8
	l := newLine(t, admission.Policy{Resources: []admission.Resource{{Name: "slots", Concurrent: 16}}})
	number := map[string]int{}
	for n := range tasks {
		number[slot(n).Task] = n
	}
	var mu sync.Mutex // deliveries run beside the workflow
	var heard []contract.Delivery
	asked, back, leases := 0, 0, map[string]string{}
	// next is a task whose lease has been heard of since, and not returned.
	next := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		for len(heard) > 0 {
			d := heard[0]
			heard = heard[1:]
			require.NotNil(t, d.Decision.Lease, d.Decision.Reason)
			id, again := leases[d.Task]
			if again {
				require.Equal(t, id, d.Decision.Lease.ID, "%s has two leases", d.Task)
				continue
			}
			leases[d.Task] = d.Decision.Lease.ID
			return number[d.Task], true
		}
		return 0, false
	}
	for back < tasks {
		require.Less(t, l.runs, 200, "%d have asked, %d have returned their lease", asked, back)
		l.run(func(b *till) {
			b.deliver = func(d contract.Delivery) string {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, d)
				return contract.Delivered
			}
			tick := func(last bool) {
				if last {
					b.suggest()
				}
				for range burst {
					if asked < tasks {
						b.SignalWorkflowSkippingWorkflowTask(contract.RequestSignal, asks(asked))
						asked++
					}
					if n, ok := next(); ok {
						b.SignalWorkflowSkippingWorkflowTask(contract.ReportSignal, released(n))
						back++
					}
				}
				b.nudge() // here the workflow task begins
			}
			for i := 1; i <= perRun; i++ {
				b.RegisterDelayedCallback(func() { tick(i == perRun) }, time.Duration(i)*50*time.Millisecond)
			}
		})
	}
	require.Len(t, leases, tasks, "every task that asked has run")
	s, err := admission.Restore(*l.in.Snapshot)
	require.NoError(t, err)
	v := s.View(l.at)
	require.Zero(t, v.Depth)
	require.Zero(t, v.InFlight, "every lease has come back")
	require.Greater(t, l.runs, 5)
}

// TestP18TwoSignalsWithTheEndOfARun: two signals, of two kinds, and an update come
// with the very workflow task that ends the run. The next run has all of them.
func TestP18TwoSignalsWithTheEndOfARun(t *testing.T) {
	for _, first := range []string{contract.ReportSignal, contract.RequestSignal} {
		t.Run(first+" first", func(t *testing.T) {
			l := newLine(t, policy())
			var got admission.Verdict
			l.run(func(b *till) {
				b.RegisterDelayedCallback(func() { b.SignalWorkflow(contract.RequestSignal, asks(1)) }, time.Second)
				b.RegisterDelayedCallback(func() {
					require.Equal(t, 1, b.view().InFlight)
					b.suggest()
					report := func() { b.SignalWorkflowSkippingWorkflowTask(contract.ReportSignal, released(1)) }
					request := func() { b.SignalWorkflowSkippingWorkflowTask(contract.RequestSignal, asks(3)) }
					if first == contract.ReportSignal {
						report()
						request()
					} else {
						request()
						report()
					}
					b.admit(func(v []admission.Verdict) { got = v[0] }, slot(2)) // here the workflow task begins
				}, 2*time.Second)
			})
			require.True(t, got.Accepted(), "the update was answered: %+v", got)
			l.run(func(b *till) {
				b.RegisterDelayedCallback(func() {
					require.Len(t, b.decisions, 1)
					require.Equal(t, slot(3).Task, b.decisions[0].Task)
					var tasks []string
					for _, lease := range b.view().Leases {
						tasks = append(tasks, lease.Task)
					}
					require.ElementsMatch(t, []string{slot(2).Task, slot(3).Task}, tasks)
					b.suggest()
					b.nudge()
				}, time.Second)
			})
		})
	}
}

// TestP18DeliveryLostWithTheRun: the run ends while a decision is on its way, or
// after its delivery failed. The next one sends the same lease again.
func TestP18DeliveryLostWithTheRun(t *testing.T) {
	l := newLine(t, policy())
	var mu sync.Mutex // deliveries run beside the workflow
	var sent []string
	run := func(set func(b *till), deliver func(b *till) string) int {
		before := len(sent)
		l.run(func(b *till) {
			b.deliver = func(d contract.Delivery) string {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, d.Decision.Lease.ID)
				return deliver(b)
			}
			set(b)
		})
		mu.Lock()
		defer mu.Unlock()
		for _, id := range sent {
			require.Equal(t, sent[0], id)
		}
		return len(sent) - before
	}
	wait := func(b *till) { b.RegisterDelayedCallback(func() { b.suggest(); b.nudge() }, 5*time.Second) }
	always := func(answer string) func(*till) string { return func(*till) string { return answer } }

	// The run ends while the activity is at work: its answer is lost.
	require.Equal(t, 1, run(
		func(b *till) {
			b.RegisterDelayedCallback(func() { b.SignalWorkflow(contract.RequestSignal, asks(1)) }, time.Second)
		},
		func(b *till) string { b.suggest(); b.nudge(); return contract.Delivered }))
	require.Positive(t, run(wait, always(contract.NotDelivered)), "nobody knows that it was heard")
	require.Positive(t, run(wait, always(contract.Delivered)), "it was not")
	require.Zero(t, run(wait, always(contract.Delivered)), "what was heard is not sent again")
}

// TestP01HolderLookedAtInALaterRun: the lease is overdue when its run is over. The
// next run looks at the holder, keeps the lease while it lives, and only then
// takes it back.
func TestP01HolderLookedAtInALaterRun(t *testing.T) {
	l := newLine(t, policy())
	var mu sync.Mutex // audits run beside the workflow
	var looked []string
	run := func(state string, set func(b *till)) int {
		before := len(looked)
		l.run(func(b *till) {
			b.holder = func(task string) contract.AuditAnswer {
				mu.Lock()
				defer mu.Unlock()
				looked = append(looked, task)
				return contract.AuditAnswer{State: state}
			}
			set(b)
		})
		mu.Lock()
		defer mu.Unlock()
		for _, task := range looked {
			require.Equal(t, slot(1).Task, task)
		}
		return len(looked) - before
	}
	after := func(d time.Duration, leases int) func(b *till) {
		return func(b *till) {
			b.RegisterDelayedCallback(func() {
				require.Equal(t, leases, b.view().InFlight)
				b.suggest()
				b.nudge()
			}, d)
		}
	}
	require.Zero(t, run(contract.AuditOpen, func(b *till) {
		b.RegisterDelayedCallback(func() { b.SignalWorkflow(contract.RequestSignal, asks(1)) }, time.Second)
		after(5*time.Second, 1)(b) // the lease is for 10s
	}))
	l.at = l.at.Add(time.Hour) // nobody ran the budget meanwhile
	require.Positive(t, run(contract.AuditOpen, after(2*time.Minute, 1)), "a lease is not taken back on a clock")
	require.Positive(t, run(contract.AuditUnclear, after(2*time.Minute, 1)), "nor because nobody could look")
	require.Positive(t, run(contract.AuditClosed, after(2*time.Minute, 0)))
	require.Zero(t, run(contract.AuditClosed, after(2*time.Minute, 0)), "nothing is left to look at")
}

// TestP19AdmissionAskedAgain: the same request under another update ID, in the same
// run, with the end of one, and in the next: always the ticket it was given
// first, and another payload is always refused.
func TestP19AdmissionAskedAgain(t *testing.T) {
	l := newLine(t, policy())
	var verdicts []admission.Verdict
	ask := func(b *till) {
		b.admit(func(v []admission.Verdict) { verdicts = append(verdicts, v...) }, slot(1))
		other := slot(1)
		other.Hash = "other"
		b.admit(func(v []admission.Verdict) { require.Equal(t, admission.KeyReused, v[0].Reason) }, other)
	}
	for range 2 {
		l.run(func(b *till) {
			b.RegisterDelayedCallback(func() { ask(b); ask(b) }, time.Second)
			b.RegisterDelayedCallback(func() { b.suggest(); ask(b); b.nudge() }, 2*time.Second)
		})
	}
	require.GreaterOrEqual(t, len(verdicts), 4)
	for _, v := range verdicts {
		require.Equal(t, verdicts[0], v)
	}
	require.NotEmpty(t, verdicts[0].Ticket)
	require.NotNil(t, verdicts[0].Lease)
}

// TestP02ReleaseFailsAtFirst: the message that returns a slot fails, once or as long
// as anybody tries. The task comes to its end all the same, and the slot comes
// back with the message, or with the budget's look at a holder that has closed.
func TestP02ReleaseFailsAtFirst(t *testing.T) {
	const forever = 1 << 30
	for _, c := range []struct {
		path               string
		failures, messages int
	}{{"complete", 1, 1}, {"complete", 20, 1}, {"complete", forever, 1}, {"retry", 1, 2}, {"retry", 20, 2}, {"cancel", 1, 1}, {"cancel", 20, 1}} {
		t.Run(fmt.Sprintf("%s, %d failures", c.path, c.failures), func(t *testing.T) {
			s := newStage(t)
			calls := 0
			s.OnActivity(contract.ReportActivity, mock.Anything, mock.Anything).Return(func(_ context.Context, in contract.ReportInput) error {
				if calls++; calls <= c.failures {
					return errors.New("the budget is out of reach")
				}
				s.reports = append(s.reports, in.Report)
				return nil
			})
			s.outcome = func(n int) (contract.Outcome, error) {
				if c.path == "retry" && n == 1 {
					return contract.Outcome{Class: admission.NotDispatched, Reason: "connection_failed"}, nil
				}
				return succeeded()
			}
			in := input(operation())
			want := contract.PhaseSucceeded
			if c.path == "cancel" {
				in.Ticket.Lease = nil // it waits
				s.RegisterDelayedCallback(s.CancelWorkflow, time.Second)
				want = contract.PhaseCancelled
			}
			res := s.run(in)
			require.Equal(t, want, res.Phase)
			if c.failures == forever {
				require.Empty(t, s.reports)
				require.Greater(t, calls, 100, "it is tried for a day")
				return
			}
			require.Len(t, s.reports, c.messages)
			require.Equal(t, c.failures+c.messages, calls)
		})
	}
}

// TestP35WorkerClock: the worker whose effect is in doubt has a clock that is hours
// off. A provider's key window is never stretched by it.
func TestP35WorkerClock(t *testing.T) {
	for _, c := range []struct {
		name string
		off  time.Duration
		sent int
	}{{"right", 0, 2}, {"ahead", 3 * time.Hour, 2}, {"behind", -3 * time.Hour, 1}} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			start := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
			s.SetStartTime(start)
			s.outcome = func(n int) (contract.Outcome, error) {
				if n > 1 {
					return succeeded()
				}
				return contract.Outcome{}, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil, contract.Beat{
					Step: admission.StepDispatching, Attempt: 1, Dispatching: start.Add(c.off), SendBy: start.Add(c.off + time.Second)})
			}
			late, _ := succeeded()
			s.RegisterDelayedCallback(func() {
				s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: late})
			}, time.Hour)
			op := operation()
			op.Replay = contract.Replay{Class: contract.ReplayKeyed, Window: contract.Duration(time.Hour)}
			op.Retry.MaxAge = contract.Duration(24 * time.Hour)
			in := input(op)
			in.Ticket.StartBy = start.Add(time.Hour)
			res := s.run(in)
			require.Equal(t, contract.PhaseSucceeded, res.Phase)
			require.Len(t, s.effects, c.sent, "sent again only while the provider certainly knows the key")
		})
	}
	// Ahead, and reconciled so late that the window has closed on every clock but
	// the worker's: its clock may not open it again.
	s := newStage(t)
	start := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	s.SetStartTime(start)
	s.outcome = func(n int) (contract.Outcome, error) {
		return contract.Outcome{}, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil, contract.Beat{
			Step: admission.StepDispatching, Attempt: n, Dispatching: start.Add(100 * time.Hour)})
	}
	s.probe = func(int) (contract.Evidence, error) {
		return contract.Evidence{Kind: contract.EvidenceLookup, Finding: contract.Inconclusive}, nil
	}
	late, _ := succeeded()
	s.RegisterDelayedCallback(func() {
		s.SignalWorkflow(contract.EvidenceSignal, contract.LateEvidence{Attempt: 1, Outcome: late})
	}, 5*time.Hour)
	op := operation()
	op.Replay = contract.Replay{Class: contract.ReplayKeyed, Window: contract.Duration(time.Hour)}
	op.Retry.MaxAge = contract.Duration(240 * time.Hour)
	op.Probe = probe()
	op.Probe.Attempts, op.Probe.Base, op.Probe.Max = 3, contract.Duration(time.Hour), contract.Duration(time.Hour)
	in := input(op)
	in.Ticket.StartBy = start.Add(time.Hour)
	require.Equal(t, contract.PhaseSucceeded, s.run(in).Phase)
	require.Len(t, s.effects, 1)
}
