package activities

import (
	"sync"
	"time"
)

// Guard stands between an effect and its first byte. The checkpoint cannot
// fence a process that was stopped right after it and is resumed much later;
// only the process itself can, by asking the guard at the last moment.
//
// A type asks MaySend inside the write that would let the effect out, not
// before: what remains then is the time between that question and the system
// call behind it. A process that is stopped exactly there sends late, and only
// a key that the provider deduplicates by can help.
type Guard struct {
	now    func() time.Time
	sendBy time.Time

	mu      sync.Mutex
	used    bool
	refused error
}

// MaySend answers nil once, if the send-by time has not come and the attempt
// is not fenced. Every later question is refused: one attempt sends one effect,
// whatever retries a library hides.
func (g *Guard) MaySend() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.used:
		return errSent
	case g.refused == nil && past(g.now(), g.sendBy):
		g.refused = errTooLate
	}
	if g.refused != nil {
		return g.refused
	}
	g.used = true
	return nil
}

// SendBy is the latest time at which MaySend answers nil.
func (g *Guard) SendBy() time.Time { return g.sendBy }

// Refusal is why MaySend refused, nil if it did not.
func (g *Guard) Refusal() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// close refuses from now on, and tells whether the effect may be out already.
func (g *Guard) close(why error) (used bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.used && g.refused == nil {
		g.refused = why
	}
	return g.used
}

// clock is now, or the machine's own.
func clock(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// past compares by the monotonic clock and by the wall clock: the first goes on
// while the process is stopped and when the time is set back, the second while
// the machine sleeps.
func past(now, limit time.Time) bool {
	return now.After(limit) || now.Round(0).After(limit.Round(0))
}
