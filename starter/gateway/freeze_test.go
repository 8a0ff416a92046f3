package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"headgate/admission"
	"headgate/contract"
)

func TestFreeze(t *testing.T) {
	frozen := contract.FreezeReply{Operation: "charge_card", Freeze: &admission.Freeze{Reason: "charged twice", Actor: "mara", Since: start}, Stopping: 1}
	for name, c := range map[string]struct {
		path, body string
		status     int
		reason     string
		order      *contract.FreezeRequest
	}{
		"freeze": {"charge_card/freeze", `{"reason": "charged twice", "actor": "mara"}`, 200, "",
			&contract.FreezeRequest{Operation: "charge_card", Frozen: true, Reason: "charged twice", Actor: "mara"}},
		"unfreeze":          {"charge_card/unfreeze", `{"actor": "mara"}`, 200, "", &contract.FreezeRequest{Operation: "charge_card", Actor: "mara"}},
		"without a reason":  {"charge_card/freeze", `{"actor": "mara"}`, 400, "invalid_request", nil},
		"a mistyped name":   {"charge_cart/freeze", `{"reason": "x"}`, 400, "unknown_operation", nil},
		"an unknown field":  {"charge_card/freeze", `{"reason": "x", "until": "1h"}`, 400, "invalid_request", nil},
		"not a name at all": {"%20/freeze", "", 400, "invalid_name", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{update: func(client.UpdateWorkflowOptions) (any, error) { return frozen, nil }}
			r := do(t, newGateway(f), "PUT", "/v1/operations/"+c.path, c.body)
			require.Equal(t, c.status, r.StatusCode)
			if c.order == nil {
				require.Equal(t, c.reason, decodeBody[contract.Problem](t, r).Reason)
				require.Empty(t, f.updates)
				return
			}
			require.Equal(t, contract.FreezeUpdate, f.updates[0].UpdateName)
			require.Equal(t, *c.order, f.updates[0].Args[0])
			require.Equal(t, frozen, decodeBody[contract.FreezeReply](t, r))
		})
	}
}
