package gateway

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

// What the budget says to a batch, in both of its ways.
func TestSendBatch(t *testing.T) {
	yes := admission.Verdict{Action: admission.Queue, Ticket: "t"}
	no := admission.Verdict{Action: admission.Reject, Reason: admission.OverShare, RetryAfter: 1e9}
	requests := []admission.Request{{Task: "task/a/1"}, {Task: "task/a/2"}}
	t.Run("mixed", func(t *testing.T) {
		f := &fake{update: verdicts(yes, no)}
		got, err := newGateway(f).sendBatch(t.Context(), "u-1", requests)
		require.NoError(t, err)
		assert.Equal(t, []admission.Verdict{yes, no}, got)
		assert.Equal(t, client.UpdateWorkflowOptions{WorkflowID: "budget/default", UpdateID: "u-1", UpdateName: "admit",
			Args: []any{contract.AdmitRequest{Requests: requests}}, WaitForStage: client.WorkflowUpdateStageCompleted}, f.updates[0])
	})
	t.Run("all refused", func(t *testing.T) {
		f := &fake{update: refusal(no, no)}
		got, err := newGateway(f).sendBatch(t.Context(), "u-1", requests)
		require.NoError(t, err)
		assert.Equal(t, []admission.Verdict{no, no}, got)
	})
	t.Run("a refusal without verdicts", func(t *testing.T) {
		f := &fake{update: func(client.UpdateWorkflowOptions) (any, error) {
			return nil, temporal.NewNonRetryableApplicationError("refused", contract.RefusedError, nil)
		}}
		_, err := newGateway(f).sendBatch(t.Context(), "u-1", requests)
		assert.Error(t, err)
	})
	t.Run("a budget of another version", func(t *testing.T) {
		f := &fake{update: func(client.UpdateWorkflowOptions) (any, error) {
			return nil, temporal.NewNonRetryableApplicationError("unknown update admit", "", nil)
		}}
		_, err := newGateway(f).sendBatch(t.Context(), "u-1", requests)
		assert.Error(t, err)
	})
}
