package admission

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The cases of the list of failures that a script cannot hold: they are about
// numbers. The others are testdata/case-*.txt.

// TestA16SoftThenHardLimit fills a queue that nothing leaves. Whoever holds more
// than its share is refused from the soft limit on, everybody else from the hard
// one, and critical work when its reserve is full too.
func TestA16SoftThenHardLimit(t *testing.T) {
	p := slots(1)
	p.Queue = QueuePolicy{Soft: 40, Hard: 60, CriticalReserve: 5}
	w := newSim(t, p, uneven)
	require.Equal(t, Run, w.submit(one("first", Normal)).Action)
	// 1. Below the soft limit everybody comes in, however greedy.
	for range 40 {
		require.True(t, w.submit(one("greedy", Normal)).Accepted())
	}
	// 2. At the soft limit the greedy one and low work are out, the others are in.
	for i := range 20 {
		v := w.submit(one("greedy", Normal))
		require.Equal(t, OverShare, v.Reason)
		require.Positive(t, v.RetryAfter)
		require.Equal(t, OverShare, w.submit(one(fmt.Sprintf("low%d", i), Low)).Reason)
		require.True(t, w.submit(one(fmt.Sprintf("fair%d", i), Normal)).Accepted())
	}
	// 3. At the hard limit nobody comes in but critical work, until its reserve is full.
	for i := range 10 {
		require.Equal(t, QueueFull, w.submit(one(fmt.Sprintf("late%d", i), High)).Reason)
		v := w.submit(one("greedy", Critical))
		require.Equal(t, i < 5, v.Accepted(), v.Detail)
		if i >= 5 {
			require.Equal(t, QueueFull, v.Reason)
			require.Positive(t, v.RetryAfter)
		}
	}
	require.Equal(t, 65, w.s.depth)
	// 4. A retry was accepted long ago: it is never refused, and the depth is above
	// hard and reserve by no more than what was leased.
	first := w.s.leases()[0].req
	w.s.Report(w.now, Report{Task: first.Task, Attempt: 1, Kind: Released, Class: Refused, Reason: "rate_limited", RetryAfter: Duration(time.Minute)})
	first.Attempt = 2
	w.s.Ask(w.now, first, false)
	require.Equal(t, 66, w.s.depth)
	require.Equal(t, QueueFull, w.submit(one("late", Critical)).Reason)
	// 5. All that was accepted is served, but for the retry, whose task is cancelled.
	w.s.Report(w.now, Report{Task: first.Task, Attempt: 2, Kind: Withdrawn})
	w.ends = nil // that of the first attempt
	w.until(start.Add(time.Hour), func() {})
	require.Equal(t, 1+65, w.grants)
	require.Zero(t, w.s.depth+w.s.inFlight)
}

// TestP14BacklogOfOneTenant: a hundred thousand tasks of one tenant, and a few of
// others every second.
func TestP14BacklogOfOneTenant(t *testing.T) {
	const slot, small = 200 * time.Millisecond, 10
	play := func(backlog int) (worst time.Duration) {
		p := slots(8)
		p.Queue = QueuePolicy{Soft: 200_000, Hard: 200_000}
		w := newSim(t, p, func(string, int) time.Duration { return slot })
		for range backlog {
			w.submit(one("flood", Normal))
		}
		for i := range 60 {
			w.until(start.Add(time.Duration(i)*time.Second), func() {})
			for n := range small {
				w.submit(one(fmt.Sprintf("small%d", n), Normal))
			}
		}
		w.until(start.Add(65*time.Second), func() {})
		for n := range small {
			waits := w.waits[fmt.Sprintf("small%d", n)]
			require.Len(t, waits, 60, "all of them have run")
			worst = max(worst, slices.Max(waits))
		}
		if backlog > 0 {
			require.Greater(t, len(w.waits["flood"]), 60*8*3, "the backlog is served meanwhile")
			require.Equal(t, 8, w.most)
		}
		return worst
	}
	alone, beside := play(0), play(100_000)
	require.LessOrEqual(t, beside, alone+2*slot)
}

// TestP15OneKeyFillsTheQueue: one user submits a thousand tasks, then 99 users
// one each. Theirs are among the first that are served.
func TestP15OneKeyFillsTheQueue(t *testing.T) {
	const others = 99
	w := newSim(t, slots(8), uneven)
	for range 1000 {
		require.True(t, w.submit(one("heavy", Normal)).Accepted())
	}
	for i := range others {
		require.True(t, w.submit(one(fmt.Sprintf("user%d", i), Normal)).Accepted())
	}
	last := 0
	for last < others && w.grants < 1099 {
		before := w.grants
		w.until(w.ends[0].at, func() {})
		require.Greater(t, w.grants, before)
		last = 0
		for i := range others {
			last += len(w.waits[fmt.Sprintf("user%d", i)])
		}
	}
	require.Equal(t, others, last)
	// 8 were running, and while a hundred users wait each gets a hundredth.
	require.LessOrEqual(t, w.grants, 8+others+8)
	w.until(start.Add(time.Hour), func() {})
	require.Equal(t, 1099, w.grants, "the heavy one is served too")
}

