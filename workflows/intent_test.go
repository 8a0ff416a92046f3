package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"headgate/contract"
)

// An intent is kept for its window, and as long as its task may still act.
func TestIntentIsKept(t *testing.T) {
	s := newStage(t)
	var looks []time.Duration
	began := s.Now()
	answers := []string{contract.AuditOpen, contract.AuditUnclear, contract.AuditOpen, contract.AuditClosed}
	s.RegisterActivityWithOptions(func(_ context.Context, in contract.AuditRequest) (contract.AuditReply, error) {
		require.Equal(t, []string{"task/acme/k/1"}, in.Tasks)
		looks = append(looks, s.Now().Sub(began).Round(time.Minute))
		return contract.AuditReply{Answers: []contract.AuditAnswer{{State: answers[len(looks)-1]}}}, nil
	}, activity.RegisterOptions{Name: contract.AuditActivity})
	s.ExecuteWorkflow(contract.IntentWorkflow, contract.IntentInput{Tenant: "acme", Intent: "order-7", Key: "k/1", Window: contract.Duration(24 * time.Hour)})
	require.True(t, s.IsWorkflowCompleted())
	require.NoError(t, s.GetWorkflowError())
	require.Equal(t, []time.Duration{24 * time.Hour, 25 * time.Hour, 26 * time.Hour, 27 * time.Hour}, looks)
}

// A task that starts after its ticket has lapsed may find that another one has
// its intent: it sends nothing.
func TestIntentLapses(t *testing.T) {
	s := newStage(t)
	in := input(operation())
	in.Intent, in.Ticket.StartBy = "order-7", time.Now().Add(-time.Second)
	res := s.run(in)
	require.Equal(t, []any{contract.PhaseFailed, reasonIntentLapsed}, []any{res.Phase, res.Reason})
	require.Empty(t, s.effects)
	require.Len(t, s.reports, 1, "its place in the budget is free")

	s = newStage(t)
	s.outcome = func(int) (contract.Outcome, error) { return succeeded() }
	in.Ticket.StartBy = time.Now().Add(time.Hour)
	require.Equal(t, contract.PhaseSucceeded, s.run(in).Phase)
}
