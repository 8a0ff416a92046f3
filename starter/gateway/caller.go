package gateway

import (
	"net/http"
	"slices"

	"headgate/config"
	"headgate/contract"
)

// caller is GET /v1/caller: who the gateway takes the client for.
func (g *Gateway) caller(w http.ResponseWriter, r *http.Request) error {
	c := who(r)
	answer := contract.Caller{Keys: g.keys != nil}
	if answer.Keys {
		answer.Name, answer.Tenant, answer.Roles, answer.Rights = c.name, c.tenant, c.roles, g.rightsOf(r, c)
	}
	return reply(w, http.StatusOK, answer)
}

// rightsOf are the decisions that a key may make, about tasks that others asked
// for.
func (g *Gateway) rightsOf(r *http.Request, c caller) (rights []string) {
	if !slices.Contains(c.roles, config.RoleOperate) {
		return nil
	}
	for _, right := range []string{config.RightApprove, config.RightPause, config.RightResolve} {
		if g.mayDecide(r, c.name, right, contract.TaskView{}) == nil {
			rights = append(rights, right)
		}
	}
	return rights
}
