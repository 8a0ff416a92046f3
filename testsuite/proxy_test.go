package testsuite

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/proxy"
)

// The proxy between the real SDK and the real server: long polls go on, a beat
// that is held after the server is durable while its caller still waits for it,
// and a call that is dropped before the server has left no trace.
func TestProxyBetweenTheSDKAndTheServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	program, err := drill.BuildServer(ctx, dir)
	require.NoError(t, err)
	ports, err := drill.FreePorts(1)
	require.NoError(t, err)
	server := drill.NewServer(dir, program, ports[0])
	require.NoError(t, server.Start(ctx))
	t.Cleanup(server.Kill)
	between, err := proxy.New("127.0.0.1:" + ports[0])
	require.NoError(t, err)
	t.Cleanup(between.Close)

	direct := dial(t, "127.0.0.1:"+ports[0])
	through := dial(t, between.Address())

	const queue, tenant, key = "proxied", "acme", "k"
	returned := make(chan error, 1)
	w := worker.New(through, queue, worker.Options{})
	w.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		err := through.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken,
			contract.Beat{Step: admission.StepDispatching, ProviderKey: contract.ProviderKey(tenant, key)})
		returned <- err
		return "done", err
	}, activity.RegisterOptions{Name: "effect"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (result string, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		err = workflow.ExecuteActivity(ctx, "effect").Get(ctx, &result)
		return result, err
	}, workflow.RegisterOptions{Name: "Task"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	beat := between.Place(proxy.Beat(proxy.After, tenant, key, admission.StepDispatching))
	start := between.Place(proxy.Start(proxy.Before, "one"))
	go func() {
		_ = start.Reached(ctx)
		_, err := describe(ctx, direct, "one")
		if err == nil {
			t.Error("the held start has reached the server")
		}
		start.Drop() // the SDK sends it again
	}()
	run, err := through.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "one", TaskQueue: queue}, "Task")
	require.NoError(t, err)

	require.NoError(t, beat.Reached(ctx))
	description, err := describe(ctx, direct, "one")
	require.NoError(t, err)
	require.Len(t, description.GetPendingActivities(), 1)
	var stored contract.Beat
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(description.PendingActivities[0].GetHeartbeatDetails(), &stored))
	require.Equal(t, admission.StepDispatching, stored.Step, "the beat is durable")
	require.Empty(t, returned, "its caller does not know yet")

	beat.Release()
	require.NoError(t, <-returned)
	var result string
	require.NoError(t, run.Get(ctx, &result))
	require.Equal(t, "done", result)
}

func describe(ctx context.Context, c client.Client, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return c.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: "default", Execution: &common.WorkflowExecution{WorkflowId: id}})
}

func dial(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: address, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func quiet() log.Logger {
	return log.NewStructuredLogger(slog.New(slog.DiscardHandler))
}
