package workflows

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// till runs a Budget whose tasks are scripted.
type till struct {
	*testsuite.TestWorkflowEnvironment
	t         *testing.T
	decisions []contract.Delivery
	deliver   func(contract.Delivery) string
	holder    func(task string) contract.AuditAnswer
	updates   int
}

func newTill(t *testing.T) *till {
	var suite testsuite.WorkflowTestSuite
	b := &till{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	b.SetTestTimeout(30 * time.Second)
	b.SetWorkflowRunTimeout(1000 * time.Hour)
	Register(b)
	b.deliver = func(contract.Delivery) string { return contract.Delivered }
	b.holder = func(string) contract.AuditAnswer { return contract.AuditAnswer{State: contract.AuditOpen} }
	b.RegisterActivityWithOptions(func(_ context.Context, in contract.Deliveries) (contract.DeliverReply, error) {
		var out contract.DeliverReply
		for _, d := range in.Items {
			b.decisions = append(b.decisions, d)
			out.Answers = append(out.Answers, b.deliver(d))
		}
		return out, nil
	}, activity.RegisterOptions{Name: contract.DeliverActivity})
	b.RegisterActivityWithOptions(func(_ context.Context, in contract.AuditRequest) (contract.AuditReply, error) {
		var out contract.AuditReply
		for _, task := range in.Tasks {
			out.Answers = append(out.Answers, b.holder(task))
		}
		return out, nil
	}, activity.RegisterOptions{Name: contract.AuditActivity})
	return b
}

func policy() admission.Policy {
	return admission.Policy{Resources: []admission.Resource{{Name: "slots", Concurrent: 2}},
		Queue: admission.QueuePolicy{Hard: 3, Soft: 3}}.Normalize()
}

func slot(n int) admission.Request {
	return admission.Request{Task: contract.TaskID("acme", fmt.Sprint(n)), Attempt: 1, Tenant: "acme", Operation: "op",
		Hash: "h", Cost: []admission.Cost{{Resource: "slots", Amount: 1}}, LeaseFor: contract.Duration(10 * time.Second)}
}

// admit sends one batch and gives its verdicts.
func (b *till) admit(then func([]admission.Verdict), requests ...admission.Request) {
	b.updates++
	b.UpdateWorkflow(contract.AdmitUpdate, fmt.Sprint(b.updates), &verdicts{b.t, then}, contract.AdmitRequest{Requests: requests})
}

type verdicts struct {
	t    *testing.T
	then func([]admission.Verdict)
}

func (v *verdicts) Accept() {}
func (v *verdicts) Reject(err error) {
	var app *temporal.ApplicationError
	require.True(v.t, errors.As(err, &app))
	require.Equal(v.t, contract.RefusedError, app.Type())
	var reply contract.AdmitReply
	require.NoError(v.t, app.Details(&reply))
	v.then(reply.Verdicts)
}
func (v *verdicts) Complete(out any, err error) {
	require.NoError(v.t, err)
	v.then(out.(contract.AdmitReply).Verdicts)
}

func (b *till) view() admission.View {
	enc, err := b.QueryWorkflow(contract.SnapshotQuery)
	require.NoError(b.t, err)
	var v admission.View
	require.NoError(b.t, enc.Get(&v))
	return v
}

// after runs steps in virtual time, ends the budget by continue-as-new, and
// checks what it carries over.
func (b *till) play(steps ...func()) admission.Snapshot {
	for i, step := range steps {
		b.RegisterDelayedCallback(step, time.Duration(i+1)*time.Second)
	}
	b.RegisterDelayedCallback(func() {
		b.SetContinueAsNewSuggested(true)
		b.SignalWorkflow(contract.ReportSignal, contract.ReportBatch{})
	}, time.Duration(len(steps)+1)*time.Second+time.Hour)
	b.ExecuteWorkflow(contract.BudgetWorkflow, contract.BudgetInput{Name: "default", Policy: policy()})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(b.t, b.GetWorkflowError(), &again)
	var in contract.BudgetInput
	require.NoError(b.t, dataConverter.FromPayloads(again.Input, &in))
	return *in.Snapshot
}

func TestBudgetGrantsQueuesAndRefuses(t *testing.T) {
	b := newTill(t)
	b.play(
		func() {
			b.admit(func(v []admission.Verdict) {
				require.Equal(t, []admission.Action{admission.Run, admission.Run, admission.Queue, admission.Queue, admission.Queue, admission.Reject},
					[]admission.Action{v[0].Action, v[1].Action, v[2].Action, v[3].Action, v[4].Action, v[5].Action})
				require.Equal(t, admission.QueueFull, v[5].Reason)
			}, slot(1), slot(2), slot(3), slot(4), slot(5), slot(6))
		},
		func() {
			b.admit(func(v []admission.Verdict) {
				require.Equal(t, admission.QueueFull, v[0].Reason, "a batch of refusals comes back with its verdicts")
				require.Equal(t, admission.QueueFull, v[1].Reason)
			}, slot(7), slot(8))
		},
		func() {
			require.Equal(t, 2, b.view().InFlight)
			b.SignalWorkflow(contract.ReportSignal, contract.ReportBatch{Reports: []admission.Report{
				{Task: slot(1).Task, Attempt: 1, Kind: admission.Released}, {Task: slot(2).Task, Attempt: 1, Kind: admission.Released}}})
		},
		func() {
			require.Len(t, b.decisions, 2)
			require.Equal(t, slot(3).Task, b.decisions[0].Task)
			require.Equal(t, slot(4).Task, b.decisions[1].Task)
			require.NotNil(t, b.decisions[0].Decision.Lease)
			for n := 3; n <= 5; n++ {
				b.SignalWorkflow(contract.ReportSignal, contract.ReportBatch{Reports: []admission.Report{{Task: slot(n).Task, Attempt: 1, Kind: admission.Released}}})
			}
		},
		func() {
			b.SignalWorkflow(contract.ReportSignal, contract.ReportBatch{Reports: []admission.Report{{Task: slot(5).Task, Attempt: 1, Kind: admission.Released}}})
		},
		func() { require.Zero(t, b.view().InFlight, "every lease comes back") },
	)
}

func TestBudgetDeliversUntilItIsHeard(t *testing.T) {
	b := newTill(t)
	tries := 0
	b.deliver = func(contract.Delivery) string {
		if tries++; tries < 4 {
			return contract.NotDelivered
		}
		return contract.Delivered
	}
	b.play(func() {
		b.SignalWorkflow(contract.RequestSignal, contract.RequestBatch{Requests: []contract.AttemptRequest{{Request: slot(1), Admit: true}}})
	})
	require.Equal(t, 4, tries)
}

func TestBudgetTakesBackWhatDeadHoldersHold(t *testing.T) {
	b := newTill(t)
	alive := true
	b.holder = func(string) contract.AuditAnswer {
		if alive {
			return contract.AuditAnswer{State: contract.AuditOpen}
		}
		return contract.AuditAnswer{State: contract.AuditClosed}
	}
	b.RegisterDelayedCallback(func() {
		require.Equal(t, 1, b.view().InFlight, "a lease is not taken back on a clock alone")
		alive = false
	}, 10*time.Minute)
	b.RegisterDelayedCallback(func() { require.Zero(t, b.view().InFlight) }, 12*time.Minute)
	b.play(func() {
		b.SignalWorkflow(contract.RequestSignal, contract.RequestBatch{Requests: []contract.AttemptRequest{{Request: slot(1)}}})
	})
}

func TestBudgetLetsATicketLapse(t *testing.T) {
	b := newTill(t)
	b.holder = func(string) contract.AuditAnswer { return contract.AuditAnswer{State: contract.AuditMissing} }
	b.RegisterDelayedCallback(func() { require.Zero(t, b.view().InFlight) }, 2*time.Minute)
	b.play(func() {
		b.admit(func(v []admission.Verdict) { require.Equal(t, admission.Run, v[0].Action) }, slot(1))
	})
}

func TestBudgetPauses(t *testing.T) {
	b := newTill(t)
	pause := func(p contract.PauseRequest) {
		b.updates++
		b.UpdateWorkflow(contract.PauseUpdate, fmt.Sprint(b.updates), &callback{reject: func(err error) { require.NoError(t, err) }}, p)
	}
	b.play(
		func() { pause(contract.PauseRequest{Tenant: "acme", Dispatch: true, Actor: "ann", Reason: "look"}) },
		func() {
			b.admit(func(v []admission.Verdict) {
				require.Equal(t, admission.Defer, v[0].Action)
				require.Equal(t, admission.TenantPaused, v[0].Reason)
			}, slot(1))
		},
		func() { require.Zero(t, b.view().InFlight) },
		func() { pause(contract.PauseRequest{Tenant: "acme", Actor: "ann"}) },
		func() { require.Equal(t, 1, b.view().InFlight) },
		func() { pause(contract.PauseRequest{Tenant: "acme", Admission: true, Actor: "ann"}) },
		func() {
			b.admit(func(v []admission.Verdict) { require.Equal(t, admission.TenantClosed, v[0].Reason) }, slot(2))
		},
	)
}

func TestBudgetCarriesItsStateOver(t *testing.T) {
	b := newTill(t)
	b.deliver = func(contract.Delivery) string { return contract.NotDelivered }
	snapshot := b.play(func() {
		var batch contract.RequestBatch
		for n := range 5 {
			batch.Requests = append(batch.Requests, contract.AttemptRequest{Request: slot(n)})
		}
		b.SignalWorkflow(contract.RequestSignal, batch)
	})
	s, err := admission.Restore(snapshot)
	require.NoError(t, err)
	v := s.View(snapshot.Now)
	require.Equal(t, 2, v.InFlight)
	require.Equal(t, 3, v.Depth)
	require.Len(t, s.Advance(snapshot.Now.Add(time.Minute)).Decisions, 2, "what was not heard is sent again")
}
