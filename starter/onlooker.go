package main

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"headgate/workers"
)

// watch is what looks on at a process: its metrics, and its traces if the environment
// asks for them.
type watch struct {
	metrics *workers.Metrics
	traces  *workers.Traces // nil: none
}

// newWatch begins to measure; the end of the process closes it.
func newWatch(ctx context.Context, service string, log *zap.Logger) (*watch, error) {
	traces, err := workers.NewTraces(ctx, service)
	if err != nil {
		return nil, withStatus(exitUsage, "%w", err)
	}
	if traces != nil {
		log.Info("traces are sent", zap.String("service", service))
	}
	return &watch{metrics: workers.NewMetrics(log), traces: traces}, nil
}

func (w *watch) close() {
	w.traces.Close()
	w.metrics.Close()
}

// provider is for spans of our own; nil: there are none.
func (w *watch) provider() trace.TracerProvider {
	if w.traces == nil {
		return nil
	}
	return w.traces.Provider
}
