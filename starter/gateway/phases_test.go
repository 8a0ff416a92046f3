package gateway

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/contract"
)

// index answers counts: groups of the status by name, else a number by the
// phase that the query has.
func index(groups map[string]int64, phases map[string]int64, total int64) func(string) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return func(query string) (*workflowservice.CountWorkflowExecutionsResponse, error) {
		answer := &workflowservice.CountWorkflowExecutionsResponse{Count: total}
		if strings.Contains(query, "GROUP BY") {
			for status, n := range groups {
				answer.Groups = append(answer.Groups, &workflowservice.CountWorkflowExecutionsResponse_AggregationGroup{
					GroupValues: []*commonpb.Payload{payload(status)}, Count: n})
			}
			return answer, nil
		}
		for phase, n := range phases {
			if strings.HasSuffix(query, "= '"+phase+"'") {
				answer.Count = n
				return answer, nil
			}
		}
		return answer, nil
	}
}

func TestPhases(t *testing.T) {
	f := &fake{count: index(map[string]int64{"Running": 9, "Completed": 20, "Failed": 7, "Canceled": 2, "Terminated": 1, "TimedOut": 1},
		map[string]int64{"reconciling": 1, "unknown": 2, "expired": 3, "rejected": 1}, 40)}
	now := admission.View{InFlight: 5}
	for i, step := range []admission.Step{admission.StepClaimed, admission.StepDispatching} {
		in := acmeInput()
		in.Key = string(step)
		f.put(withEffect(openTask(in), running, beat(step)))
		for range i + 1 { // a task may hold two: its own and a probe's
			now.Leases = append(now.Leases, admission.LeaseView{Task: contract.TaskID(in.Tenant, in.Key)})
		}
	}
	now.Leases = append(now.Leases, admission.LeaseView{Task: "task/acme/gone"})
	f.query = func(name string, _ []any) (any, error) {
		require.Equal(t, contract.SnapshotQuery, name)
		return now, nil
	}
	r := do(t, newGateway(f), "GET", "/v1/phases", "")
	require.Equal(t, 200, r.StatusCode)
	counts := decodeBody[contract.PhaseCounts](t, r)
	assert.Equal(t, contract.PhaseCounts{At: start, Total: 40, Outside: 2, Unlooked: 1, Phases: []contract.PhaseCount{
		{Phase: "accepted", Tasks: 3}, {Phase: "leased"}, {Phase: "claimed", Tasks: 1}, {Phase: "dispatched", Tasks: 1}, {Phase: "reconciling", Tasks: 1},
		{Phase: "succeeded", Tasks: 20}, {Phase: "failed", Tasks: 3}, {Phase: "expired", Tasks: 3}, {Phase: "unknown", Tasks: 2},
		{Phase: "cancelled", Tasks: 2}, {Phase: "rejected", Tasks: 1},
	}}, counts)
	assert.Equal(t, counts.Total, counts.Sum())
}

// What cannot be counted is said, not guessed.
func TestPhasesWithoutTheBudgetOrTheIndex(t *testing.T) {
	f := &fake{query: func(string, []any) (any, error) { return nil, errors.New("no worker") }}
	r := do(t, newGateway(f), "GET", "/v1/phases", "")
	assert.Equal(t, 503, r.StatusCode)
	assert.Equal(t, "budget_unavailable", decodeBody[contract.Problem](t, r).Reason)

	f = &fake{query: func(string, []any) (any, error) { return admission.View{Now: start.Add(time.Second)}, nil },
		count: func(string) (*workflowservice.CountWorkflowExecutionsResponse, error) {
			return nil, serviceerror.NewResourceExhausted(0, "too many")
		}}
	r = do(t, newGateway(f), "GET", "/v1/phases", "")
	assert.Equal(t, 503, r.StatusCode)
	assert.Equal(t, "temporal_unavailable", decodeBody[contract.Problem](t, r).Reason)
}
