package gateway

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/contract"
)

const (
	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	captured      = `{"type": "captured", "tenant": "acme", "key": "inv-42", "id": "ch_1"}`
	evidencePath  = "/v1/evidence?operation=charge_card"
)

// sign gives the fields of a signed callback.
func sign(t *testing.T, secret, id string, at time.Time, body string) []string {
	t.Helper()
	hook, err := webhooks.NewWebhook(secret)
	require.NoError(t, err)
	signature, err := hook.Sign(id, at, []byte(body))
	require.NoError(t, err)
	return []string{"webhook-id", id, "webhook-timestamp", strconv.FormatInt(at.Unix(), 10), "webhook-signature", "v1a,ignored " + signature}
}

// listening is a gateway with the secrets of callbacks in its environment.
func listening(f *fake, secrets string) *Gateway {
	return New(Options{Client: f, Operations: operations{}, Now: func() time.Time { return start }, Env: func(name string) string {
		if name == "PSP_SECRET" {
			return secrets
		}
		return ""
	}})
}

func TestEvidenceIsStoredBeforeItIsAcknowledged(t *testing.T) {
	f := &fake{}
	f.put(openTask(acmeInput()))
	g := listening(f, webhookSecret)
	r := do(t, g, "POST", evidencePath, captured, sign(t, webhookSecret, "msg_1", start, captured)...)
	require.Equal(t, 202, r.StatusCode)
	assert.Equal(t, contract.EvidenceReply{ID: "msg_1", Task: "task/acme/inv-42", Finding: contract.Happened, Stored: true, Phase: contract.PhaseAccepted},
		decodeBody[contract.EvidenceReply](t, r))
	require.Len(t, f.signals, 1)
	late := f.signals[0].(contract.LateEvidence)
	assert.Zero(t, late.Attempt)
	assert.Equal(t, "msg_1", late.Callback.ID)
	assert.Equal(t, contract.Happened, late.Callback.Finding)
	assert.Equal(t, "ch_1", late.Callback.Reference)
	assert.JSONEq(t, captured, string(late.Callback.Result))

	f.signalErr = serviceerror.NewUnavailable("down")
	r = do(t, g, "POST", evidencePath, captured, sign(t, webhookSecret, "msg_1", start, captured)...)
	assert.Equal(t, "temporal_unavailable", decodeBody[contract.Problem](t, r).Reason)
	f.signalErr = serviceerror.NewNotFound("completed")
	r = do(t, g, "POST", evidencePath, captured, sign(t, webhookSecret, "msg_1", start, captured)...)
	require.Equal(t, 409, r.StatusCode)
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
}

func TestEvidenceIsRefused(t *testing.T) {
	signed := sign(t, webhookSecret, "msg_1", start, captured)
	for name, c := range map[string]struct {
		path, secrets, body string
		header              []string
		status              int
		reason              string
	}{
		"unsigned":            {evidencePath, webhookSecret, captured, nil, 401, "signature_missing"},
		"half signed":         {evidencePath, webhookSecret, captured, signed[:4], 401, "signature_missing"},
		"another body":        {evidencePath, webhookSecret, captured + " ", signed, 401, "signature_invalid"},
		"another id":          {evidencePath, webhookSecret, captured, append([]string{"webhook-id", "msg_2"}, signed[2:]...), 401, "signature_invalid"},
		"another time":        {evidencePath, webhookSecret, captured, append(signed[:2:2], "webhook-timestamp", "1", "webhook-signature", signed[5]), 401, "signature_invalid"},
		"no time":             {evidencePath, webhookSecret, captured, append(signed[:2:2], "webhook-timestamp", "now", "webhook-signature", signed[5]), 401, "signature_invalid"},
		"another secret":      {evidencePath, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", captured, signed, 401, "signature_invalid"},
		"not a secret":        {evidencePath, "§§§", captured, signed, 401, "signature_invalid"},
		"too old":             {evidencePath, webhookSecret, captured, sign(t, webhookSecret, "m", start.Add(-6*time.Minute), captured), 401, "signature_stale"},
		"too new":             {evidencePath, webhookSecret, captured, sign(t, webhookSecret, "m", start.Add(6*time.Minute), captured), 401, "signature_stale"},
		"no secret is set":    {evidencePath, "", captured, signed, 503, "callback_secret_missing"},
		"long id":             {evidencePath, webhookSecret, captured, sign(t, webhookSecret, longText, start, captured), 400, "invalid_request"},
		"no operation":        {"/v1/evidence", webhookSecret, captured, signed, 404, "callback_not_declared"},
		"operation unknown":   {"/v1/evidence?operation=x", webhookSecret, captured, signed, 404, "callback_not_declared"},
		"takes no callbacks":  {"/v1/evidence?operation=silent", webhookSecret, captured, signed, 404, "callback_not_declared"},
		"not JSON":            {evidencePath, webhookSecret, "captured", sign(t, webhookSecret, "m", start, "captured"), 400, "invalid_request"},
		"names no task":       {evidencePath, webhookSecret, `{"type":"captured"}`, sign(t, webhookSecret, "m", start, `{"type":"captured"}`), 422, "evidence_unmapped"},
		"names an odd tenant": {evidencePath, webhookSecret, `{"type":"captured","tenant":"a/b","key":"k"}`, sign(t, webhookSecret, "m", start, `{"type":"captured","tenant":"a/b","key":"k"}`), 422, "evidence_unmapped"},
		"unknown task":        {evidencePath, webhookSecret, `{"type":"captured","tenant":"acme","key":"k"}`, sign(t, webhookSecret, "m", start, `{"type":"captured","tenant":"acme","key":"k"}`), 404, "task_not_found"},
		"of another operation": {"/v1/evidence?operation=charge_by_key", webhookSecret, `{"type":"captured","key":"` + contract.ProviderKey("acme", "inv-42") + `"}`,
			sign(t, webhookSecret, "m", start, `{"type":"captured","key":"`+contract.ProviderKey("acme", "inv-42")+`"}`), 404, "task_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{list: listed("task/acme/inv-42")}
			f.put(openTask(acmeInput()))
			r := do(t, listening(f, c.secrets), "POST", c.path, c.body, c.header...)
			assert.Equal(t, c.status, r.StatusCode)
			assert.Equal(t, "application/problem+json", r.Header.Get("Content-Type"))
			assert.Equal(t, c.reason, decodeBody[contract.Problem](t, r).Reason)
			assert.Empty(t, f.signals)
		})
	}
}

