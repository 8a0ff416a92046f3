package workers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
)

// traceEndpoints are the standard variables that switch traces on. What else OTEL_
// variables say (headers, sampling, attributes) holds as OpenTelemetry documents it.
var traceEndpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// flushFor bounds how long the last spans may take at the end.
const flushFor = 3 * time.Second

// Traces sends the spans of one process to a collector: OTLP over HTTP.
type Traces struct {
	Provider    trace.TracerProvider
	Interceptor interceptor.Interceptor // for the connection: see Watch
	close       func(context.Context) error
}

// Interceptors are those of a connection; of nil, none.
func (t *Traces) Interceptors() []interceptor.ClientInterceptor {
	if t == nil {
		return nil
	}
	return []interceptor.ClientInterceptor{t.Interceptor}
}

// NewTraces makes the traces of a process, which is told by the name of its service,
// if the environment names a collector; else it gives nil, and nothing is traced.
func NewTraces(ctx context.Context, service string) (*Traces, error) {
	if first(os.Getenv(traceEndpoints[0]), os.Getenv(traceEndpoints[1])) == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send traces as the OTEL_ variables say: %w", err)
	}
	// The environment's own name of the service comes first.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(), resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("name this process in traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	watched, err := TraceInterceptor(provider)
	if err != nil {
		return nil, errors.Join(err, provider.Shutdown(ctx))
	}
	return &Traces{Provider: provider, Interceptor: watched, close: provider.Shutdown}, nil
}

// TraceInterceptor carries the W3C trace context from whoever starts a task through
// the task to its attempts. Messages to and from the budgets are shared by many tasks
// and have no span.
func TraceInterceptor(provider trace.TracerProvider) (interceptor.Interceptor, error) {
	return opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
		Tracer:                  provider.Tracer("headgate"),
		TextMapPropagator:       propagation.TraceContext{},
		DisableSignalTracing:    true,
		DisableQueryTracing:     true,
		DisableUpdateTracing:    true,
		AllowInvalidParentSpans: true, // a trace is worth no task
	})
}

// Close sends what is left, for a few seconds. It may be called on nil.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushFor)
	defer cancel()
	_ = t.close(ctx) // the collector is not there: the spans are lost, and nothing else
}
