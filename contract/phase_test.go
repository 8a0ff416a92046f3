package contract_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

func TestPhases(t *testing.T) {
	type row struct {
		phase               contract.Phase
		delivery, execution string
		end                 bool
		next                string
	}
	rows := []row{
		{contract.PhaseAccepted, contract.DeliveryAccepted, contract.ExecutionPending, false, contract.NextWait},
		{contract.PhaseLeased, contract.DeliveryAccepted, contract.ExecutionRunning, false, contract.NextWait},
		{contract.PhaseClaimed, contract.DeliveryAccepted, contract.ExecutionRunning, false, contract.NextWait},
		{contract.PhaseDispatched, contract.DeliveryAccepted, contract.ExecutionRunning, false, contract.NextWait},
		{contract.PhaseReconciling, contract.DeliveryAccepted, contract.ExecutionRunning, false, contract.NextWait},
		{contract.PhaseSucceeded, contract.DeliveryAccepted, contract.ExecutionSucceeded, true, contract.NextUseResult},
		{contract.PhaseFailed, contract.DeliveryAccepted, contract.ExecutionFailed, true, contract.NextDoNotRetry},
		{contract.PhaseExpired, contract.DeliveryExpired, contract.ExecutionPending, true, contract.NextDoNotRetry},
		{contract.PhaseUnknown, contract.DeliveryAccepted, contract.ExecutionUnknown, true, contract.NextAskHuman},
		{contract.PhaseCancelled, contract.DeliveryAccepted, contract.ExecutionCancelled, true, contract.NextDoNotRetry},
		{contract.PhaseRejected, contract.DeliveryRejected, contract.ExecutionPending, true, contract.NextRetryLater},
	}
	var phases []contract.Phase
	for _, want := range rows {
		got := row{phase: want.phase, end: want.phase.End(), next: contract.NextAction(want.phase)}
		got.delivery, got.execution = want.phase.States()
		require.Equal(t, want, got)
		phases = append(phases, want.phase)
	}
	require.Equal(t, contract.Phases(), phases)
}

// What a budget is asked is what the task was asked, without the payload.
func TestAdmissionRequest(t *testing.T) {
	deadline, own, later := time.Unix(1000, 0).UTC(), time.Unix(10, 0).UTC(), time.Unix(20, 0).UTC()
	in := contract.TaskInput{Tenant: "acme", Key: "inv/42", Agent: "billing-1", Operation: "charge", Priority: admission.High,
		Deadline: &deadline, NotBefore: &own, Payload: []byte(`{"secret":1}`)}
	op := contract.Operation{Cost: []admission.Cost{{Resource: "calls", Amount: 3}}, Timeout: contract.Duration(30 * time.Second),
		Heartbeat: contract.Duration(10 * time.Second)}
	want := admission.Request{Task: "task/acme/inv/42", Attempt: 2, Tenant: "acme", Agent: "billing-1", Operation: "charge",
		Priority: admission.High, Hash: "sha256:1", Cost: op.Cost, Deadline: &deadline, NotBefore: &later,
		LeaseFor: contract.Duration(60 * time.Second)}
	require.Equal(t, want, in.AdmissionRequest(op, "sha256:1", 2, &later))
	want.NotBefore = &own
	require.Equal(t, want, in.AdmissionRequest(op, "sha256:1", 2, nil))

	require.Equal(t, contract.DefaultBudget, in.BudgetName())
	in.Budget = "other"
	require.Equal(t, "other", in.BudgetName())
	require.Equal(t, 50*time.Second, op.AttemptTimeout().D(), "the effect, and a lease time before and after it")
}
