package gateway

import (
	"sync"
	"time"
)

// tallyEvery is the least time between two log lines about one reason.
const tallyEvery = time.Second

// tally keeps a flood of refusals out of the log: of each reason the first is
// told at once, and what follows within a second in one number. Reasons are
// those of the catalogue, so that it stays small. The zero value is ready.
type tally struct {
	mu   sync.Mutex
	seen map[string]*count
}

type count struct {
	told time.Time
	n    int // since then
}

// add counts a refusal, and tells how many to log; zero: none yet.
func (t *tally) add(now time.Time, reason string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.seen[reason]
	if c == nil {
		c = &count{}
		if t.seen == nil {
			t.seen = map[string]*count{}
		}
		t.seen[reason] = c
	}
	c.n++
	if now.Sub(c.told) < tallyEvery {
		return 0
	}
	n := c.n
	c.told, c.n = now, 0
	return n
}
