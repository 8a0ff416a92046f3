package activities

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/activities/conformance/server"
	"headgate/admission"
	"headgate/contract"
)

// An answer that comes after the task has ended is kept, once the server has it.
func TestLateEvidenceAboutATaskThatHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		outcome contract.Outcome
		finding string // empty: nothing is told
		old     bool
	}{
		"it happened":          {contract.Outcome{Class: admission.Succeeded, Reference: "ch_1"}, contract.Happened, false},
		"it was never sent":    {contract.Outcome{Class: admission.NotDispatched}, contract.DidNotHappen, false},
		"nobody knows":         {contract.Outcome{Class: admission.Unknown, Status: 500}, "", false},
		"an older declaration": {contract.Outcome{Class: admission.Succeeded}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t, ownWorld(t))
			tr.server.Signal = func(contract.LateEvidence) error { return server.ErrNotFound }
			if !c.old {
				tr.input.Operation.OnFinding = contract.OnFindingFreeze
			}
			a := tr.effects.attempt(tr.input, []byte("token"), testHeartbeat, tr.server.Now())
			a.late(t.Context(), c.outcome)
			if c.finding == "" {
				require.Empty(t, tr.server.Found)
				return
			}
			require.Equal(t, []string{"findings/" + tr.input.Operation.Name + " " + contract.EvidenceSignal}, tr.server.To)
			said := tr.server.Found[0].(contract.ClosedEvidence)
			require.Equal(t, contract.TaskID(tr.input.Tenant, tr.input.Key), said.Task)
			require.Equal(t, c.finding, said.Evidence.Finding)
			require.Equal(t, tr.input.Attempt, said.Attempt)
			require.True(t, said.Freeze)
		})
	}
}

// run is a workflow that has ended.
type run struct {
	client.WorkflowRun
	result contract.TaskResult
	err    error
}

func (r run) Get(_ context.Context, out any) error {
	if r.err == nil {
		*out.(*contract.TaskResult) = r.result
	}
	return r.err
}

func TestSettled(t *testing.T) {
	result := contract.TaskResult{Phase: contract.PhaseFailed, Attempts: 2, Reference: "ch_1"}
	for name, c := range map[string]struct {
		status enums.WorkflowExecutionStatus
		err    error // of the description
		run    run
		want   contract.Settled
		fails  bool
	}{
		"succeeded": {enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, run{result: contract.TaskResult{Phase: contract.PhaseSucceeded, Attempt: 1}}, contract.Settled{State: contract.AuditClosed, Phase: contract.PhaseSucceeded, Attempt: 1}, false},
		"failed": {enums.WORKFLOW_EXECUTION_STATUS_FAILED, nil, run{err: temporal.NewApplicationError("no", contract.FailedError, result)},
			contract.Settled{State: contract.AuditClosed, Phase: contract.PhaseFailed, Reference: "ch_1"}, false},
		"terminated":   {enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, nil, run{err: errors.New("terminated")}, contract.Settled{State: contract.AuditClosed}, false},
		"open":         {enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil, run{}, contract.Settled{State: contract.AuditOpen}, false},
		"not there":    {0, server.ErrNotFound, run{}, contract.Settled{State: contract.AuditMissing}, false},
		"out of reach": {0, serviceerror.NewUnavailable("away"), run{}, contract.Settled{}, true},
		"unreadable":   {enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, run{err: errors.New("broken")}, contract.Settled{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{run: c.run, described: func(context.Context, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
				return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: c.status}}, c.err
			}}
			got, err := newControl(d).Settled(t.Context(), contract.SettledRequest{Task: "task/acme/1"})
			require.Equal(t, c.fails, err != nil)
			require.Equal(t, c.want, got)
		})
	}
}

func TestNote(t *testing.T) {
	d := &desk{}
	note := contract.FindingNote{Operation: "charge", Findings: []contract.Finding{{Kind: contract.FindingOrphaned, Effect: "hg-1"}}}
	require.NoError(t, newControl(d).Note(t.Context(), note))
	require.Equal(t, []string{"findings/charge"}, d.ids)
	require.Equal(t, []any{note}, d.signals)
	d.signalled = func(context.Context, string, string, any) error { return serviceerror.NewUnavailable("away") }
	require.Error(t, newControl(d).Note(t.Context(), note))
}