func listed(ids ...string) func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		out := &workflowservice.ListWorkflowExecutionsResponse{}
		for _, id := range ids {
			out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
		}
		return out, nil
	}
}

// While a secret is exchanged for another, both are good.
func TestEvidenceByEitherSecret(t *testing.T) {
	const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, secret := range []string{webhookSecret, other} {
		f := &fake{}
		f.put(openTask(acmeInput()))
		r := do(t, listening(f, webhookSecret+" "+other), "POST", evidencePath, captured, sign(t, secret, "m", start, captured)...)
		assert.Equal(t, 202, r.StatusCode)
	}
}

func TestEvidenceByProviderKey(t *testing.T) {
	in := acmeInput()
	in.Operation = "charge_by_key"
	body := `{"type":"captured","key":"` + contract.ProviderKey(in.Tenant, in.Key) + `"}`
	f := &fake{list: listed("odd", "task/acme/inv-41", "task/acme/inv-42")}
	f.put(openTask(in))
	r := do(t, listening(f, webhookSecret), "POST", "/v1/evidence?operation=charge_by_key", body, sign(t, webhookSecret, "m", start, body)...)
	require.Equal(t, 202, r.StatusCode)
	require.Len(t, f.signals, 1)

	f.list = listed("task/acme/inv-41")
	r = do(t, listening(f, webhookSecret), "POST", "/v1/evidence?operation=charge_by_key", body, sign(t, webhookSecret, "m", start, body)...)
	require.Equal(t, 404, r.StatusCode)
}

// What a task has ended with needs no more evidence; the contrary needs a person.
func TestEvidenceAfterTheEnd(t *testing.T) {
	succeeded, failed := &script{}, &script{}
	succeeded.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded})
	failed.fail(contract.FailedError, contract.TaskResult{Phase: contract.PhaseFailed, Reason: "rejected_by_provider"})
	for name, c := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		past   *script
		body   string
		want   int
	}{
		"succeeded, captured": {enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, succeeded, captured, 200},
		"failed, failed":      {enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, failed, `{"type":"failed","tenant":"acme","key":"inv-42"}`, 200},
		"failed, captured":    {enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, failed, captured, 409},
		"succeeded, failed":   {enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, succeeded, `{"type":"failed","tenant":"acme","key":"inv-42"}`, 409},
		"succeeded, refunded": {enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, succeeded, `{"type":"refunded"}`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": c.past.events}}
			f.put(closedTask(c.status))
			r := do(t, listening(f, webhookSecret), "POST", evidencePath, c.body, sign(t, webhookSecret, "m", start, c.body)...)
			require.Equal(t, c.want, r.StatusCode)
			if c.want == http.StatusOK {
				assert.False(t, decodeBody[contract.EvidenceReply](t, r).Stored)
			} else {
				assert.Equal(t, "evidence_contradicts", decodeBody[contract.Problem](t, r).Reason)
				require.Len(t, f.against, 1)
				assert.Equal(t, "task/acme/inv-42", f.against[0].Task)
			}
			assert.Empty(t, f.signals)
		})
	}
}