// TestP29RetryAfterOutOfRange: whatever number a report carries, the hold ends, and
// the budget neither runs in circles nor sleeps for ever.
func TestP29RetryAfterOutOfRange(t *testing.T) {
	for _, wish := range []time.Duration{-1 << 63, -time.Hour, -1, 0, 1, time.Second, HoldMax, HoldMax + 1, 1<<63 - 1} {
		t.Run(wish.String(), func(t *testing.T) {
			w := newSim(t, slots(1), uneven)
			v := w.submit(one("a", Normal))
			require.Equal(t, Run, v.Action)
			w.submit(one("b", Normal))
			task := w.s.leases()[0].req.Task
			w.s.Report(w.now, Report{Task: task, Attempt: 1, Kind: Released, Class: Refused, Reason: "rate_limited", RetryAfter: Duration(wish)})
			require.Zero(t, w.s.inFlight)
			at := w.now
			for looks := 0; w.s.inFlight == 0; looks++ {
				require.Less(t, looks, 10, "it runs in circles")
				for e := w.s.Advance(at); !e.Empty(); e = w.s.Advance(at) {
					for _, d := range e.Decisions {
						w.s.Delivered(at, d, DeliveryDone)
					}
					for _, in := range e.Inspections {
						w.s.Inspected(at, in, HolderOpen, w.s.items[attempt{in.Task, in.Attempt}].ticket)
					}
				}
				if w.s.inFlight == 0 {
					require.False(t, w.s.Next().IsZero(), "it sleeps for ever")
					require.True(t, w.s.Next().After(at), "it wakes at once and finds nothing to do")
					at = w.s.Next()
				}
			}
			hold := at.Sub(w.now)
			require.LessOrEqual(t, hold, HoldMax)
			if wish > 0 {
				require.Equal(t, min(wish, HoldMax), hold)
			} else {
				require.Equal(t, holdFirst, hold, "as if the provider had named no time")
			}
		})
	}
}

// TestP30OneLimitBurnsNoRetries: a provider is blocked for five hours with five
// tasks waiting. Only what was in flight, and one attempt after each hold, meet
// the limit; one after another they would be hundreds.
func TestP30OneLimitBurnsNoRetries(t *testing.T) {
	const blocked, effect, backoff = 5 * time.Hour, 100 * time.Millisecond, 10 * time.Second
	for _, c := range []struct {
		name  string
		slots int64
		wish  func(left time.Duration) time.Duration
		most  int // attempts that meet the limit
	}{
		{"it names the time, one at once", 1, func(left time.Duration) time.Duration { return left }, 1 + 5},
		{"it names the time, five at once", 5, func(left time.Duration) time.Duration { return left }, 5 + 5},
		{"ten minutes at most are believed", 5, func(left time.Duration) time.Duration { return min(left, 10*time.Minute) }, 5 + 30},
		{"it names no time", 5, func(time.Duration) time.Duration { return 0 }, 5 + 5*60 + 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(slots(c.slots).Normalize(), "e", start)
			require.NoError(t, err)
			attempts, refused, done := map[string]int{}, 0, 0
			for i := range 5 {
				r := one("a", Normal)
				r.Task, r.Attempt, r.Operation, r.Hash, r.LeaseFor = fmt.Sprintf("task/a/%d", i), 1, "op", "h", Duration(time.Hour)
				s.Ask(start, r, true)
			}
			first := 0 // in flight when the limit was met first
			for now, looks := start, 0; done < 5; looks++ {
				require.Less(t, looks, 5000, "%s: refused %d, done %d", now.Sub(start), refused, done)
				e := s.Advance(now)
				for _, d := range e.Decisions {
					require.NotNil(t, d.Lease, d.Reason)
					s.Delivered(now, d, DeliveryDone)
				}
				for _, in := range e.Inspections {
					s.Inspected(now, in, HolderOpen, "")
				}
				running := s.leases()
				if refused == 0 {
					first = len(running)
				} else if now.Before(start.Add(blocked)) {
					require.LessOrEqual(t, len(running), 1, "one goes first")
				}
				if len(running) == 0 {
					if !e.Empty() {
						continue
					}
					now = s.Next()
					continue
				}
				now = now.Add(effect)
				for _, it := range running {
					r := it.req
					attempts[r.Task]++
					left := start.Add(blocked).Sub(now)
					if left <= 0 {
						done++
						s.Report(now, Report{Task: r.Task, Attempt: r.Attempt, Kind: Released, Class: Succeeded})
						continue
					}
					refused++
					wish := c.wish(left)
					s.Report(now, Report{Task: r.Task, Attempt: r.Attempt, Kind: Released, Class: Refused, Reason: "rate_limited", RetryAfter: Duration(wish)})
					again := now.Add(max(backoff, wish))
					r.Attempt++
					r.NotBefore = &again
					s.Ask(now, r, false)
				}
			}
			require.Equal(t, int(min(c.slots, 5)), first)
			require.LessOrEqual(t, refused, c.most)
			fewest, most := refused+5, 0
			for _, n := range attempts {
				fewest, most = min(fewest, n), max(most, n)
			}
			require.LessOrEqual(t, most-fewest, 2, "no task bears it alone: %v", attempts)
			require.Zero(t, s.depth+s.inFlight)
		})
	}
}

