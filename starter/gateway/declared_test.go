package gateway

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeclarations(t *testing.T) {
	r := do(t, newGateway(&fake{}), "GET", "/v1/operations", "")
	require.Equal(t, 200, r.StatusCode)
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"operations": [
		{"name": "charge_card", "type": "http", "replay": "keyed", "timeout": "0s", "approval": "payload.amount > 1"},
		{"name": "silent", "type": "sms", "replay": "", "timeout": "0s", "same_intent": "return"}]}`, string(text))
}
