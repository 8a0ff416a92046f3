package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxClients bounds how many clients are told apart. The others share one rate,
// so that a crowd of addresses gains nothing.
const maxClients = 10_000

// rates bound how often each client asks: a token bucket for each, which holds
// two seconds' worth.
type rates struct {
	limit   rate.Limit // a second; zero: no bound
	mu      sync.Mutex
	clients map[string]*rate.Limiter
	crowd   *rate.Limiter
}

func newRates(perSecond float64) *rates {
	r := &rates{limit: rate.Limit(perSecond), clients: map[string]*rate.Limiter{}}
	r.crowd = r.bucket()
	return r
}

func (r *rates) bucket() *rate.Limiter { return rate.NewLimiter(r.limit, max(1, int(2*r.limit))) }

// take counts one request. Zero: it may go on; else it may come back after that
// long, and has not been counted.
func (r *rates) take(now time.Time, client string) time.Duration {
	if r.limit <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.clients[client]
	if b == nil {
		if len(r.clients) >= maxClients {
			r.forget(now)
		}
		if b = r.crowd; len(r.clients) < maxClients {
			b = r.bucket()
			r.clients[client] = b
		}
	}
	place := b.ReserveN(now, 1)
	wait := place.DelayFrom(now)
	if wait > 0 {
		place.CancelAt(now)
	}
	return wait
}

// forget drops the clients whose buckets are full again: a new bucket is the same.
func (r *rates) forget(now time.Time) {
	for client, b := range r.clients {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(r.clients, client)
		}
	}
}

// limit refuses a client that asks too often. It comes before everything else, so
// nothing is known about what was asked, not even whether it was accepted before.
// Those on this machine who show no key are not counted: by default the door is
// theirs alone.
func (g *Gateway) limit(r *http.Request, c caller, refused error) error {
	client := "key " + c.name
	if c.name == "" {
		address := addressOf(r)
		if refused == nil && address.IsLoopback() {
			return nil
		}
		client = "address " + network(address)
	}
	if wait := g.rates.take(g.now(), client); wait > 0 {
		return refuse("client_rate", "more than %v requests a second; this one was not looked at: if its key has a task, nothing has changed. The same request is safe to send again", float64(g.rates.limit)).later(wait)
	}
	return refused
}

// addressOf is where a request comes from: the other end of the connection. What
// headers say about it anybody can write.
func addressOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(host)
	return address.Unmap()
}

// network is what one client surely has of its own: an address, or the lower half
// of an IPv6 one.
func network(address netip.Addr) string {
	if address.Is6() {
		if p, err := address.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return address.String()
}
