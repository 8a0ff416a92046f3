package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/errordetails/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/proxy"
)

const patience = 30 * time.Second

// frontend is a server that remembers what reached it.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	mu     sync.Mutex
	starts []string
	beats  int
	seen   metadata.MD
	left   time.Duration // of the last deadline
	polled chan struct{} // a long poll has come
}

func (f *frontend) StartWorkflowExecution(ctx context.Context, r *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, r.GetWorkflowId())
	f.seen, _ = metadata.FromIncomingContext(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		f.left = time.Until(deadline)
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h"))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "t"))
	if r.GetWorkflowId() == "taken" {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("is open", "request-1", "run-1")
	}
	return &workflowservice.StartWorkflowExecutionResponse{RunId: r.GetWorkflowId() + "-run"}, nil
}

func (f *frontend) RecordActivityTaskHeartbeat(context.Context, *workflowservice.RecordActivityTaskHeartbeatRequest) (*workflowservice.RecordActivityTaskHeartbeatResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats++
	return &workflowservice.RecordActivityTaskHeartbeatResponse{}, nil
}

// QueryWorkflow echoes, whatever the size.
func (f *frontend) QueryWorkflow(_ context.Context, r *workflowservice.QueryWorkflowRequest) (*workflowservice.QueryWorkflowResponse, error) {
	return &workflowservice.QueryWorkflowResponse{QueryResult: r.GetQuery().GetQueryArgs()}, nil
}

func (f *frontend) PollActivityTaskQueue(ctx context.Context, _ *workflowservice.PollActivityTaskQueueRequest) (*workflowservice.PollActivityTaskQueueResponse, error) {
	f.polled <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *frontend) started() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.starts...)
}

func setUp(t *testing.T) (*frontend, *proxy.Proxy, *grpc.ClientConn) {
	t.Helper()
	f := &frontend{polled: make(chan struct{}, 1)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(128<<20), grpc.MaxSendMsgSize(128<<20),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			answer, err := next(ctx, req)
			return answer, serviceerror.ToStatus(err).Err() // as the real frontend does
		}))
	workflowservice.RegisterWorkflowServiceServer(server, f)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	p, err := proxy.New(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	conn, err := grpc.NewClient("passthrough:///"+p.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name), grpc.MaxCallRecvMsgSize(128<<20), grpc.MaxCallSendMsgSize(128<<20)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return f, p, conn
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestACallGoesThroughUnchanged(t *testing.T) {
	f, p, conn := setUp(t)
	service := workflowservice.NewWorkflowServiceClient(conn)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "temporal-namespace", "default", "x-bin", "\x00\xff"), 20*time.Second)
	defer cancel()

	var header, trailer metadata.MD
	answer, err := service.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "a"}, grpc.Header(&header), grpc.Trailer(&trailer))
	require.NoError(t, err)
	require.Equal(t, "a-run", answer.GetRunId())
	require.Equal(t, []string{"h"}, header.Get("x-head"))
	require.Equal(t, []string{"t"}, trailer.Get("x-tail"))
	require.Equal(t, []string{"default"}, f.seen.Get("temporal-namespace"))
	require.Equal(t, []string{"\x00\xff"}, f.seen.Get("x-bin"))
	require.InDelta(t, 20, f.left.Seconds(), 2, "the deadline is the caller's")

	t.Run("an error keeps its code and details", func(t *testing.T) {
		_, err := service.StartWorkflowExecution(within(t), &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "taken"})
		got := status.Convert(err)
		require.Equal(t, codes.AlreadyExists, got.Code())
		require.Len(t, got.Details(), 1)
		require.Equal(t, "run-1", got.Details()[0].(*errordetails.WorkflowExecutionAlreadyStartedFailure).GetRunId())
	})
	t.Run("other services pass", func(t *testing.T) {
		health, err := grpc_health_v1.NewHealthClient(conn).Check(within(t), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus())
	})
	t.Run("an unknown method is the server's to refuse", func(t *testing.T) {
		_, err := service.CountWorkflowExecutions(within(t), &workflowservice.CountWorkflowExecutionsRequest{})
		require.Equal(t, codes.Unimplemented, status.Code(err))
	})
	t.Run("large messages pass", func(t *testing.T) {
		big := &common.Payloads{Payloads: []*common.Payload{{Data: bytes.Repeat([]byte("0123456789abcdef"), 5<<16)}}} // 5 MiB, above gRPC's default
		request := &workflowservice.QueryWorkflowRequest{Query: &querypb.WorkflowQuery{QueryArgs: big}}
		answer, err := service.QueryWorkflow(within(t), request)
		require.NoError(t, err)
		require.True(t, bytes.Equal(big.Payloads[0].Data, answer.GetQueryResult().GetPayloads()[0].GetData()))
	})
	t.Run("a long poll ends when its caller gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(within(t))
		polling := make(chan error, 1)
		go func() {
			_, err := service.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{})
			polling <- err
		}()
		<-f.polled
		cancel()
		require.Equal(t, codes.Canceled, status.Code(<-polling))
	})
	t.Run("a long poll can be cut", func(t *testing.T) {
		polling := make(chan error, 1)
		go func() {
			_, err := service.PollActivityTaskQueue(within(t), &workflowservice.PollActivityTaskQueueRequest{})
			polling <- err
		}()
		<-f.polled
		require.Zero(t, p.Cut("PollWorkflowTaskQueue"))
		require.Equal(t, 1, p.Cut("PollActivityTaskQueue"))
		require.Equal(t, codes.Unavailable, status.Code(<-polling))
	})
}

