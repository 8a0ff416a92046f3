package provider

import (
	"context"
	"net/http"
	"time"
)

// play runs one request through the fault it took. do makes the effect (or
// reads) and returns the healthy answer; where a kind calls it, and whether, is
// all that the kinds differ in. A fault counts as delivered right before it can
// be noticed.
func (s *Server) play(w http.ResponseWriter, r *http.Request, v *visit, do func() answer) answer {
	if v.fault == nil {
		return do()
	}
	f, client := v.fault.Fault, r.Context()
	switch f.Kind {
	case Before:
		s.delivered(v)
		return broken
	case After:
		do()
		s.delivered(v)
		return broken
	case Hang:
		a := do()
		s.delivered(v)
		return a.unless(s.pause(client, v, 0))
	case HangBefore:
		s.delivered(v)
		if s.pause(client, v, 0) {
			return broken
		}
		return do()
	case Late:
		s.delivered(v)
		if s.pause(context.WithoutCancel(client), v, f.Delay) {
			return broken // the provider is closing
		}
		return do().unless(client.Err() != nil)
	case Slow:
		var a answer
		if f.Commit {
			a = do()
		}
		s.delivered(v)
		if s.pause(client, v, f.Delay) {
			return broken
		}
		if !f.Commit {
			a = do()
		}
		return a
	case Status:
		if f.Commit {
			do()
		}
		a := problem(f.Status, "fault "+v.fault.ID)
		if v.on == OnModel {
			a = modelFault(f.Status, "", "")
		}
		a.retryAfter = f.RetryAfter
		s.remember(v, a)
		s.delivered(v)
		return a
	case Garbage:
		a := do()
		s.delivered(v)
		a.body = a.body[:len(a.body)/2]
		return a
	case Cut:
		a := do()
		s.delivered(v)
		a.head(w)
		_, _ = w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(w).Flush()
		return broken
	case Drip:
		a := do()
		s.delivered(v)
		return s.drip(w, client, v, a)
	}
	return do()
}

// dripPieces is how many writes spread a dripping body after its first byte.
const dripPieces = 8

// drip sends all but the last piece of a.
func (s *Server) drip(w http.ResponseWriter, client context.Context, v *visit, a answer) answer {
	push := http.NewResponseController(w)
	a.head(w)
	rest := a.body[1:]
	_, _ = w.Write(a.body[:1])
	for i := range dripPieces {
		_ = push.Flush() // a client that has left is noticed by the pause
		if s.pause(client, v, (v.fault.Delay+dripPieces-1)/dripPieces) {
			return broken
		}
		from, to := len(rest)*i/dripPieces, len(rest)*(i+1)/dripPieces
		if i == dripPieces-1 {
			a.body, a.begun = rest[from:], true
			break
		}
		_, _ = w.Write(rest[from:to])
	}
	return a
}

// pause waits for d, or if that is zero until the visit is released; a release
// ends it in both cases. It is true if the client left or the provider closes
// first, so that nobody is to be answered.
func (s *Server) pause(client context.Context, v *visit, d Duration) (gone bool) {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(time.Duration(d))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-client.Done():
		return true
	case <-s.done:
		return true
	case <-v.released:
		return client.Err() != nil
	case <-over:
		return client.Err() != nil
	}
}

func (s *Server) delivered(v *visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.fault.Delivered++
}

// Release implements Witness.
func (s *Server) Release(_ context.Context, key string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	released := 0
	for v := range s.parked {
		if pattern(key).matches(v.key) {
			close(v.released)
			delete(s.parked, v)
			released++
		}
	}
	return released, nil
}
