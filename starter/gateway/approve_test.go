package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	protocolpb "go.temporal.io/api/update/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// asking is a configuration whose operation asks a person.
type asking struct{}

func (asking) Operation(name string) (*config.Operation, bool) { return operations{}.Operation(name) }
func (asking) Declared() []contract.Operation                  { return nil }

func (asking) ResolveE(in contract.TaskInput, now time.Time) (contract.Resolved, *config.ResolveError) {
	out, wrong := operations{}.ResolveE(in, now)
	if wrong == nil {
		out.Operation.Digest = "sha256:op"
		out.Operation.Approval = &contract.Approval{Expires: contract.Duration(time.Hour), Resource: "human"}
	}
	return out, wrong
}

func waitingTask() (*workflowservice.DescribeWorkflowExecutionResponse, contract.ApprovalStand) {
	d := openTask(acmeInput())
	ask := contract.ApprovalStand{Version: 1, Since: start, Expires: start.Add(time.Hour), Hash: "sha256:aa", Digest: "sha256:op"}
	d.WorkflowExecutionInfo.Memo.Fields[contract.ApprovalMemo] = payload(ask)
	d.WorkflowExecutionInfo.SearchAttributes.IndexedFields[contract.PhaseAttribute] = payload(contract.WaitsForApproval)
	return d, ask
}

// A task that asks a person is accepted without a lease: the budget is asked to
// hold it, on the resource that people are.
func TestSubmitAsksAPerson(t *testing.T) {
	f := &fake{update: func(o client.UpdateWorkflowOptions) (any, error) {
		r := o.Args[0].(contract.AdmitRequest).Requests[0]
		assert.Equal(t, []any{true, "human"}, []any{r.Hold, r.HoldOn})
		return contract.AdmitReply{Verdicts: []admission.Verdict{{Action: admission.Defer, Reason: admission.Approval, Resource: "human",
			Ticket: "ticket-1", StartBy: start.Add(30 * time.Second)}}}, nil
	}}
	g := New(Options{Client: f, Operations: asking{}, Now: func() time.Time { return start }})
	r := do(t, g, "POST", "/v1/tasks", `{"tenant": "acme", "operation": "charge_card", "payload": {"amount": 1}}`, "Idempotency-Key", "inv-42")
	require.Equal(t, 202, r.StatusCode)
	v := decodeBody[contract.TaskView](t, r)
	assert.Equal(t, contract.PhaseAccepted, v.Phase)
	assert.Equal(t, contract.NextWait, v.NextAction)
	assert.Equal(t, []contract.Waiting{{Reason: "approval", Resource: "human", Since: &start}}, v.WaitingOn)
	require.NotNil(t, v.Approval)
	assert.Equal(t, contract.ApprovalStand{Version: 1, Since: start, Expires: start.Add(time.Hour), Hash: v.PayloadHash, Digest: "sha256:op"}, *v.Approval)
	assert.Equal(t, *v.Approval, f.started[0].Memo[contract.ApprovalMemo])
	phase, ok := f.started[0].TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(contract.PhaseAttribute))
	assert.True(t, ok)
	assert.Equal(t, contract.WaitsForApproval, phase)
}

func TestApprovalIsShown(t *testing.T) {
	task, ask := waitingTask()
	past := &script{}
	in := acmeInput()
	in.Payload, in.Pinned = []byte(`{"amount":1200}`), &contract.Operation{Name: "charge_card", Approval: &contract.Approval{Rule: "payload.amount > 1000", Expires: contract.Duration(time.Hour)}}
	past.start(in)
	f := &fake{histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": past.events},
		list: func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			assert.Contains(t, r.GetQuery(), "HeadgatePhase = 'approval'")
			return &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{task.GetWorkflowExecutionInfo()}}, nil
		}}
	f.put(task)
	g := newGateway(f)
	v := decodeBody[contract.TaskView](t, do(t, g, "GET", "/v1/tasks/acme/inv-42", ""))
	assert.Equal(t, []any{contract.PhaseAccepted, &ask, "approval", contract.NextWait}, []any{v.Phase, v.Approval, v.WaitingOn[0].Reason, v.NextAction})
	page := decodeBody[contract.TaskPage](t, do(t, g, "GET", "/v1/approvals?tenant=acme", ""))
	require.Len(t, page.Tasks, 1)
	assert.Equal(t, &ask, page.Tasks[0].Approval)
	shown := decodeBody[contract.ApprovalView](t, do(t, g, "GET", "/v1/tasks/acme/inv-42/approval", ""))
	assert.JSONEq(t, `{"amount":1200}`, string(shown.Payload))
	assert.Equal(t, "payload.amount > 1000", shown.Rule)
	x := decodeBody[contract.Explanation](t, do(t, g, "GET", "/v1/tasks/acme/inv-42/explain", ""))
	assert.Equal(t, "asks", x.Events[1].Name)
	assert.Contains(t, x.Sentence, "waits for an approval until 2026-12-01 11:00:00Z")
	assert.Equal(t, 400, do(t, g, "GET", "/v1/approvals?phase=accepted", "").StatusCode)
	f.put(openTask(acmeInput()))
	r := do(t, g, "GET", "/v1/tasks/acme/inv-42/approval", "")
	assert.Equal(t, "nothing_to_approve", decodeBody[contract.Problem](t, r).Reason)
}

