package admission

import (
	"math"
	"math/bits"
	"time"
)

// resource is the use of one Resource.
type resource struct {
	Resource
	used  int64 // concurrent
	asked int64 // concurrent: tasks that are held on it

	// Concurrent and adaptive: the limit in force, successes since it last grew,
	// when it last shrank, and until when the provider wants nothing.
	limit  int64
	credit int64
	shrunk time.Time
	held   time.Time

	// Interval: level was true at the time at. It is at most Burst, and negative
	// while a debt is paid off.
	level int64
	at    time.Time

	// Of the current round of grants only.
	aside   int64     // kept for a blocked head
	blocked bool      // a head waits for it: nothing behind may take it
	next    time.Time // interval: when the blocked head fits; zero: unknown
}

// refill brings an interval resource to now. The time that did not make up a
// whole unit stays in at, so that nothing is lost or gained by looking often.
func (r *resource) refill(now time.Time) {
	if r.Per == 0 || !now.After(r.at) {
		return
	}
	if r.level >= r.Burst {
		r.at = now
		return
	}
	units := mulDiv(int64(now.Sub(r.at)), r.Amount, int64(r.Per))
	if units >= r.Burst-r.level {
		r.level, r.at = r.Burst, now
		return
	}
	r.level += units
	r.at = r.at.Add(time.Duration(mulDiv(units, int64(r.Per), r.Amount)))
}

// need is the level at which an amount is let through.
func (r *resource) need(amount int64) int64 { return min(amount, r.Burst) }

// fits tells whether an amount can be taken now.
func (r *resource) fits(amount int64) bool {
	if r.Per > 0 {
		return r.level-r.aside >= r.need(amount)
	}
	// A cost above a shrunk limit goes alone, else it could never go.
	return r.used+r.aside+amount <= r.limit || r.used+r.aside == 0 && amount <= r.Concurrent
}

// when gives the time at which an interval resource lets an amount through.
func (r *resource) when(amount int64) time.Time {
	short := r.need(amount) - (r.level - r.aside)
	if short <= 0 {
		return r.at
	}
	// Rounded up: a wake-up that comes too early would find nothing to do.
	return r.at.Add(time.Duration(mulDiv(short, int64(r.Per), r.Amount)) + 1)
}

func (r *resource) take(amount int64) {
	if r.Per > 0 {
		r.level -= amount
	} else {
		r.used += amount
	}
}

// settle gives back what was reserved and was not used, or charges what was
// used beyond it. Concurrent slots always come back whole.
func (r *resource) settle(reserved, real int64) {
	if r.Per == 0 {
		r.used -= reserved
		return
	}
	r.level = min(r.level+reserved-real, r.Burst)
}

// mulDiv is a*b/c in 128 bits for non-negative arguments, clamped to int64.
func mulDiv(a, b, c int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(q)
}
