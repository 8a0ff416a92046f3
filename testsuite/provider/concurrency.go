package provider

import (
	"context"
	"maps"
)

// Gauge is a number of charge requests in hand at the same time: from the
// arrival of the last byte until the answer is about to leave, the client is
// seen to have gone, or the connection is broken.
type Gauge struct {
	Now int `json:"now"`
	Max int `json:"max"` // since the last Reset
}

// Concurrency is the gauge of all requests and that of each tenant that was
// named by the header X-Tenant or the body field "tenant".
type Concurrency struct {
	Gauge
	Tenants map[string]Gauge `json:"tenants"`
}

// gauge is guarded by the server's lock.
type gauge struct {
	all     Gauge
	tenants map[string]Gauge
}

func newGauge() gauge { return gauge{tenants: map[string]Gauge{}} }

func (g *gauge) add(tenant string, n int) {
	g.all = g.all.plus(n)
	if tenant != "" {
		g.tenants[tenant] = g.tenants[tenant].plus(n)
	}
}

func (g Gauge) plus(n int) Gauge {
	g.Now += n
	g.Max = max(g.Max, g.Now)
	return g
}

// reset starts the maxima again from what is in hand now.
func (g *gauge) reset() {
	g.all.Max = g.all.Now
	for tenant, of := range g.tenants {
		of.Max = of.Now
		g.tenants[tenant] = of
		if of.Now == 0 {
			delete(g.tenants, tenant)
		}
	}
}

// Concurrency implements Witness.
func (s *Server) Concurrency(context.Context) (Concurrency, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Concurrency{Gauge: s.gauge.all, Tenants: maps.Clone(s.gauge.tenants)}, nil
}
