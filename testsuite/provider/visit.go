package provider

import (
	"context"
	"net/http"
	"time"
)

// visit is one request in hand. Only the request's own goroutine writes it; what
// others read (key, released) does not change after arrival.
type visit struct {
	id           int64
	on           Endpoint
	key          string
	keyed        bool // the key came as Idempotency-Key
	malformed    bool // will be refused, and takes no fault
	tenant       string
	amount       []byte // JSON, may be empty
	hash         string // of the body's bytes
	method, path string
	remote       string
	started      time.Time
	fault        *activeFault  // nil: healthy
	released     chan struct{} // closed by Release; nil if nothing holds this visit
	replayed     bool
}

// serve takes one request from arrival to answer. The order is the contract: it
// is counted, then served (where a fault may act), then counted as finished, and
// only then can the client see how it ended.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, v *visit, do func() answer) {
	v.method, v.path, v.remote = r.Method, r.URL.Path, r.RemoteAddr
	s.arrive(v)
	a := s.play(w, r, v, do)
	s.finish(v, a)
	a.send(w)
}

// arrive counts, and in the same instant takes the fault and the claim on the
// key: whoever saw the count can rely on both.
func (s *Server) arrive(v *visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.started = time.Now()
	s.requests++
	v.id = s.requests
	if !v.malformed {
		v.fault = s.faults.take(v.on, v.key)
	}
	if v.fault != nil {
		v.released = make(chan struct{})
		s.parked[v] = true
	}
	if v.on.effectful() {
		s.gauge.add(v.tenant, 1)
		if v.on == OnCharge && s.deduplicates(v) && !v.onItsWay() {
			s.book.claim(v, s.behaviour.KeyWindow)
		}
	}
	s.ledger.add(v.entry(EventRequest, v.started))
	s.counts.add(v.key, v.arrival())
}

// onItsWay is true for a late request: to the rest of the provider it has not
// come yet, so that another one with its key may overtake it.
func (v *visit) onItsWay() bool { return v.fault != nil && v.fault.Kind == Late }

// effectful tells that requests to the endpoint make effects.
func (e Endpoint) effectful() bool { return e == OnCharge || e == OnModel }

// arrival is what a visit counts for.
func (v *visit) arrival() Counts {
	switch v.on {
	case OnCharge, OnModel:
		return Counts{Requests: 1}
	case OnRead:
		return Counts{Reads: 1}
	default:
		return Counts{Lookups: 1}
	}
}

func (s *Server) finish(v *visit, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parked, v)
	e := v.entry(EventFinish, time.Now())
	e.Started, e.Status, e.Replayed = v.started, a.status, v.replayed
	s.ledger.add(e)
	if !v.on.effectful() {
		return
	}
	s.book.disown(v)
	s.gauge.add(v.tenant, -1)
	done := Counts{Finished: 1}
	if v.replayed {
		done.Replays = 1
	}
	s.counts.add(v.key, done)
}

// Reset implements Witness.
func (s *Server) Reset(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.reset()
	s.counts.reset()
	s.gauge.reset()
	s.ledger.reset()
	return nil
}

// Configure implements Witness.
func (s *Server) Configure(_ context.Context, b Behaviour) error {
	if err := b.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour = b
	return nil
}
