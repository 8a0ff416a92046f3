package provider

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Counts is what the provider saw for a key since the last Reset. It is also
// what to wait for; see Witness.WaitFor.
type Counts struct {
	Requests int       `json:"requests"`       // POST /charges, and calls of the model, that arrived, with whatever answer
	Effects  int       `json:"effects"`        // charges and answers of the model made
	Replays  int       `json:"replays"`        // requests answered with a first answer again
	Finished int       `json:"finished"`       // of the requests, those no longer in hand
	Lookups  int       `json:"lookups"`        // GET /charges that arrived, by key or as a list
	Reads    int       `json:"reads"`          // GET /read that arrived
	First    time.Time `json:"first,omitzero"` // of the effects
	Last     time.Time `json:"last,omitzero"`  // of the effects
}

func (c Counts) plus(d Counts) Counts {
	c.Requests += d.Requests
	c.Effects += d.Effects
	c.Replays += d.Replays
	c.Finished += d.Finished
	c.Lookups += d.Lookups
	c.Reads += d.Reads
	if c.First.IsZero() || !d.First.IsZero() && d.First.Before(c.First) {
		c.First = d.First
	}
	if d.Last.After(c.Last) {
		c.Last = d.Last
	}
	return c
}

func (c Counts) reaches(want Counts) bool {
	return c.Requests >= want.Requests && c.Effects >= want.Effects && c.Replays >= want.Replays &&
		c.Finished >= want.Finished && c.Lookups >= want.Lookups && c.Reads >= want.Reads
}

// counter keeps the counts by key and wakes those who wait for them. The
// server's lock guards it.
type counter struct {
	all     Counts
	byKey   map[string]*Counts
	waiters []*waiter
}

// waiter carries its own running sum, so that a count costs the same however
// many keys a pattern covers.
type waiter struct {
	key        pattern
	have, want Counts
	met        chan struct{}
}

func newCounter() counter { return counter{byKey: map[string]*Counts{}} }

func (c *counter) of(key pattern) Counts {
	if key.exact() {
		if known := c.byKey[string(key)]; known != nil {
			return *known
		}
		return Counts{}
	}
	if key == "" || key == "*" {
		return c.all
	}
	var sum Counts
	for k, known := range c.byKey { // the sum does not depend on the order
		if key.matches(k) {
			sum = sum.plus(*known)
		}
	}
	return sum
}

func (c *counter) add(key string, d Counts) {
	c.all = c.all.plus(d)
	if key != "" {
		known := c.byKey[key]
		if known == nil {
			known = new(Counts)
			c.byKey[key] = known
		}
		*known = known.plus(d)
	}
	c.waiters = slices.DeleteFunc(c.waiters, func(w *waiter) bool {
		if !w.key.matches(key) {
			return false
		}
		w.have = w.have.plus(d)
		if !w.have.reaches(w.want) {
			return false
		}
		close(w.met)
		return true
	})
}

func (c *counter) reset() {
	c.all = Counts{}
	clear(c.byKey)
	for _, w := range c.waiters {
		w.have = Counts{}
	}
}

// Effects implements Witness.
func (s *Server) Effects(_ context.Context, key string) (Counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.of(pattern(key)), nil
}

// WaitFor implements Witness.
func (s *Server) WaitFor(ctx context.Context, key string, want Counts) error {
	_, err := s.await(ctx, key, want)
	return err
}

// await returns the counts at the moment that want was reached, or that the
// wait ended without.
func (s *Server) await(ctx context.Context, key string, want Counts) (Counts, error) {
	s.mu.Lock()
	w := &waiter{key: pattern(key), have: s.counts.of(pattern(key)), want: want, met: make(chan struct{})}
	if w.have.reaches(want) {
		s.mu.Unlock()
		return w.have, nil
	}
	s.counts.waiters = append(s.counts.waiters, w)
	s.mu.Unlock()

	var cause error
	select {
	case <-w.met: // nobody writes to w any more
		return w.have, nil
	case <-ctx.Done():
		cause = ctx.Err()
	case <-s.done:
		cause = ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.waiters = slices.DeleteFunc(s.counts.waiters, func(o *waiter) bool { return o == w })
	if w.have.reaches(want) { // met in the same instant
		return w.have, nil
	}
	return w.have, missed(key, want, w.have, cause)
}

func missed(key string, want, have Counts, cause error) error {
	return fmt.Errorf("provider: wait for key %q: want %s, have %s: %w", key, want, have, cause)
}

// String is the numbers alone.
func (c Counts) String() string {
	return fmt.Sprintf("{requests %d, effects %d, replays %d, finished %d, lookups %d, reads %d}",
		c.Requests, c.Effects, c.Replays, c.Finished, c.Lookups, c.Reads)
}
