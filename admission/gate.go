package admission

import (
	"slices"
	"time"
)

// WhenFull says what a full queue does to an operation's new tasks.
type WhenFull string

// What a full queue does. The zero value is WhenFullReject.
const (
	WhenFullReject WhenFull = "reject"
	// WhenFullDefer takes the task into the reserve that critical work has.
	WhenFullDefer WhenFull = "defer"
	// WhenFullDropOldest ends the tenant's oldest waiting task of the operation
	// and takes the new one: for refresh-like work, of which only the newest counts.
	WhenFullDropOldest WhenFull = "drop_oldest"
)

// OperationPolicy is what a budget knows of an operation.
type OperationPolicy struct {
	Name     string   `json:"name"`
	WhenFull WhenFull `json:"when_full,omitempty"`
	Breaker  Breaker  `json:"breaker,omitzero"`
	// UnknownCeiling bounds each tenant's tasks in doubt: those, and the leases that
	// may add to them, are never more. Zero: that of the policy.
	UnknownCeiling int `json:"unknown_ceiling,omitempty"`
}

// Breaker opens after so many failures in a row that tell of the provider's
// health: connection errors, 5xx, answers that never came. Refusals of one
// request (4xx) say nothing about it; 429 holds instead.
type Breaker struct {
	Failures int      `json:"failures,omitempty"` // zero: 5; negative: no breaker
	Open     Duration `json:"open,omitempty"`     // zero: 10s; doubles while it opens again
	MaxOpen  Duration `json:"max_open,omitempty"` // zero: 5m
}

// Adapt lets a concurrent resource's limit follow what the provider bears:
// after 429 or overload it shrinks by three tenths, at most once a second, and
// grows by one for each limit's worth of successes (AIMD; Chiu, Jain 1989).
type Adapt struct {
	Min int64 `json:"min"` // never below; at least 1
}

const (
	shrinkWindow = time.Second
	// HoldMax bounds what a provider's Retry-After can do.
	HoldMax = time.Hour
	// HoldReject is the rest of a hold from which on new work is refused rather
	// than queued: a queued task keeps its turn and costs nothing.
	HoldReject = 30 * time.Second
	holdFirst  = time.Second // after a 429 that names no time; doubles
	holdLast   = time.Minute
)

// gate is the door of one operation: held by Retry-After, or broken. When a
// hold or an open time ends, one attempt goes first and decides.
type gate struct {
	Name     string    `json:"name"`
	Held     time.Time `json:"held,omitzero"`      // until then
	Strikes  int       `json:"strikes,omitempty"`  // refusals in a row
	Failures int       `json:"failures,omitempty"` // in a row
	Open     time.Time `json:"open,omitzero"`      // until then
	Opens    int       `json:"opens,omitempty"`    // in a row
	Half     bool      `json:"half,omitempty"`     // one attempt goes first
	Probe    attemptID `json:"probe,omitzero"`     // that one
	Frozen   *Freeze   `json:"frozen,omitempty"`   // by a person or a finding
}

// attemptID names an attempt in a snapshot.
type attemptID struct {
	Task string `json:"task,omitempty"`
	N    int    `json:"n,omitempty"`
}

func (g *gate) until() time.Time {
	if g.Open.After(g.Held) {
		return g.Open
	}
	return g.Held
}

// passes tells whether an attempt may go.
func (g *gate) passes(now time.Time) bool {
	return g.Frozen == nil && !g.until().After(now) && (!g.Half || g.Probe.Task == "")
}

// reason names what is not plainly open about the door.
func (g *gate) reason(now time.Time) Reason {
	switch {
	case g.Frozen != nil:
		return OperationFrozen
	case g.Open.After(now):
		return BreakerOpen
	case g.Held.After(now):
		return ProviderHold
	case g.Half:
		return BreakerProbe
	}
	return ""
}

func (g *gate) view(now time.Time) (GateView, bool) {
	v := GateView{Operation: g.Name, State: g.reason(now), Probe: g.Probe.Task}
	if g.Frozen != nil {
		frozen := *g.Frozen
		v.Frozen = &frozen
	} else if until := g.until(); until.After(now) {
		v.Until = &until
	}
	return v, v.State != ""
}

func (s *State) gate(operation string) *gate {
	i, ok := slices.BinarySearchFunc(s.gates, operation, func(g *gate, n string) int { return compare(g.Name, n) })
	if !ok {
		s.gates = slices.Insert(s.gates, i, &gate{Name: operation})
	}
	return s.gates[i]
}

