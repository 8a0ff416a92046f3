package testsuite

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/client"
	"headgate/config"
	"headgate/contract"
	"headgate/testsuite/drill"
)

// TestKeys comes to a gateway that asks for API keys: an agent through the tools of
// a real process, a Go program, an operator, and a stranger.
func TestKeys(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	world := newWorld(ctx, t)

	// 1. A second gateway, which has a file of keys.
	folder := t.TempDir()
	file := filepath.Join(folder, "keys.txt")
	var lines []string
	made := func(name, tenant string, roles ...string) string {
		key, entry := config.NewKey(name, tenant, roles)
		lines = append(lines, entry.Line())
		return key
	}
	agent, mara, stranger := made("agent", "acme", "submit"), made("mara", "acme", "operate"), made("stranger", "globex", "view", "submit", "operate")
	write := func() { require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600)) }
	write()
	ports, err := drill.FreePorts(1)
	require.NoError(t, err)
	address := "127.0.0.1:" + ports[0]
	log, err := os.Create(filepath.Join(folder, "gateway.log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	gateway := exec.CommandContext(ctx, world.Program, "gateway", "--config", configuration(world), "--listen", address,
		"--temporal-address", world.Gateway.Proxy.Address(), "--api-keys", file, "--log-level", "error", "--log-json")
	gateway.Stderr = log
	require.NoError(t, gateway.Start())
	defer func() { _ = gateway.Process.Kill(); _ = gateway.Wait() }()
	as := func(key string) *client.Client { return &client.Client{URL: "http://" + address, APIKey: key} }
	eventually(ctx, t, "the gateway is ready", func() bool {
		return as("").Do(ctx, http.MethodGet, "/readyz", nil, nil, &struct{}{}) == nil
	})

	// 2. The agent asks for an effect by its tools, and waits for it.
	call := agentOf(ctx, t, world.Program, "http://"+address, agent)
	names := call("list_operations", nil)["operations"].([]any)
	require.NotEmpty(t, names)
	submit := map[string]any{"operation": "charge", "key": "order-7/charge", "payload": charge("acme", "order-7/charge")}
	require.Equal(t, "ACCEPTED", call("submit_task", submit)["delivery_state"])
	is := call("wait_for_task", map[string]any{"key": "order-7/charge"})
	require.Equal(t, []any{"ACCEPTED", "SUCCEEDED", "use_result"}, []any{is["delivery_state"], is["execution_state"], is["next_action"]}, "%v", is)
	require.Equal(t, "use_result", call("submit_task", submit)["next_action"], "the same key is the same task")
	require.Equal(t, "role_missing", call("cancel_task", map[string]any{"key": "order-7/charge"})["reason"])

	// 3. A Go program sees the same; a stranger cannot tell it from nothing.
	view, err := as(agent).Wait(ctx, "acme", "order-7/charge", 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, contract.PhaseSucceeded, view.Phase)
	there, absent := turnedAway(ctx, t, as(stranger), "order-7/charge"), turnedAway(ctx, t, as(stranger), "order-8/charge")
	require.Equal(t, "tenant_forbidden", there.Reason)
	require.Equal(t, there, absent)
	require.Equal(t, "key_required", turnedAway(ctx, t, as(""), "order-7/charge").Reason)
	foreign := agentOf(ctx, t, world.Program, "http://"+address, stranger)
	for _, tool := range []string{"get_task", "wait_for_task", "cancel_task", "submit_task"} {
		answer := func(key string) map[string]any {
			arguments := map[string]any{"key": key}
			if tool == "submit_task" {
				arguments["operation"], arguments["payload"] = "charge", charge("acme", key)
			}
			is := foreign(tool, arguments)
			delete(is, "key") // as it was asked
			return is
		}
		is := answer("order-7/charge")
		require.Equal(t, "tenant_forbidden", is["reason"], tool)
		require.Equal(t, is, answer("order-8/charge"), tool)
	}
	page, err := as(stranger).List(ctx, client.Filter{})
	require.NoError(t, err)
	require.Empty(t, page.Tasks)

	// 4. An operator pauses under the key's name, and a key that is taken back ends.
	var paused contract.PauseRequest
	require.NoError(t, as(mara).Do(ctx, http.MethodPost, "/v1/tenants/acme/pause", nil, map[string]string{"actor": "somebody", "reason": "to look"}, &paused))
	require.Equal(t, "mara", paused.Actor)
	require.NoError(t, as(mara).Do(ctx, http.MethodPost, "/v1/tenants/acme/resume", nil, map[string]string{}, &paused))
	lines = lines[1:]
	write()
	eventually(ctx, t, "the agent's key is taken back", func() bool { return turnedAway(ctx, t, as(agent), "order-8/charge").Reason == "key_required" })
	written, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	assert.Contains(t, string(written), `"logger":"audit","msg":"order","actor":"mara","order":"pause","target":"tenant/acme","outcome":"done"`)
	assert.NotContains(t, string(written), agent)
}

func turnedAway(ctx context.Context, t *testing.T, c *client.Client, key string) contract.Problem {
	_, err := c.Task(ctx, "acme", key)
	var refused *client.Refusal
	require.ErrorAs(t, err, &refused)
	return refused.Problem
}

// agentOf starts the tools as a host does, and gives a way to call them.
func agentOf(ctx context.Context, t *testing.T, program, gateway, key string) func(tool string, arguments map[string]any) map[string]any {
	host := exec.CommandContext(ctx, program, "mcp", "--tenant", "acme", "--agent", "billing-1", "--gateway", gateway)
	host.Env = append(os.Environ(), "HEADGATE_API_KEY="+key)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: host}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return func(tool string, arguments map[string]any) (is map[string]any) {
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
		require.NoError(t, err)
		text, err := json.Marshal(r.StructuredContent)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &is), "%s", text)
		return is
	}
}
