package gateway

import (
	"net/http"

	"go.uber.org/zap"

	"headgate/config"
	"headgate/contract"
)

// freeze is PUT /v1/operations/{operation}/freeze: no attempt of the operation gets
// a lease, and nothing of it that is not dispatched yet will be. The answer says
// how many attempts may still dispatch; the order again waits for the rest.
func (g *Gateway) freeze(w http.ResponseWriter, r *http.Request) error {
	return g.freezeOrder(w, r, true)
}

// unfreeze is PUT /v1/operations/{operation}/unfreeze.
func (g *Gateway) unfreeze(w http.ResponseWriter, r *http.Request) error {
	return g.freezeOrder(w, r, false)
}

func (g *Gateway) freezeOrder(w http.ResponseWriter, r *http.Request, frozen bool) error {
	op, err := g.declared(r)
	if err != nil {
		return err
	}
	order := contract.FreezeRequest{Operation: op.Name, Frozen: frozen}
	err = readOrder(w, r, map[string]any{"reason": &order.Reason, "actor": &order.Actor})
	if err == nil {
		err = checkWords(r, &order.Actor, order.Reason)
	}
	if err != nil {
		return err
	}
	if frozen && order.Reason == "" {
		return refuse("invalid_request", "reason is required: those who wait want to know why")
	}
	if err := g.may(order.Actor, config.RightPause); err != nil {
		return err
	}
	var done contract.FreezeReply
	if err := g.orderBudget(r.Context(), contract.FreezeUpdate, order, &done); err != nil {
		return err
	}
	note(r, zap.Bool("frozen", done.Freeze != nil), zap.Int("stopping", done.Stopping))
	return reply(w, http.StatusOK, done)
}
