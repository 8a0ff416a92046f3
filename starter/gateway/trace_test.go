package gateway

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/client"
)

func TestSubmissionIsTraced(t *testing.T) {
	f, spans := &fake{}, tracetest.NewInMemoryExporter()
	g := New(Options{Client: f, Operations: operations{}, Now: func() time.Time { return start },
		Traces: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	require.Equal(t, 202, do(t, g, "POST", "/v1/tasks", body, "Idempotency-Key", "inv-42", "Traceparent", parent).StatusCode)
	require.Equal(t, 202, do(t, g, "POST", "/v1/tasks", body, "Idempotency-Key", "inv-43", "Traceparent", "00-junk").StatusCode)
	require.Equal(t, 400, do(t, g, "POST", "/v1/tasks", "{", "Idempotency-Key", "inv-44").StatusCode)
	f.update = func(client.UpdateWorkflowOptions) (any, error) { return nil, errors.New("no worker answers") }
	require.Equal(t, 503, do(t, g, "POST", "/v1/tasks", body, "Idempotency-Key", "inv-45").StatusCode)

	got := spans.GetSpans()
	require.Len(t, got, 4)
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", got[0].SpanContext.TraceID().String())
	require.Equal(t, "00f067aa0ba902b7", got[0].Parent.SpanID().String())
	require.False(t, got[1].Parent.IsValid(), "a header that is none begins a trace")
	require.Equal(t, codes.Unset, got[2].Status.Code, "the client's mistake is not ours")
	require.Equal(t, codes.Error, got[3].Status.Code)
	require.Equal(t, "budget_unavailable", got[3].Status.Description)
}
