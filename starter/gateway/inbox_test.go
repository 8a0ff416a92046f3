package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/contract"
)

// The inbox tells what a doubt keeps charged, what a person can safely do, and
// which doubts are overdue. P38: it never says that the request may be sent again.
func TestUnknownInbox(t *testing.T) {
	later, theirs := start.Add(time.Minute), contract.ProviderKey("acme", "inv-42")
	for name, c := range map[string]struct {
		stand   contract.Stand
		step    string
		overdue int
	}{
		"nothing can be looked up": {contract.Stand{Version: 2, Phase: contract.PhaseUnknown},
			"ask the provider about " + theirs + ", then resolve with version 2", 0},
		"look-ups go on, overdue": {contract.Stand{Version: 4, Phase: contract.PhaseUnknown, Probes: 5, NextProbe: &later, Overdue: true},
			"wait for the look-up at 2026-12-01 10:01:00Z, or ask the provider about " + theirs + ", then resolve with version 4", 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.stand.Cost = []admission.Cost{{Resource: "letters", Amount: 3}, {Resource: "psp_calls", Amount: 1}, {Resource: "gone", Amount: 9}}
			task := withChild(openTask(acmeInput()), 1)
			f := &fake{list: func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
				return &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{task.GetWorkflowExecutionInfo()}}, nil
			}}
			f.put(task)
			f.put(childOf(&c.stand))
			g := New(Options{Client: f, Operations: operations{}, Now: func() time.Time { return start }, Policy: admission.Policy{Resources: []admission.Resource{
				{Name: "psp_calls", Concurrent: 4}, {Name: "letters", Per: admission.Duration(time.Minute), Amount: 10}}}.Normalize()})
			page := decodeBody[contract.TaskPage](t, do(t, g, "GET", "/v1/unknown", ""))
			require.Len(t, page.Tasks, 1)
			v := page.Tasks[0]
			assert.Equal(t, c.overdue, page.Overdue)
			assert.Equal(t, []admission.Cost{{Resource: "letters", Amount: 3}}, v.Held, "the slot is free again, the letters may have been sent")
			assert.Equal(t, c.stand.Version, v.Reconciliation.Version)
			assert.Equal(t, contract.NextAskHuman, v.NextAction)
			assert.Equal(t, c.step, v.NextStep)
		})
	}
}
