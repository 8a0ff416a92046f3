package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"headgate/config"
)

// caller is who a request comes from.
type caller struct {
	name   string   // of the key, the actor of its orders; empty: the door is open, and orders name their own
	tenant string   // or config.AllTenants
	roles  []string // sorted
}

// anybody is the caller of a door without keys.
var anybody = caller{tenant: config.AllTenants, roles: []string{config.RoleOperate, config.RoleSubmit, config.RoleView}}

type callerKey struct{}

// who tells who a request comes from.
func who(r *http.Request) caller {
	if c, ok := r.Context().Value(callerKey{}).(caller); ok {
		return c
	}
	return anybody
}

// needs is what a route asks of its caller.
type needs struct {
	role  string // empty: no key at all
	all   bool   // not for the keys of one tenant: what it shows or does is everybody's
	order string // what an operator does; empty: it is no order
}

// Routes without a key: those that tell nothing of any tenant, and the callback
// of a provider, which is signed.
var nothing = needs{}

func views() needs                { return needs{role: config.RoleView} }
func viewsAll() needs             { return needs{role: config.RoleView, all: true} }
func submits() needs              { return needs{role: config.RoleSubmit} }
func orders(order string) needs   { return needs{role: config.RoleOperate, order: order} }
func ordersAll(word string) needs { return needs{role: config.RoleOperate, all: true, order: word} }

// authorize lets a request pass if its key may do what the route does. It comes
// before anything of the request is looked up: that a key is refused tells
// nothing of what is stored, and the answer is the same, byte by byte, whatever is.
func (g *Gateway) authorize(n needs, next handler) handler {
	permitted := g.audited(n, func(w http.ResponseWriter, r *http.Request) error {
		if err := who(r).may(n, r.PathValue("tenant")); err != nil {
			return err
		}
		return next(w, r)
	})
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := anybody, error(nil)
		if g.keys != nil && n.role != "" {
			c, err = g.identify(r)
		}
		if err := g.limit(r, c, err); err != nil {
			return err
		}
		return permitted(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	}
}

// identify finds the entry of the key that a request brings.
func (g *Gateway) identify(r *http.Request) (caller, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if len(r.Header.Values("Authorization")) == 1 && strings.EqualFold(scheme, "Bearer") {
		if k, ok := g.keys.now().Find(text); ok {
			return caller{k.Name, k.Tenant, k.Roles}, nil
		}
	}
	return caller{}, refuse("key_required", "send Authorization: Bearer and a valid API key; an operator makes one with `headgate keys new`")
}

// may refuses what is not the caller's. An empty tenant is judged by the handler.
func (c caller) may(n needs, tenant string) error {
	allowed := n.role == "" || n.role == config.RoleView || slices.Contains(c.roles, n.role)
	switch {
	case !allowed:
		return refuse("role_missing", "the key's roles do not allow this: it takes %s", n.role)
	case n.all && c.bound():
		return refuse("role_missing", "this is about all tenants: it takes a key that is bound to none")
	case tenant != "" && !c.owns(tenant):
		return foreign()
	}
	return nil
}

// bound tells whether the caller is kept to one tenant.
func (c caller) bound() bool { return c.tenant != config.AllTenants }

func (c caller) owns(tenant string) bool { return !c.bound() || c.tenant == tenant }

// foreign is the one answer to a key that reaches for another tenant.
func foreign() error {
	return refuse("tenant_forbidden", "the key is bound to another tenant")
}
