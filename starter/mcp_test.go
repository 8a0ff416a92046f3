package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/contract"
)

// The command speaks MCP on standard input and output, and ends with its input.
func TestMCPOverStdio(t *testing.T) {
	g := newCannedGateway(t, map[string][]canned{taskRoute: {{200, task(contract.PhaseSucceeded)}}})
	t.Setenv("HEADGATE_API_KEY", "hgk_a")
	in, toCommand := io.Pipe()
	fromCommand, out := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		status := run([]string{"mcp", "--tenant", "acme"}, in, out, &errs)
		_ = out.Close()
		ended <- status
	}()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromCommand, Writer: toCommand}, nil)
	require.NoError(t, err)
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_task", Arguments: map[string]any{"key": "inv/42"}})
	require.NoError(t, err)
	text, err := json.Marshal(r.StructuredContent)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"next_action":"use_result"`)
	assert.Equal(t, "Bearer hgk_a", g.requests[0].header.Get("Authorization"))
	require.NoError(t, s.Close())
	_ = toCommand.Close()
	assert.Equal(t, exitDone, <-ended, errs.String())
}

func TestMCPUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--tenant", "a/b"}, {"--tenant", "acme", "--agent", "a b"}, {"--tenant", "acme", "--gateway", "nowhere"}} {
		assert.Equal(t, exitUsage, command("", append([]string{"mcp"}, args...)...).status, args)
	}
}