const approvalWord = `{"id": "d-1", "actor": "mara", "evidence": "checked", "version": 1, "payload_hash": "sha256:aa", "operation_digest": "sha256:op"}`

func TestApprove(t *testing.T) {
	app := func(kind string) error { return temporal.NewNonRetryableApplicationError("no", kind, nil) }
	for name, c := range map[string]struct {
		path, body string
		err        error
		status     int
		reason     string
		next       string
	}{
		"approved":          {"approve", approvalWord, nil, 200, "", contract.NextWait},
		"declined":          {"decline", approvalWord, nil, 200, "", contract.NextDoNotRetry},
		"the other payload": {"approve", approvalWord, app(contract.ChangedError), 409, "approval_mismatch", contract.NextWait},
		"own task":          {"approve", approvalWord, app(contract.RightsError), 403, "not_allowed", contract.NextWait},
		"decided":           {"approve", approvalWord, app(contract.StaleError), 409, "stale_version", contract.NextWait},
		"no hash":           {"approve", `{"actor": "mara", "evidence": "x", "version": 1, "operation_digest": "sha256:op"}`, nil, 400, "invalid_request", contract.NextDoNotRetry},
		"no digest":         {"approve", `{"actor": "mara", "evidence": "x", "version": 1, "payload_hash": "sha256:aa"}`, nil, 400, "invalid_request", contract.NextDoNotRetry},
		"no version":        {"approve", `{"actor": "mara", "evidence": "x", "payload_hash": "sha256:aa", "operation_digest": "sha256:op"}`, nil, 400, "invalid_request", contract.NextDoNotRetry},
		"nobody": {"approve", `{"evidence": "x", "version": 1, "payload_hash": "sha256:aa", "operation_digest": "sha256:op"}`, nil, 400,
			"invalid_request", contract.NextDoNotRetry},
		"no evidence": {"decline", `{"actor": "mara", "version": 1, "payload_hash": "sha256:aa", "operation_digest": "sha256:op"}`, nil, 400, "invalid_request", contract.NextDoNotRetry},
		"an outcome of its own": {"approve", `{"actor": "mara", "outcome": "declined", "evidence": "x", "version": 1, "payload_hash": "sha256:aa", "operation_digest": "sha256:op"}`, nil, 400,
			"invalid_request", contract.NextDoNotRetry},
		"nothing": {"approve", "", nil, 400, "invalid_request", contract.NextDoNotRetry},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{update: func(o client.UpdateWorkflowOptions) (any, error) {
				return contract.ApprovalReply{Outcome: o.Args[0].(contract.ApprovalDecision).Outcome, Version: 2}, c.err
			}}
			task, _ := waitingTask()
			f.put(task)
			r := do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/"+c.path, c.body)
			require.Equal(t, c.status, r.StatusCode)
			if c.status == 200 {
				done := decodeBody[contract.ApprovalReply](t, r)
				assert.Equal(t, []any{2, c.next}, []any{done.Version, done.NextAction})
				assert.Equal(t, []any{"task/acme/inv-42", "run-1", contract.ApproveUpdate}, []any{f.updates[0].WorkflowID, "run-1", f.updates[0].UpdateName})
				return
			}
			p := decodeBody[contract.Problem](t, r)
			assert.Equal(t, []any{c.reason, c.next}, []any{p.Reason, p.NextAction})
		})
	}
}

// The same approval again is answered from the task's history, also when the
// task has ended; its id with another content is refused.
func TestApprovalIsMadeOnce(t *testing.T) {
	past := &script{}
	past.start(acmeInput())
	past.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{
			WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
				AcceptedRequest: &protocolpb.Request{Input: &protocolpb.Input{Name: contract.ApproveUpdate, Args: payloads(contract.ApprovalDecision{
					ID: "d-1", Actor: "mara", Outcome: contract.Approved, Evidence: "checked", Version: 1, Hash: "sha256:aa", Digest: "sha256:op"})}}}}
	})
	past.answer(contract.ApprovalReply{Outcome: contract.Approved, Version: 2})
	f := &fake{histories: map[string][]*historypb.HistoryEvent{"task/acme/inv-42": past.events},
		update: func(client.UpdateWorkflowOptions) (any, error) {
			return nil, temporal.NewNonRetryableApplicationError("decided", contract.StaleError, nil)
		}}
	f.put(openTask(acmeInput()))
	r := do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/approve", approvalWord)
	require.Equal(t, 200, r.StatusCode)
	assert.Equal(t, 2, decodeBody[contract.ApprovalReply](t, r).Version)
	r = do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/decline", approvalWord)
	require.Equal(t, 422, r.StatusCode)
	assert.Equal(t, "decision_reused", decodeBody[contract.Problem](t, r).Reason)
	r = do(t, newGateway(f), "POST", "/v1/tasks/acme/inv-42/approve", strings.Replace(approvalWord, "checked", "not checked", 1))
	require.Equal(t, 422, r.StatusCode)
	x := decodeBody[contract.Explanation](t, do(t, newGateway(f), "GET", "/v1/tasks/acme/inv-42/explain", ""))
	assert.Equal(t, []any{"approved", "mara", "payload sha256:aa: checked"}, []any{x.Events[1].Name, x.Events[1].Actor, x.Events[1].Detail})
}
