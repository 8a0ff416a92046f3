package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sim plays a budget in simulated time: tenants submit, leases end after their
// effect's time, decisions are heard at once.
type sim struct {
	t       *testing.T
	s       *State
	now     time.Time
	n       int
	ends    []simEnd // sorted by time
	service map[string]time.Duration
	waits   map[string][]time.Duration
	waited  map[int]time.Duration // by number of submission
	spent   []spend
	length  func(tenant string, n int) time.Duration
	class   func(now time.Time, task string) Report
	started map[string]time.Time // submitted at
	grants  int
	most    int // in flight
}

type spend struct {
	at     time.Time
	amount int64
}

type simEnd struct {
	at      time.Time
	task    string
	tenant  string
	granted time.Time
}

func newSim(t *testing.T, p Policy, length func(string, int) time.Duration) *sim {
	s, err := New(p.Normalize(), "e", start)
	require.NoError(t, err)
	return &sim{t: t, s: s, now: start, service: map[string]time.Duration{}, waits: map[string][]time.Duration{}, waited: map[int]time.Duration{}, started: map[string]time.Time{}, length: length}
}

func (w *sim) submit(r Request) Verdict {
	w.n++
	r.Attempt, r.Hash, r.Operation, r.LeaseFor = 1, "h", "op", Duration(time.Hour)
	r.Task = fmt.Sprintf("task/%s/%d", r.Tenant, w.n)
	w.started[r.Task] = w.now
	v := w.s.Admit(w.now, r)
	if v.Lease != nil {
		w.granted(r.Task, r.Tenant)
	}
	return v
}

func (w *sim) granted(task, tenant string) {
	w.grants++
	it := w.s.items[attempt{task, 1}]
	w.spent = append(w.spent, spend{w.now, it.req.Cost[0].Amount})
	if n, err := strconv.Atoi(task[strings.LastIndexByte(task, '/')+1:]); err == nil {
		w.waited[n] = w.now.Sub(w.started[task])
	}
	w.waits[tenant] = append(w.waits[tenant], w.now.Sub(w.started[task]))
	e := simEnd{w.now.Add(w.length(tenant, w.grants)), task, tenant, w.now}
	i, _ := slices.BinarySearchFunc(w.ends, e, func(a, b simEnd) int { return a.at.Compare(b.at) })
	w.ends = slices.Insert(w.ends, i, e)
	w.most = max(w.most, len(w.ends))
}

// until plays to a time; top is called before each step to keep tenants busy.
func (w *sim) until(end time.Time, top func()) {
	for {
		top()
		for {
			e := w.s.Advance(w.now)
			for _, d := range e.Decisions {
				if d.Lease != nil {
					w.granted(d.Task, w.s.items[attempt{d.Task, d.Attempt}].req.Tenant)
				}
				w.s.Delivered(w.now, d, DeliveryDone)
			}
			for _, in := range e.Inspections {
				w.s.Inspected(w.now, in, HolderOpen, w.s.items[attempt{in.Task, in.Attempt}].ticket)
			}
			if e.Empty() {
				break
			}
		}
		next := w.s.Next()
		if len(w.ends) > 0 && (next.IsZero() || w.ends[0].at.Before(next)) {
			next = w.ends[0].at
		}
		if next.IsZero() || next.After(end) {
			w.now = end
			return
		}
		if next.After(w.now) {
			w.now = next
		}
		for len(w.ends) > 0 && !w.ends[0].at.After(w.now) {
			e := w.ends[0]
			w.ends = w.ends[1:]
			w.service[e.tenant] += e.at.Sub(e.granted)
			rep := Report{Class: Succeeded}
			if w.class != nil {
				rep = w.class(w.now, e.task)
			}
			rep.Task, rep.Attempt, rep.Kind = e.task, 1, Released
			w.s.Report(w.now, rep)
		}
	}
}

// busy keeps so many tasks of each tenant waiting.
func (w *sim) busy(depth int, requests ...Request) func() {
	return func() {
		for _, r := range requests {
			for t := w.s.tenantOf[r.Tenant]; t == nil || t.queued < depth; t = w.s.tenantOf[r.Tenant] {
				require.True(w.t, w.submit(r).Accepted())
			}
		}
	}
}

func (w *sim) share(tenant string) float64 {
	var sum time.Duration
	for _, s := range w.service {
		sum += s
	}
	return float64(w.service[tenant]) / float64(sum)
}

func slots(n int64) Policy {
	return Policy{Resources: []Resource{{Name: "slots", Concurrent: n}}, Queue: QueuePolicy{Hard: 100_000, Soft: 100_000}, Default: TenantPolicy{Weight: 1}}
}

func one(tenant string, p Priority) Request {
	return Request{Tenant: tenant, Priority: p, Cost: []Cost{{"slots", 1}}}
}

func uneven(_ string, n int) time.Duration { return time.Duration(50+(n*7919)%300) * time.Millisecond }

func TestSharesFollowWeights(t *testing.T) {
	p := slots(8)
	p.Tenants = []TenantPolicy{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}, {Name: "c", Weight: 4}}
	w := newSim(t, p, uneven)
	w.until(start.Add(2*time.Minute), w.busy(20, one("a", Normal), one("b", Normal), one("c", Normal)))
	for tenant, want := range map[string]float64{"a": 1.0 / 7, "b": 2.0 / 7, "c": 4.0 / 7} {
		require.InEpsilon(t, want, w.share(tenant), 0.03, tenant)
	}
	require.Equal(t, 8, w.most)
}

