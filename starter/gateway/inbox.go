package gateway

import (
	"fmt"

	"headgate/admission"
	"headgate/contract"
)

// nextStep says what a person can safely do about an outcome that is not known.
// Nothing on this list can make the effect happen a second time.
func nextStep(v contract.TaskView, s contract.Stand) string {
	ask := fmt.Sprintf("ask the provider about %s, then resolve with version %d", contract.ProviderKey(v.Tenant, v.Key), s.Version)
	switch {
	case s.Phase != contract.PhaseUnknown:
		return "wait: the look-ups are not over"
	case s.NextProbe != nil:
		return "wait for the look-up at " + clock(*s.NextProbe) + ", or " + ask
	}
	return ask
}

// hold tells what an unknown outcome keeps: what it took of interval resources
// stays charged, as it may have been used; its slots are free again.
func (g *Gateway) hold(v *contract.TaskView) {
	if v.Reconciliation == nil {
		return
	}
	for _, c := range v.Reconciliation.Cost {
		if r, ok := g.policy.Resource(c.Resource); ok && r.Per > 0 {
			v.Held = append(v.Held, admission.Cost{Resource: c.Resource, Amount: c.Amount})
		}
	}
}
