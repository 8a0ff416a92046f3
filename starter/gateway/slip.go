package gateway

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"
)

// slip is what an operator's order says about itself while it is carried out.
type slip struct {
	actor  string
	fields []zap.Field
}

type slipKey struct{}

// audited writes one line for each order of somebody who may come in at all, also
// for one that was refused: who, what, about what, and what became of it. Never
// the evidence or the payload.
func (g *Gateway) audited(n needs, next handler) handler {
	if n.order == "" {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		s := &slip{actor: who(r).name}
		err := next(w, r.WithContext(context.WithValue(r.Context(), slipKey{}, s)))
		outcome, reason := "done", ""
		if err != nil {
			outcome, reason = "not known", "internal"
			if p := (*problemError)(nil); errors.As(err, &p) {
				reason = p.Reason
				if p.Status < 500 {
					outcome = "refused"
				}
			}
		}
		g.audit.Info("order", append([]zap.Field{zap.String("actor", s.actor), zap.String("order", n.order), zap.String("target", target(r)),
			zap.String("outcome", outcome), zap.String("reason", reason), zap.Stringer("from", addressOf(r))}, s.fields...)...)
		return err
	}
}

// target names what an order is about.
func target(r *http.Request) string {
	switch tenant, key, operation := r.PathValue("tenant"), r.PathValue("key"), r.PathValue("operation"); {
	case key != "":
		return "task/" + tenant + "/" + key
	case tenant != "":
		return "tenant/" + tenant
	case operation != "":
		return "operation/" + operation
	}
	return "budget"
}

// note adds to the audit line of an order.
func note(r *http.Request, fields ...zap.Field) {
	if s, ok := r.Context().Value(slipKey{}).(*slip); ok {
		s.fields = append(s.fields, fields...)
	}
}

// signOrder names the actor of an order: with keys it is the key's name, whatever the
// order says.
func signOrder(r *http.Request, actor *string) {
	if c := who(r); c.name != "" {
		*actor = c.name
	}
	if s, ok := r.Context().Value(slipKey{}).(*slip); ok {
		s.actor = *actor
	}
}
