package gateway

import (
	"errors"
	"net/http"

	spanattribute "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"headgate/contract"
)

// traced gives a submission a span: a child of the caller's, if the request has a
// W3C trace context, and the parent of the task's. A header that is not one is
// ignored, as the standard wants it.
func (g *Gateway) traced(submit handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if g.tracer == nil {
			return submit(w, r)
		}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := g.tracer.Start(ctx, "POST /v1/tasks", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		err := submit(w, r.WithContext(ctx))
		var p *problemError
		switch {
		case errors.As(err, &p):
			span.SetAttributes(spanattribute.String("headgate."+contract.ReasonLabel, p.Reason), spanattribute.Int("http.response.status_code", p.Status))
			if p.Status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, p.Reason)
			}
		case err != nil:
			span.SetStatus(codes.Error, "internal")
		}
		return err
	}
}
