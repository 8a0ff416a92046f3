package gateway

import (
	"encoding/base64"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/contract"
)

func TestListQuery(t *testing.T) {
	const task = "WorkflowType = 'Task'"
	for text, want := range map[string]string{
		"":                            task,
		"tenant=acme":                 task + " AND HeadgateTenant = 'acme'",
		"operation=a.b-c&priority=":   task + " AND HeadgateOperation = 'a.b-c'",
		"tenant=acme&priority=high":   task + " AND HeadgateTenant = 'acme' AND HeadgatePriority = 'high'",
		"phase=succeeded":             task + " AND ExecutionStatus = 'Completed'",
		"phase=cancelled":             task + " AND ExecutionStatus = 'Canceled'",
		"phase=failed":                task + " AND ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')",
		"phase=expired":               task + " AND ExecutionStatus = 'Failed' AND HeadgatePhase = 'expired'",
		"phase=dispatched":            task + " AND ExecutionStatus = 'Running' AND (HeadgatePhase IN ('accepted', 'leased') OR HeadgatePhase IS NULL)",
		"phase=reconciling&limit=100": task + " AND ExecutionStatus = 'Running' AND HeadgatePhase IN ('reconciling', 'unknown')",
	} {
		query, err := url.ParseQuery(text)
		require.NoError(t, err)
		f, err := filterOf(httptest.NewRequest("GET", "/v1/tasks", nil), query, "phase")
		require.NoError(t, err, text)
		assert.Equal(t, want, f.query(), text)
	}
	assert.Equal(t, `'a\'b\\c'`, quote(`a'b\c`))
}

func TestListBadInput(t *testing.T) {
	for _, query := range []string{"tenant=a%27b", "tenant=a%20b", "tenant=..", "operation=a/b", "priority=urgent", "phase=done",
		"phase=succeeded%27", "limit=0", "limit=101", "limit=-1", "limit=ten", "limit=1e2", "cursor=%21", "cursor=a=", "page=2", "Tenant=acme"} {
		f := &fake{}
		r := do(t, newGateway(f), "GET", "/v1/tasks?"+query, "")
		assert.Equal(t, 400, r.StatusCode, query)
	}
}

func TestList(t *testing.T) {
	info := func(key string, status enumspb.WorkflowExecutionStatus, phase contract.Phase) *workflowpb.WorkflowExecutionInfo {
		in := acmeInput()
		in.Key = key
		d := openTask(in).GetWorkflowExecutionInfo()
		d.Status = status
		d.SearchAttributes.IndexedFields[contract.PhaseAttribute] = payload(string(phase))
		return d
	}
	f := &fake{histories: map[string][]*historypb.HistoryEvent{}}
	open := openTask(contract.TaskInput{Tenant: "acme", Key: "open", Operation: "charge_card"})
	f.put(withEffect(open, running, &contract.Beat{Step: admission.StepDispatching, Attempt: 1}))
	killed := openTask(contract.TaskInput{Tenant: "acme", Key: "killed", Operation: "charge_card"})
	killed.WorkflowExecutionInfo.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	f.put(killed)
	end := &script{}
	end.start(acmeInput())
	end.terminate("ops", "oops")
	f.histories["task/acme/killed"] = end.events
	done := &script{}
	done.succeed(contract.TaskResult{Phase: contract.PhaseSucceeded, Attempts: 2, Result: []byte(`{"large": true}`), Available: true})
	f.histories["task/acme/done"] = done.events
	late := &script{}
	late.fail(contract.ExpiredError, contract.TaskResult{Phase: contract.PhaseExpired, Reason: "expired"})
	f.histories["task/acme/late"] = late.events
	f.list = func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		assert.Equal(t, "given before", string(r.NextPageToken))
		assert.Equal(t, int32(5), r.PageSize)
		return &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: []byte{0xff, 0}, Executions: []*workflowpb.WorkflowExecutionInfo{
			info("done", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, contract.PhaseSucceeded),
			info("open", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, contract.PhaseAccepted),
			info("deleted", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, contract.PhaseAccepted),
			info("late", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, contract.PhaseExpired),
			info("killed", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, contract.PhaseAccepted),
		}}, nil
	}
	r := do(t, newGateway(f), "GET", "/v1/tasks?limit=5&cursor=Z2l2ZW4gYmVmb3Jl", "")
	require.Equal(t, 200, r.StatusCode)
	page := decodeBody[contract.TaskPage](t, r)
	assert.Equal(t, "_wA", page.Cursor)
	var got []string
	for _, v := range page.Tasks {
		got = append(got, v.Key+" "+string(v.Phase))
	}
	assert.Equal(t, 2, page.Tasks[0].Attempts)
	assert.Empty(t, page.Tasks[0].Result, "not in a list")
	assert.True(t, page.Tasks[0].Available)
	assert.Equal(t, []string{"done succeeded", "open dispatched", "late expired", "killed failed"}, got)

	t.Run("only the phase that was asked for", func(t *testing.T) {
		r := do(t, newGateway(f), "GET", "/v1/tasks?limit=5&phase=dispatched&cursor=Z2l2ZW4gYmVmb3Jl", "")
		page := decodeBody[contract.TaskPage](t, r)
		require.Len(t, page.Tasks, 1)
		assert.Equal(t, "open", page.Tasks[0].Key)
	})
	t.Run("who holds a lease is told by the budget", func(t *testing.T) {
		f.query = func(name string, args []any) (any, error) {
			assert.Equal(t, contract.LeasesQuery, name)
			assert.Equal(t, contract.LeasesRequest{After: "task/acme/a", Limit: 2}, args[0])
			return []admission.LeaseView{{Task: "task/acme/open", Tenant: "acme", Operation: "charge_card"}, {Task: "task/other/open", Tenant: "other"}}, nil
		}
		defer func() { f.query = nil }()
		cursor := base64.RawURLEncoding.EncodeToString([]byte("lease:task/acme/a"))
		page := decodeBody[contract.TaskPage](t, do(t, newGateway(f), "GET", "/v1/tasks?limit=2&tenant=acme&phase=dispatched&cursor="+cursor, ""))
		require.Len(t, page.Tasks, 1)
		assert.Equal(t, "open", page.Tasks[0].Key)
		assert.Empty(t, page.Cursor, "those of a tenant stand together")
		page = decodeBody[contract.TaskPage](t, do(t, newGateway(f), "GET", "/v1/tasks?limit=2&phase=dispatched&cursor="+cursor, ""))
		assert.Equal(t, base64.RawURLEncoding.EncodeToString([]byte("lease:task/other/open")), page.Cursor, "a full page may have a next one")
		page = decodeBody[contract.TaskPage](t, do(t, newGateway(f), "GET", "/v1/tasks?limit=2&tenant=acme&phase=claimed&cursor="+cursor, ""))
		assert.Empty(t, page.Tasks)
	})
	t.Run("nothing found is an empty list", func(t *testing.T) {
		f.list = func(r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			assert.Contains(t, r.Query, "'unknown'")
			return &workflowservice.ListWorkflowExecutionsResponse{}, nil
		}
		r := do(t, newGateway(f), "GET", "/v1/unknown?tenant=acme", "")
		assert.Equal(t, map[string]any{"tasks": []any{}}, decodeBody[map[string]any](t, r))
	})
	t.Run("an index at its limit", func(t *testing.T) {
		f.list = func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			return nil, serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slow down")
		}
		r := do(t, newGateway(f), "GET", "/v1/tasks", "")
		assert.Equal(t, 503, r.StatusCode)
		assert.NotEmpty(t, r.Header.Get("Retry-After"))
	})
}
