package testsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"headgate/config"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// newWorld starts a world that ends with the test. The flags are for its server.
func newWorld(ctx context.Context, t *testing.T, flags ...string) *drill.World {
	t.Helper()
	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	if len(flags) > 0 {
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" '%s'\n", binaries.Server, strings.Join(flags, "' '"))
		binaries.Server = filepath.Join(t.TempDir(), "server")
		require.NoError(t, os.WriteFile(binaries.Server, []byte(script), 0o700))
	}
	world, err := drill.NewWorld(ctx, t.TempDir(), binaries)
	require.NoError(t, err)
	t.Cleanup(world.Close)
	return world
}

// play plays a case, which must end as it says, with every invariant kept.
func play(ctx context.Context, t *testing.T, world *drill.World, c drill.Case) {
	t.Helper()
	ended := false
	t.Cleanup(func() {
		if !ended { // the case gave up with the test
			t.Log(world.Logs(25))
		}
	})
	result := world.Play(ctx, c)
	ended = true
	if !result.Passed {
		var table strings.Builder
		require.NoError(t, drill.Report{Results: []drill.Result{result}, Failed: 1, Seconds: result.Seconds}.Table(&table))
		t.Errorf("%s\n%s\n%s", c.Title, table.String(), result.Logs)
	}
}

// declare adds tenants and operations to the world's configuration, each as lines
// of its section, and puts them in force.
func declare(ctx context.Context, t *testing.T, world *drill.World, tenants, operations string) {
	t.Helper()
	text, err := os.ReadFile(configuration(world))
	require.NoError(t, err)
	all := strings.Replace(string(text), "\ntenants:\n", "\ntenants:\n"+tenants, 1) + strings.ReplaceAll(operations, "PROVIDER", third(world))
	require.NoError(t, os.WriteFile(configuration(world), []byte(all), 0o600))
	restart(ctx, t, world.Control, world.Gateway)
	configure(ctx, t, world)
}

// configure has the budget decide by the world's file.
func configure(ctx context.Context, t *testing.T, world *drill.World) *config.Config {
	t.Helper()
	loaded, err := config.Load(configuration(world))
	require.NoError(t, err)
	update, err := plain(t, world).UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: contract.BudgetID(contract.DefaultBudget),
		UpdateName: contract.ConfigureUpdate, Args: []any{contract.ConfigureRequest{Policy: loaded.Budget, Actor: "operator"}},
		WaitForStage: client.WorkflowUpdateStageCompleted})
	require.NoError(t, err)
	var reply contract.ConfigureReply
	require.NoError(t, update.Get(ctx, &reply))
	require.Equal(t, loaded.PolicyDigest(), reply.After)
	return loaded
}

// third is the address of the world's provider.
func third(world *drill.World) string { return world.Provider.(*provider.Client).URL }

// configuration is the file that the world's processes read.
func configuration(world *drill.World) string { return filepath.Join(world.Dir, "headgate.yaml") }

// restart kills processes, all before the first is started again.
func restart(ctx context.Context, t *testing.T, processes ...*drill.Process) {
	t.Helper()
	kill(processes...)
	for _, p := range processes {
		require.NoError(t, p.Start(ctx))
	}
}

func kill(processes ...*drill.Process) {
	for _, p := range processes {
		p.Kill()
	}
}

// plain is a Temporal client that knows nothing of Headgate.
func plain(t *testing.T, world *drill.World) client.Client {
	t.Helper()
	return dial(t, world.Gateway.Proxy.Address())
}

// direct starts a task without the gateway.
func direct(ctx context.Context, c client.Client, in contract.TaskInput) (client.WorkflowRun, error) {
	return c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: contract.TaskID(in.Tenant, in.Key), TaskQueue: contract.ControlQueue},
		contract.TaskWorkflow, in)
}

// charge is the payload with which a scene submits a task, so that the same task
// can be asked for in other ways.
func charge(tenant, key string) json.RawMessage {
	return fmt.Appendf(nil, `{"amount":1200,"currency":"EUR","key":%q,"tenant":%q}`, contract.ProviderKey(tenant, key), tenant)
}

// reply is one answer of the gateway as it came.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) problem(t *testing.T) contract.Problem {
	t.Helper()
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"), "%d %s", r.status, r.body)
	var p contract.Problem
	require.NoError(t, json.Unmarshal(r.body, &p))
	require.Equal(t, r.status, p.Status)
	return p
}

func (r reply) view(t *testing.T) contract.TaskView {
	t.Helper()
	require.Equal(t, 2, r.status/100, "%d %s", r.status, r.body)
	var v contract.TaskView
	require.NoError(t, json.Unmarshal(r.body, &v))
	return v
}

func (r reply) page(t *testing.T) contract.TaskPage {
	t.Helper()
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	var p contract.TaskPage
	require.NoError(t, json.Unmarshal(r.body, &p))
	return p
}

// send sends a request as it is. An error means that no answer was read.
func send(ctx context.Context, world *drill.World, method, path string, header http.Header, body []byte) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, method, world.Door.URL+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if request.Header = header.Clone(); header == nil {
		request.Header = http.Header{}
	}
	if len(body) > 0 && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := world.Door.HTTP.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, text}, err
}

// order posts what has to be obeyed.
func order(ctx context.Context, t *testing.T, world *drill.World, path, body string) {
	t.Helper()
	answer, err := send(ctx, world, http.MethodPost, path, nil, []byte(body))
	require.NoError(t, err)
	require.Equal(t, 2, answer.status/100, "%s: %d %s", path, answer.status, answer.body)
}

// eventually asks until the answer is yes, for no more than a minute.
func eventually(ctx context.Context, t *testing.T, what string, ask func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(t, context.Cause(ctx), "waiting until %s", what)
		}
	}
}
