package gateway

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"headgate/config"
	"headgate/contract"
)

// The rights are separate, and nobody holds one over its own work. A refusal
// changes nothing: no workflow is asked.
func TestRights(t *testing.T) {
	people := config.People{{Name: "acme", Rights: []string{"approve", "pause", "resolve"}}, {Name: "billing-1", Rights: []string{"approve", "resolve"}},
		{Name: "mara", Rights: []string{"approve"}}, {Name: "ops", Rights: []string{"pause"}}, {Name: "tom", Rights: []string{"resolve"}}}
	approve := func(actor string) string {
		return `{"id": "d-1", "actor": "` + actor + `", "evidence": "checked", "version": 1, "payload_hash": "sha256:aa", "operation_digest": "sha256:op"}`
	}
	resolve := func(actor string) string {
		return `{"actor": "` + actor + `", "outcome": "happened", "evidence": "seen", "version": 3}`
	}
	pause := func(actor string) string { return `{"actor": "` + actor + `", "reason": "to look"}` }
	for _, row := range []struct {
		method  string
		path    string
		body    func(string) string
		allowed []string
	}{
		{"POST", "/v1/tasks/acme/inv-42/approve", approve, []string{"mara"}},
		{"POST", "/v1/tasks/acme/inv-42/decline", approve, []string{"mara"}},
		{"POST", "/v1/tasks/acme/inv-42/resolve", resolve, []string{"tom"}},
		{"POST", "/v1/tenants/acme/pause", pause, []string{"ops"}},
		{"POST", "/v1/tenants/acme/resume", pause, []string{"ops"}},
		{"PUT", "/v1/operations/charge_card/freeze", pause, []string{"ops", "acme"}},
		{"PUT", "/v1/operations/charge_card/unfreeze", pause, []string{"ops", "acme"}},
	} {
		for _, actor := range []string{"mara", "tom", "ops", "acme", "billing-1", "nobody"} {
			f := &fake{update: func(o client.UpdateWorkflowOptions) (any, error) {
				switch o.UpdateName {
				case contract.PauseUpdate:
					return o.Args[0], nil
				case contract.FreezeUpdate:
					return contract.FreezeReply{Operation: "charge_card"}, nil
				}
				return contract.ApprovalReply{Outcome: "done", Version: 2}, nil
			}}
			in := acmeInput()
			task := openTask(in)
			task.WorkflowExecutionInfo.SearchAttributes.IndexedFields[contract.AgentAttribute] = payload("billing-1")
			f.put(task)
			g := New(Options{Client: f, Operations: operations{}, People: people, Now: func() time.Time { return start }})
			r := do(t, g, row.method, row.path, row.body(actor))
			if slices.Contains(row.allowed, actor) {
				require.Equal(t, 200, r.StatusCode, "%s %s", row.path, actor)
				continue
			}
			require.Equal(t, 403, r.StatusCode, "%s %s", row.path, actor)
			p := decodeBody[contract.Problem](t, r)
			assert.Equal(t, []string{"not_allowed", contract.NextAskHuman}, []string{p.Reason, p.NextAction})
			assert.Empty(t, f.updates)
		}
	}
}
