package gateway

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

func TestCaller(t *testing.T) {
	r := do(t, newGateway(&fake{}), "GET", "/v1/caller", "")
	assert.Equal(t, contract.Caller{}, decodeBody[contract.Caller](t, r))

	var k ring
	people := config.People{{Name: "mara", Rights: []string{"approve", "resolve"}}, {Name: "tom", Rights: []string{"approve", "pause"}}}
	mara, tom, eve := k.add("mara", "acme", config.RoleOperate), k.add("tom", "*", config.RoleOperate, config.RoleSubmit), k.add("eve", "*", config.RoleView)
	g := lockedGateway(t, &fake{}, &k, people)
	for key, want := range map[string]contract.Caller{
		mara: {Keys: true, Name: "mara", Tenant: "acme", Roles: []string{"operate"}, Rights: []string{"approve", "resolve"}},
		tom:  {Keys: true, Name: "tom", Tenant: "*", Roles: []string{"operate", "submit"}, Rights: []string{"pause"}},
		eve:  {Keys: true, Name: "eve", Tenant: "*", Roles: []string{"view"}},
	} {
		r := do(t, g, "GET", "/v1/caller", "", "Authorization", key)
		require.Equal(t, 200, r.StatusCode)
		assert.Equal(t, want, decodeBody[contract.Caller](t, r))
	}
	assert.Equal(t, 401, do(t, g, "GET", "/v1/caller", "").StatusCode)
}

// The key of one tenant counts that tenant's tasks, and looks at no other's.
func TestPhasesOfOneTenant(t *testing.T) {
	var k ring
	key := k.add("v", "acme", config.RoleView)
	var described, queries []string
	f := &fake{describe: func(id string) error { described = append(described, id); return nil },
		query: func(string, []any) (any, error) {
			return admission.View{InFlight: 300, Leases: []admission.LeaseView{{Task: "task/acme/inv-42", Tenant: "acme"}, {Task: "task/globex/x", Tenant: "globex"}},
				Tenants: []admission.TenantView{{TenantPolicy: admission.TenantPolicy{Name: "acme"}, InFlight: 1}}}, nil
		},
		count: func(query string) (*workflowservice.CountWorkflowExecutionsResponse, error) {
			queries = append(queries, query)
			return &workflowservice.CountWorkflowExecutionsResponse{}, nil
		}}
	f.put(withEffect(openTask(acmeInput()), running, beat(admission.StepClaimed)))
	r := do(t, lockedGateway(t, f, &k, nil), "GET", "/v1/phases", "", "Authorization", key)
	require.Equal(t, 200, r.StatusCode)
	counts := decodeBody[contract.PhaseCounts](t, r)
	assert.Zero(t, counts.Unlooked)
	assert.Equal(t, 1, counts.Phases[2].Tasks)
	assert.Equal(t, []string{"task/acme/inv-42"}, described)
	require.Len(t, queries, 6)
	for _, q := range queries {
		assert.True(t, strings.HasPrefix(q, "WorkflowType = 'Task' AND HeadgateTenant = 'acme'"), q)
	}
}
