package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"headgate/admission"
	"headgate/contract"
)

// stage runs a Task against scripted activities, in time that skips.
type stage struct {
	*testsuite.TestWorkflowEnvironment
	t        *testing.T
	reports  []admission.Report
	settled  []admission.Report
	requests []contract.AttemptRequest
	effects  []contract.EffectInput
	probes   int
	kinds    []string // of the probes
	// outcome and probe answer; the number of the call is given, from 1.
	outcome func(n int) (contract.Outcome, error)
	probe   func(n int) (contract.Evidence, error)
	// asked is called for each request; nil: a lease is granted at once.
	asked func(contract.AttemptRequest)
}

var dataConverter = converter.GetDefaultDataConverter()

func newStage(t *testing.T) *stage { return newMeasuredStage(t, client.MetricsNopHandler) }

func newMeasuredStage(t *testing.T, metrics client.MetricsHandler) *stage {
	var suite testsuite.WorkflowTestSuite
	suite.SetMetricsHandler(metrics)
	s := &stage{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	Register(s)
	s.SetTestTimeout(30 * time.Second)
	s.SetWorkflowRunTimeout(1000 * time.Hour)
	name := func(n string) activity.RegisterOptions { return activity.RegisterOptions{Name: n} }
	s.RegisterActivityWithOptions(func(_ context.Context, in contract.ReportInput) error {
		s.reports = append(s.reports, in.Report)
		return nil
	}, name(contract.ReportActivity))
	s.RegisterActivityWithOptions(func(_ context.Context, in contract.ReportInput) error {
		s.settled = append(s.settled, in.Report)
		return nil
	}, name(contract.SettleActivity))
	s.RegisterActivityWithOptions(func(_ context.Context, in contract.RequestInput) error {
		s.requests = append(s.requests, in.Request)
		if s.asked != nil {
			s.asked(in.Request)
		} else {
			s.grant(in.Request.Attempt)
		}
		return nil
	}, name(contract.RequestActivity))
	s.RegisterActivityWithOptions(func(_ context.Context, in contract.TaskInput) (contract.Resolved, error) {
		if in.Operation == "unheard" {
			return contract.Resolved{Refused: "unknown_operation: unheard"}, nil
		}
		op := operation()
		return contract.Resolved{Operation: &op, Payload: in.Payload, Hash: "sha256:1"}, nil
	}, name(contract.ResolveActivity))
	s.RegisterActivityWithOptions(func(_ context.Context, in contract.EffectInput) (contract.Outcome, error) {
		s.effects = append(s.effects, in)
		return s.outcome(len(s.effects))
	}, name(contract.EffectActivity))
	s.RegisterActivityWithOptions(func(_ context.Context, in contract.ProbeInput) (contract.Evidence, error) {
		s.probes++
		s.kinds = append(s.kinds, in.Kind)
		e, err := s.probe(s.probes)
		if in.Kind == contract.ProbeCancel && e.Kind == "" {
			e.Kind = contract.EvidenceCancel // as a worker says
		}
		return e, err
	}, name(contract.ProbeActivity))
	return s
}

func (s *stage) grant(attempt int) {
	s.SignalWorkflow(contract.DecisionSignal, contract.Decision{Attempt: attempt, Lease: &admission.Lease{ID: "l"}})
}

func operation() contract.Operation {
	return contract.Operation{Name: "charge", Type: "http", Timeout: contract.Duration(5 * time.Second), Heartbeat: contract.Duration(2 * time.Second),
		Retry:  contract.Retry{MaxAttempts: 3, Base: contract.Duration(time.Second), Max: contract.Duration(10 * time.Second), MaxAge: contract.Duration(15 * time.Minute)},
		Replay: contract.Replay{Class: contract.ReplayNever}}
}

func probe() *contract.Probe {
	return &contract.Probe{URL: "http://x", Happened: "true", DidNotHappen: "true", Settle: contract.Duration(time.Second),
		Timeout: contract.Duration(time.Second), Attempts: 3, Base: contract.Duration(time.Second), Max: contract.Duration(time.Minute)}
}

// input is a task that a gateway has admitted with a lease.
func input(op contract.Operation) contract.TaskInput {
	return contract.TaskInput{Tenant: "acme", Key: "k/1", Operation: "charge", Hash: "sha256:1", Pinned: &op,
		Ticket: &contract.Ticket{ID: "t1", StartBy: time.Now().Add(time.Hour), Lease: &admission.Lease{ID: "l1"}}}
}

// run executes the task and gives its result, whatever way it ended.
func (s *stage) run(in contract.TaskInput) contract.TaskResult {
	s.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: contract.TaskID(in.Tenant, in.Key), TaskQueue: contract.ControlQueue})
	s.ExecuteWorkflow(contract.TaskWorkflow, in)
	require.True(s.t, s.IsWorkflowCompleted())
	var res contract.TaskResult
	err := s.GetWorkflowError()
	if err == nil {
		require.NoError(s.t, s.GetWorkflowResult(&res))
		return res
	}
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	switch {
	case errors.As(err, &app):
		require.NoError(s.t, app.Details(&res), "%v", err)
	case errors.As(err, &canceled):
		require.NoError(s.t, canceled.Details(&res))
	default:
		s.t.Fatal(err)
	}
	return res
}

func succeeded() (contract.Outcome, error) {
	return contract.Outcome{Class: admission.Succeeded, Result: []byte(`{"id":1}`), Reference: "ch_1"}, nil
}

// lostAt is what the server says of an attempt whose worker has died.
func lostAt(step admission.Step, attempt int, o *contract.Outcome) error {
	if step == admission.StepNone {
		return temporal.NewHeartbeatTimeoutError()
	}
	return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil, contract.Beat{Step: step, Attempt: attempt, Outcome: o})
}