// Tasks of one tenant are four times as long: equal weights still mean equal
// time, not equal numbers.
func TestSharesAreOfTimeNotOfTasks(t *testing.T) {
	w := newSim(t, slots(8), func(tenant string, n int) time.Duration {
		if tenant == "a" {
			return 400 * time.Millisecond
		}
		return 100 * time.Millisecond
	})
	var requests []Request
	for i := range 5 {
		requests = append(requests, one(string(rune('a'+i)), Normal))
	}
	w.until(start.Add(2*time.Minute), w.busy(20, requests...))
	var sum, squares float64
	for _, r := range requests {
		x := w.service[r.Tenant].Seconds()
		sum += x
		squares += x * x
	}
	require.GreaterOrEqual(t, sum*sum/(float64(len(requests))*squares), 0.99, "Jain's index")
}

func TestEverythingCriticalGainsNothing(t *testing.T) {
	w := newSim(t, slots(8), uneven)
	w.until(start.Add(time.Minute), w.busy(20, one("a", Critical), one("b", Normal)))
	require.Less(t, w.share("a")/0.5, 1.03)
}

// A critical task is served before the normal ones of an equal tenant that are
// ahead of it.
func TestPriorityIsEarlierService(t *testing.T) {
	wait := func(p Priority) time.Duration {
		w := newSim(t, slots(1), func(string, int) time.Duration { return 100 * time.Millisecond })
		for range 50 {
			w.submit(one("a", Normal))
		}
		w.until(start.Add(time.Second), func() {})
		for range 5 {
			w.submit(one("b", Normal))
		}
		w.submit(one("b", p))
		last := w.n
		w.until(start.Add(time.Minute), func() {})
		return w.waited[last]
	}
	require.Less(t, wait(Critical), wait(Normal))
}

func TestVictimOfAFloodWaitsLittle(t *testing.T) {
	const slot = 200 * time.Millisecond
	play := func(flood bool) time.Duration {
		w := newSim(t, slots(8), func(string, int) time.Duration { return slot })
		if flood {
			for range 10_000 {
				w.submit(one("flood", Normal))
			}
		}
		for i := range 60 {
			w.until(start.Add(time.Duration(i)*time.Second), func() {})
			w.submit(one("victim", Normal))
		}
		w.until(start.Add(61*time.Second), func() {})
		waits := w.waits["victim"]
		slices.Sort(waits)
		require.Len(t, waits, 60)
		return waits[len(waits)*99/100]
	}
	solo, flooded := play(false), play(true)
	require.LessOrEqual(t, flooded, solo*12/10+slot)
}

// A tenant that was idle has no credit: it gets its share, not what it missed.
func TestIdlenessSavesUpNothing(t *testing.T) {
	w := newSim(t, slots(4), uneven)
	w.until(start.Add(time.Minute), w.busy(10, one("a", Normal)))
	before := w.service["a"]
	w.until(start.Add(2*time.Minute), w.busy(10, one("a", Normal), one("b", Normal)))
	a, b := w.service["a"]-before, w.service["b"]
	require.InEpsilon(t, 1, float64(a)/float64(b), 0.03)
}

// Weights hold, and the limit recovers, while the provider's 429 shrink it.
func TestSharesHoldWhileTheLimitAdapts(t *testing.T) {
	p := slots(8)
	p.Resources[0].Adapt = &Adapt{Min: 1}
	p.Tenants = []TenantPolicy{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}, {Name: "c", Weight: 4}}
	w := newSim(t, p, func(string, int) time.Duration { return 100 * time.Millisecond })
	refused := 0
	w.class = func(now time.Time, task string) Report {
		if into := now.Sub(start); into < 2*time.Minute && into%(10*time.Second) < 200*time.Millisecond {
			refused++
			return Report{Class: Refused, Reason: "rate_limited", RetryAfter: Duration(time.Second)}
		}
		return Report{Class: Succeeded}
	}
	least := int64(8)
	top := w.busy(20, one("a", Normal), one("b", Normal), one("c", Normal))
	w.until(start.Add(4*time.Minute), func() { top(); least = min(least, w.s.resources[0].limit) })
	require.NotZero(t, refused)
	require.Less(t, least, int64(8), "it shrank")
	require.Equal(t, int64(8), w.s.resources[0].limit, "it recovered")
	for tenant, want := range map[string]float64{"a": 1.0 / 7, "b": 2.0 / 7, "c": 4.0 / 7} {
		require.InEpsilon(t, want, w.share(tenant), 0.03, tenant)
	}
}

// No window of an interval resource sees more than its amount and its burst.
func TestIntervalNeverAboveItsAmount(t *testing.T) {
	p := Policy{Resources: []Resource{{Name: "tokens", Per: Duration(time.Minute), Amount: 600, Burst: 60}}, Queue: QueuePolicy{Hard: 100_000}}
	w := newSim(t, p, func(string, int) time.Duration { return time.Millisecond })
	w.until(start.Add(5*time.Minute), func() {
		for w.s.depth < 10 {
			w.submit(Request{Tenant: "a", Cost: []Cost{{"tokens", int64(1 + w.n%50)}}})
		}
	})
	spent := w.spent
	most := int64(0)
	for i := range spent {
		sum := int64(0)
		for j := i; j < len(spent) && spent[j].at.Sub(spent[i].at) < time.Minute; j++ {
			sum += spent[j].amount
		}
		most = max(most, sum)
	}
	require.Greater(t, len(spent), 50)
	require.LessOrEqual(t, most, int64(600+60))
}

// A million operations: no limit is passed at any instant.
func TestAMillionOperations(t *testing.T) {
	if testing.Short() {
		t.Log("ten thousand in short mode")
	}
	w := newWorld(t, 99)
	for i := range 1_000_000 {
		if testing.Short() && i == 10_000 {
			break
		}
		w.move()
		checkLimits(t, w.s)
		if i%10_000 == 0 {
			check(t, w.s)
		}
	}
	require.Less(t, len(w.s.items), 2000, "nothing piles up")
}
