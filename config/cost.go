package config

import (
	"fmt"

	"cel.dev/cel-go/common/types"

	"headgate/admission"
)

// Cost is what an operation takes of one resource: a fixed amount, or an
// expression over the payload.
type Cost struct {
	Resource   string `json:"resource"`
	Amount     int64  `json:"amount,omitempty"`
	Expression string `json:"expression,omitempty"` // CEL over payload; empty: Amount

	p *program
}

func (c *Cost) compile() error {
	p, err := costs.compile(c.Expression)
	c.p = p
	return err
}

// constant tells that the cost is the same for all payloads.
func (c *Cost) constant() bool { return c.p == nil || c.p.constant }

// amount is the cost of one payload, as the variables of its expression.
func (c *Cost) amount(vars map[string]any, budget admission.Policy) (admission.Cost, *ResolveError) {
	out := admission.Cost{Resource: c.Resource, Amount: c.Amount}
	if c.p != nil {
		v, err := c.p.evaluate(vars)
		if err != nil {
			return out, refuse(InvalidPayload, "the cost of %s cannot be told from the payload: %v", c.Resource, err)
		}
		n, ok := v.(types.Int)
		if !ok {
			return out, refuse(InvalidPayload, "the cost of %s cannot be told from the payload: %q gives %s, want a whole number; int(...) makes one",
				c.Resource, c.Expression, v.Type().TypeName())
		}
		if n < 1 {
			return out, refuse(InvalidPayload, "the cost of %s comes out as %d: it must be at least 1", c.Resource, n)
		}
		out.Amount = int64(n)
	}
	if reason, detail := budget.CheckCost([]admission.Cost{out}); reason != "" {
		return out, refuse(string(reason), "%s", detail)
	}
	return out, nil
}

func refuse(code, format string, args ...any) *ResolveError {
	return &ResolveError{Code: code, Detail: fmt.Sprintf(format, args...)}
}
