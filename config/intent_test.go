package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

func TestIntent(t *testing.T) {
	file := strings.ReplaceAll(approvalFile, "    approval: {required: true, expires: 2h, resource: human}", "    intent: {same: return, window: 1h}")
	file = strings.ReplaceAll(file, "    approval: {required: \"payload.amount > 1000\"}", "    intent: {same: allow}")
	c, err := Parse("test.yaml", []byte(file+`
  plain:
    type: http
    request: {method: POST, url: "http://psp.example/"}
    cost: {calls: 1}
`))
	require.NoError(t, err)
	hour, day := contract.Duration(time.Hour), contract.DefaultIntentWindow
	for _, row := range []struct {
		operation, intent, same string
		want                    *contract.Intent
		refused                 string
	}{
		{"plain", "", "", nil, ""},
		{"always", "", "", nil, ""},
		{"plain", "order-7/refund", "", &contract.Intent{Same: "refuse", Window: day}, ""},
		{"plain", "order-7/refund", "return", &contract.Intent{Same: "return", Window: day}, ""},
		{"plain", "order-7/refund", "allow", nil, "only its declaration can allow"},
		{"always", "order-7/refund", "", &contract.Intent{Same: "return", Window: hour}, ""},
		{"always", "order-7/refund", "refuse", &contract.Intent{Same: "refuse", Window: hour}, ""},
		{"always", "order-7/refund", "allow", nil, "only its declaration can allow"},
		{"large", "order-7/refund", "allow", &contract.Intent{Same: "allow", Window: day}, ""},
		{"large", "order-7/refund", "refuse", &contract.Intent{Same: "refuse", Window: day}, ""},
		{"plain", "", "return", nil, "without an intent"},
		{"plain", "order-7", "perhaps", nil, "want refuse, return or allow"},
		{"plain", "\u00fc", "", nil, "only printable ASCII"},
		{"plain", strings.Repeat("a", 256), "", nil, "at most 255"},
	} {
		in := input(row.operation, `{"amount": 1}`)
		in.Intent, in.SameIntent = row.intent, row.same
		got, wrong := c.ResolveE(in, noon)
		if row.refused != "" {
			require.NotNil(t, wrong)
			require.Contains(t, wrong.Detail, row.refused)
			require.Equal(t, InvalidRequest, wrong.Code)
			continue
		}
		require.Nil(t, wrong)
		require.Equal(t, row.want, got.Operation.Intent)
	}
	in := input("plain", `{}`)
	in.Intent = "order-7"
	require.Contains(t, c.Resolve(in, noon).Refused, "claimed by a gateway")
}