// judge takes what an attempt tells about its provider.
func (s *State) judge(it *item, r Report) {
	g := it.class.gate
	probe := g.Probe == attemptID{it.req.Task, it.req.Attempt}
	if probe {
		g.Probe = attemptID{}
	}
	switch health(r) {
	case well:
		if g.Half && !probe || g.Open.After(s.now) {
			return // it was sent before the trouble
		}
		g.Half, g.Strikes, g.Failures, g.Opens = false, 0, 0, 0
		s.grow(it)
	case limited:
		hold := r.RetryAfter.D()
		if hold <= 0 {
			hold = min(holdFirst<<min(g.Strikes, 10), holdLast)
		}
		if !g.Held.After(s.now) {
			g.Strikes++
		}
		s.hold(it, s.now.Add(min(hold, HoldMax)))
		s.shrink(it)
	case ill:
		if r.RetryAfter > 0 {
			s.hold(it, s.now.Add(min(r.RetryAfter.D(), HoldMax)))
			s.shrink(it)
		}
		b := s.policy.operation(g.Name).Breaker
		if g.Open.After(s.now) {
			return
		}
		if g.Failures++; b.Failures > 0 && (g.Failures >= b.Failures || probe) {
			g.Open = s.now.Add(min(b.Open.D()<<min(g.Opens, 10), b.MaxOpen.D()))
			g.Opens++
			s.recheck = true
			g.Half, g.Failures = true, 0
		}
	}
}

type condition int

const (
	silent  condition = iota // the attempt says nothing about the provider
	well                     // it answered as it should
	limited                  // it asked for less
	ill                      // it is broken or cannot be reached
)

// health reads a report. A refusal of one request for its content shows a
// provider that works.
func health(r Report) condition {
	switch r.Class {
	case Succeeded:
		return well
	case Failed:
		return silent
	case Refused:
		if r.Reason == "rate_limited" || r.Reason == "overloaded" || r.RetryAfter > 0 {
			return limited
		}
		return ill
	case NotDispatched:
		if r.Reason == "connection_failed" {
			return ill
		}
	case Unknown:
		if r.Reason != "worker_error" && r.Grace == 0 { // a lost worker is not the provider's doing
			return ill
		}
	}
	return silent
}

// hold stops the operation, and everything that needs the same adaptive
// resources, for everybody.
func (s *State) hold(it *item, until time.Time) {
	s.recheck = true
	g := it.class.gate
	if until.After(g.Held) {
		g.Held = until
	}
	g.Half = true
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Adapt != nil && until.After(s.resources[i].held) {
			s.resources[i].held = until
		}
	}
}

func (s *State) shrink(it *item) {
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok {
			s.resources[i].shrink(s.now)
		}
	}
}

func (s *State) grow(it *item) {
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok {
			s.resources[i].grow()
		}
	}
}

func (r *resource) shrink(now time.Time) {
	if r.Adapt == nil || now.Sub(r.shrunk) < shrinkWindow {
		return
	}
	r.limit = max(r.Adapt.Min, r.limit*7/10, 1)
	r.shrunk, r.credit = now, 0
}

func (r *resource) grow() {
	if r.Adapt == nil || r.limit >= r.Concurrent {
		return
	}
	if r.credit++; r.credit >= r.limit {
		r.limit++
		r.credit = 0
	}
}

// Retries are work, and a tenant whose tasks mostly fail is not to fill its
// share with them: beyond a small stock, a tenant may retry one in five of its
// first attempts, and in any case one in ten seconds. What goes beyond waits.
const (
	retryUnit  = 1000
	retryEarn  = retryUnit / 5 // for each first attempt
	retryStock = 10 * retryUnit
	retryEvery = 10 * time.Second // for one unit by time alone
)

// retryBudget is a tenant's stock of retries, in thousandths.
type retryBudget struct {
	Spent int64     `json:"spent,omitempty"` // of the stock; above it: promised to later retries
	At    time.Time `json:"at,omitzero"`
}

func (b *retryBudget) earn() { b.Spent = max(0, b.Spent-retryEarn) }

// spend gives the time from which on a retry may go.
func (b *retryBudget) spend(now time.Time) time.Time {
	if now.After(b.At) {
		if !b.At.IsZero() {
			b.Spent = max(0, b.Spent-mulDiv(int64(now.Sub(b.At)), retryUnit, int64(retryEvery)))
		}
		b.At = now
	}
	b.Spent += retryUnit
	if over := b.Spent - retryStock; over > 0 {
		return now.Add(time.Duration(mulDiv(over, int64(retryEvery), retryUnit)))
	}
	return now
}
