package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

const approvalFile = `
budget:
  resources:
    calls: {concurrent: 4}
    human: {concurrent: 3}
    letters: {per: 1m, amount: 10}
operations:
  always:
    type: http
    request: {method: POST, url: "http://psp.example/"}
    cost: {calls: 1}
    approval: {required: true, expires: 2h, resource: human}
  large:
    type: http
    request: {method: POST, url: "http://psp.example/"}
    cost: {calls: 1}
    approval: {required: "payload.amount > 1000"}
`

func TestApproval(t *testing.T) {
	c, err := Parse("test.yaml", []byte(approvalFile))
	require.NoError(t, err)
	for _, row := range []struct {
		operation, payload string
		want               *contract.Approval
	}{
		{"always", `{}`, &contract.Approval{Expires: contract.Duration(2 * time.Hour), Resource: "human"}},
		{"large", `{"amount": 1000}`, nil},
		{"large", `{"amount": 1000.5}`, &contract.Approval{Rule: "payload.amount > 1000", Expires: contract.Duration(DefaultApprovalExpires)}},
		// A rule that cannot be applied needs an approval.
		{"large", `{"amount": "a lot"}`, &contract.Approval{Rule: "payload.amount > 1000", Expires: contract.Duration(DefaultApprovalExpires)}},
		{"large", `{}`, &contract.Approval{Rule: "payload.amount > 1000", Expires: contract.Duration(DefaultApprovalExpires)}},
		{"large", ``, &contract.Approval{Rule: "payload.amount > 1000", Expires: contract.Duration(DefaultApprovalExpires)}},
	} {
		got, wrong := c.ResolveE(input(row.operation, row.payload), noon)
		require.Nil(t, wrong, row.payload)
		require.Equal(t, row.want, got.Operation.Approval, row.payload)
	}
	// The declaration's digest tells a change of the rule, whatever a payload needs.
	small, _ := c.ResolveE(input("large", `{"amount": 1}`), noon)
	changed, err := Parse("test.yaml", []byte(strings.Replace(approvalFile, "> 1000", "> 10", 1)))
	require.NoError(t, err)
	again, _ := changed.ResolveE(input("large", `{"amount": 1}`), noon)
	require.NotEqual(t, small.Operation.Digest, again.Operation.Digest)

	_, err = Parse("test.yaml", []byte(strings.Replace(approvalFile, "resource: human", "resource: letters", 1)))
	require.ErrorContains(t, err, "letters is a resource per interval")
}