func TestAPointHoldsBeforeTheServer(t *testing.T) {
	f, p, conn := setUp(t)
	service := workflowservice.NewWorkflowServiceClient(conn)
	ctx := within(t)
	point := p.Place(proxy.Start(proxy.Before, "held"))
	_, err := service.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "other"})
	require.NoError(t, err, "a call that does not match passes")

	done := start(ctx, service, "held")
	require.NoError(t, point.Reached(ctx))
	require.Equal(t, []string{"other"}, f.started(), "the server has not seen it")
	_, err = service.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{WorkflowId: "held"})
	require.NoError(t, err, "one point holds one call")
	point.Release()
	require.NoError(t, <-done)
	require.Equal(t, []string{"other", "held", "held"}, f.started())

	dropped := p.Place(proxy.Start(proxy.Before, "dropped"))
	done = start(ctx, service, "dropped")
	require.NoError(t, dropped.Reached(ctx))
	dropped.Drop()
	require.Equal(t, codes.Unavailable, status.Code(<-done))
	require.Len(t, f.started(), 3, "a dropped call never arrives")
}

func TestAPointHoldsAfterTheServer(t *testing.T) {
	f, p, conn := setUp(t)
	service := workflowservice.NewWorkflowServiceClient(conn)
	ctx := within(t)
	point := p.Place(proxy.On[*workflowservice.StartWorkflowExecutionRequest](proxy.After, nil))
	require.Equal(t, codes.AlreadyExists, status.Code(<-start(ctx, service, "taken")), "a call that failed is not held")

	done := start(ctx, service, "a")
	require.NoError(t, point.Reached(ctx))
	require.Contains(t, f.started(), "a", "the server has done it")
	select {
	case err := <-done:
		t.Fatalf("the caller has its answer: %v", err)
	default:
	}
	point.Release()
	require.NoError(t, <-done)

	dropped := p.Place(proxy.Start(proxy.After, "b"))
	done = start(ctx, service, "b")
	require.NoError(t, dropped.Reached(ctx))
	dropped.Drop()
	require.Equal(t, codes.Unavailable, status.Code(<-done))
	require.Contains(t, f.started(), "b")
}

func TestAHeldCallEndsWithItsCaller(t *testing.T) {
	f, p, conn := setUp(t)
	service := workflowservice.NewWorkflowServiceClient(conn)
	point := p.Place(proxy.Start(proxy.Before, "a"))
	ctx, die := context.WithCancel(within(t))
	done := start(ctx, service, "a")
	require.NoError(t, point.Reached(within(t)))
	die()
	require.Equal(t, codes.Canceled, status.Code(<-done))
	require.NoError(t, <-start(within(t), service, "b"))
	require.Equal(t, []string{"b"}, f.started(), "a caller that died before the server sends nothing later")
}

func TestAnUnreachedPointSaysSo(t *testing.T) {
	_, p, conn := setUp(t)
	point := p.Place(proxy.Start(proxy.Before, "a"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	require.ErrorContains(t, point.Reached(ctx), "no call was held before StartWorkflowExecution")
	point.Release()
	require.NoError(t, <-start(within(t), workflowservice.NewWorkflowServiceClient(conn), "a"), "a released point holds nothing")
}

func TestBeatsAreToldApart(t *testing.T) {
	f, p, conn := setUp(t)
	service := workflowservice.NewWorkflowServiceClient(conn)
	ctx := within(t)
	point := p.Place(proxy.Beat(proxy.Before, "acme", "k", admission.StepDispatching))
	beat := func(tenant string, step admission.Step) error {
		data, err := json.Marshal(contract.Beat{Step: step, Attempt: 1, ProviderKey: contract.ProviderKey(tenant, "k")})
		require.NoError(t, err)
		_, err = service.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{
			Details: &common.Payloads{Payloads: []*common.Payload{{Data: data}}}})
		return err
	}
	require.NoError(t, beat("acme", admission.StepClaimed))
	require.NoError(t, beat("other", admission.StepDispatching))
	done := make(chan error, 1)
	go func() { done <- beat("acme", admission.StepDispatching) }()
	require.NoError(t, point.Reached(ctx))
	f.mu.Lock()
	require.Equal(t, 2, f.beats)
	f.mu.Unlock()
	point.Release()
	require.NoError(t, <-done)
}

func start(ctx context.Context, service workflowservice.WorkflowServiceClient, id string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := service.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{WorkflowId: id})
		done <- err
	}()
	return done
}
