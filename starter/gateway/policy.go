package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/contract"
)

const (
	// maxPolicy bounds the body that configures a budget.
	maxPolicy = 4 << 20
	// pastTimeout bounds the reading of a budget's history.
	pastTimeout = 20 * time.Second
)

// BudgetView is the answer of GET /v1/budget.
type BudgetView struct {
	Policy admission.Policy `json:"policy"` // in force
	Digest string           `json:"digest"`
	File   string           `json:"file_digest"` // of the policy in this gateway's file
	Same   bool             `json:"same"`        // as in the file
}

// budgetView is GET /v1/budget.
func (g *Gateway) budgetView(w http.ResponseWriter, r *http.Request) error {
	view, err := g.InForce(r.Context())
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, view)
}

// InForce reads the policy that the running budget decides by. The budget tells
// its digest; the policy itself is in our file, or in the budget's history.
func (g *Gateway) InForce(ctx context.Context) (BudgetView, error) {
	for try := 1; ; try++ {
		var now admission.View
		if err := g.ask(ctx, &now, contract.SnapshotQuery); err != nil {
			return BudgetView{}, err
		}
		view := BudgetView{Policy: g.policy, Digest: now.Policy, File: g.digest, Same: now.Policy == g.digest}
		if view.Same {
			return view, nil
		}
		var err error
		if view.Policy, err = g.pastPolicy(ctx); err != nil {
			return BudgetView{}, upstream("budget_unavailable", err)
		}
		if view.Policy.Digest() == now.Policy {
			return view, nil
		}
		if try == 3 { // it was configured in between; not three times
			return BudgetView{}, refuse("budget_unavailable", "the budget's policy cannot be read from its history").soon()
		}
	}
}

// pastPolicy reads the policy off the history of the budget's run: the one that
// it began with, and what configured it since.
func (g *Gateway) pastPolicy(ctx context.Context) (admission.Policy, error) {
	ctx, cancel := context.WithTimeout(ctx, pastTimeout)
	defer cancel()
	events, err := g.history(ctx, contract.BudgetID(g.budget), "", enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	if err != nil {
		return admission.Policy{}, err
	}
	return policyOf(events), nil
}

func policyOf(events []*historypb.HistoryEvent) admission.Policy {
	var policy admission.Policy
	became := outcomes(events)
	for _, e := range events {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
			var in contract.BudgetInput
			if decode(e.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in) {
				policy = in.Policy
			}
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
			var in contract.ConfigureRequest
			input := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
			if input.GetName() == contract.ConfigureUpdate && became[e.GetEventId()].GetSuccess() != nil && decode(input.GetArgs(), &in) {
				policy = in.Policy.Normalize()
			}
		}
	}
	return policy
}

// configure is PUT /v1/budget: another policy, and who gives the order.
func (g *Gateway) configure(w http.ResponseWriter, r *http.Request) error {
	var order contract.ConfigureRequest
	body, err := readBody(w, r, maxPolicy)
	if err != nil {
		return err
	}
	if body == nil {
		return refuse("invalid_request", "the body is empty: want a policy and an actor")
	}
	var policy json.RawMessage
	if err := decodeStrict(body, map[string]any{"policy": &policy, "actor": &order.Actor}); err != nil {
		return err
	}
	if len(policy) == 0 || string(policy) == "null" {
		return refuse("invalid_request", "policy is required: what the budget is to decide by")
	}
	d := json.NewDecoder(bytes.NewReader(policy))
	d.DisallowUnknownFields() // a limit that is misspelt would be no limit
	if err := d.Decode(&order.Policy); err != nil {
		return refuse("invalid_request", "the field \"policy\": %s", plain(err))
	}
	signOrder(r, &order.Actor)
	done, err := g.Configure(r.Context(), order)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, done)
}

// Configure puts a policy in force. What is leased stays leased.
func (g *Gateway) Configure(ctx context.Context, order contract.ConfigureRequest) (contract.ConfigureReply, error) {
	var done contract.ConfigureReply
	if err := checkLengths(&order.Actor, ""); err != nil {
		return done, err
	}
	order.Policy = order.Policy.Normalize()
	if err := order.Policy.Validate(); err != nil {
		return done, refuse("invalid_request", "%v", err)
	}
	if err := g.orderBudget(ctx, contract.ConfigureUpdate, order, &done); err != nil {
		return done, err
	}
	g.log.Info("budget configured", zap.String("actor", order.Actor), zap.String("before", done.Before), zap.String("after", done.After))
	return done, nil
}