// TestF11Bursts: first-time callers of as many tenants, all in one instant and each
// twice; every third is cancelled at once.
func TestF11Bursts(t *testing.T) {
	for _, n := range []int{5, 8, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := slots(6)
			p.Default.MaxInFlight = 2
			w := newSim(t, p, uneven)
			var tasks []Request
			for i := range n {
				r := one(fmt.Sprintf("tenant%d", i%(n/2+1)), Normal)
				v := w.submit(r)
				r.Task, r.Attempt, r.Hash, r.Operation, r.LeaseFor = fmt.Sprintf("task/%s/%d", r.Tenant, w.n), 1, "h", "op", Duration(time.Hour)
				again := w.s.Admit(w.now, r)
				require.Equal(t, v.Ticket, again.Ticket)
				require.Equal(t, v.Lease, again.Lease)
				require.Equal(t, i < 6, v.Lease != nil, "the first six run, nobody else")
				tasks = append(tasks, r)
			}
			checkLimits(t, w.s)
			cancelled := 0
			for i := range tasks {
				if i%3 == 2 && i >= 6 { // those that wait
					cancelled++
					w.s.Report(w.now, Report{Task: tasks[i].Task, Attempt: 1, Kind: Withdrawn})
					w.s.Report(w.now, Report{Task: tasks[i].Task, Attempt: 1, Kind: Withdrawn})
				}
			}
			require.Equal(t, n-min(n, 6)-cancelled, w.s.depth)
			w.until(start.Add(time.Hour), func() { check(t, w.s); checkLimits(t, w.s) })
			require.Equal(t, n-cancelled, w.grants, "each that stayed ran once")
			require.Equal(t, min(n, 6), w.most)
			require.Empty(t, w.s.items, "nothing is left")
		})
	}
}

// TestF11ActualAboveEstimate: every task uses three times what it reserved. What is
// really used in any time is what the resource gives in it, and the debt shows.
func TestF11ActualAboveEstimate(t *testing.T) {
	const estimate, actual, running = 1, 3, 8
	p := slots(running)
	p.Resources = append(p.Resources, Resource{Name: "tokens", Per: Duration(time.Minute), Amount: 600, Burst: 60})
	w := newSim(t, p, func(string, int) time.Duration { return time.Second })
	var used []spend
	w.class = func(now time.Time, _ string) Report {
		used = append(used, spend{now, actual})
		return Report{Class: Succeeded, Cost: []Cost{{"tokens", actual}}}
	}
	debt := int64(0)
	for range 1000 {
		require.True(t, w.submit(Request{Tenant: "a", Cost: []Cost{{"slots", 1}, {"tokens", estimate}}}).Accepted())
	}
	w.until(start.Add(time.Hour), func() {
		for _, r := range w.s.View(w.now).Resources {
			if r.Name == "tokens" {
				debt = min(debt, r.Level)
			}
		}
	})
	require.Equal(t, 1000, w.grants)
	require.Len(t, used, 1000)
	require.Negative(t, debt, "the debt shows")
	// What runs when the bucket is empty has yet to be settled, no more.
	require.GreaterOrEqual(t, debt, int64(-running*(actual-estimate)))
	total := int64(0)
	for _, u := range used {
		total += u.amount
		given := 60 + int64(u.at.Sub(start)/(100*time.Millisecond))
		require.LessOrEqual(t, total, given+running*actual, "after %s", u.at.Sub(start))
	}
	for _, r := range w.s.View(w.now).Resources {
		if r.Name == "tokens" {
			require.Equal(t, int64(60), r.Level, "settled once: an hour later nothing is owed")
		}
	}
}
