package admission

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// twin is the dumb one: the same rules over plain slices, each choice by looking
// at everything. It knows concurrent and interval resources, caps, weights,
// priorities, agents, delays, deadlines, settlement and doubts.
type twin struct {
	policy  Policy
	now     time.Time
	seq     int
	tasks   []*twinTask
	virtual map[string]int64 // of tenants
	agents  map[string]int64 // of tenant/agent
	served  map[string]int64 // of tenants: the agent served last
	last    int64
	level   map[string]int64
	levelAt map[string]time.Time
	mean    map[string]time.Duration
	doubts  []Request
}

type twinTask struct {
	r       Request
	seq     int
	arrival time.Time
	running bool
	granted time.Time
	charge  int64
}

func newTwin(p Policy, now time.Time) *twin {
	w := &twin{policy: p, now: now, virtual: map[string]int64{}, agents: map[string]int64{}, served: map[string]int64{},
		level: map[string]int64{}, levelAt: map[string]time.Time{}, mean: map[string]time.Duration{}}
	for _, r := range p.Resources {
		w.level[r.Name], w.levelAt[r.Name] = r.Burst, now
	}
	return w
}

func (w *twin) count(f func(*twinTask) bool) (n int) {
	for _, t := range w.tasks {
		if f(t) {
			n++
		}
	}
	return n
}

func (w *twin) waits(t *twinTask) bool { return !t.running && !t.arrival.After(w.now) }

// free tells whether the task's own tenant and agent let it run.
func (w *twin) free(t *twinTask) bool {
	p := w.policy.Tenant(t.r.Tenant)
	tenant := w.count(func(o *twinTask) bool { return o.running && o.r.Tenant == t.r.Tenant })
	agent := w.count(func(o *twinTask) bool { return o.running && o.r.Tenant == t.r.Tenant && o.r.Agent == t.r.Agent })
	same := func(r Request) bool { return r.Tenant == t.r.Tenant && r.Operation == t.r.Operation }
	most := w.count(func(o *twinTask) bool { return o.running && same(o.r) })
	for _, d := range w.doubts {
		if same(d) {
			most++
		}
	}
	return most < w.policy.ceiling(t.r.Operation) && (p.MaxInFlight == 0 || tenant < p.MaxInFlight) && (p.Agents.MaxInFlight == 0 || agent < p.Agents.MaxInFlight)
}

func (w *twin) runnable(tenant string) bool {
	return w.count(func(t *twinTask) bool { return t.r.Tenant == tenant && w.waits(t) && w.free(t) }) > 0
}

// change makes a change, after which tenants and agents that come back from
// idleness are set to the present virtual time.
func (w *twin) change(tenant string, f func()) {
	before := w.runnable(tenant)
	f()
	if !before && w.runnable(tenant) {
		floor := w.last
		first := map[string]*twinTask{} // of each flow
		for _, h := range w.heads() {
			if f := first[flowOf(h.r)]; h.r.Tenant != tenant && (f == nil || w.first(h, f)) {
				first[flowOf(h.r)] = h
			}
		}
		for _, t := range first {
			floor = min(floor, w.virtual[t.r.Tenant])
		}
		w.virtual[tenant] = max(w.virtual[tenant], floor)
	}
}

func (w *twin) enter(t *twinTask) {
	key := t.r.Tenant + "/" + t.r.Agent
	if w.count(func(o *twinTask) bool {
		return o != t && w.waits(o) && o.r.Tenant == t.r.Tenant && o.r.Agent == t.r.Agent
	}) == 0 {
		w.agents[key] = max(w.agents[key], w.served[t.r.Tenant])
	}
}

func (w *twin) submit(r Request) {
	w.seq++
	t := &twinTask{r: r, seq: w.seq, arrival: w.now}
	if r.NotBefore != nil && r.NotBefore.After(w.now) {
		t.arrival = *r.NotBefore
	}
	w.change(r.Tenant, func() {
		w.tasks = append(w.tasks, t)
		if w.waits(t) {
			w.enter(t)
		}
	})
}

func (w *twin) remove(t *twinTask) {
	for i, o := range w.tasks {
		if o == t {
			w.tasks = append(w.tasks[:i], w.tasks[i+1:]...)
			return
		}
	}
}

func (w *twin) advance(now time.Time) (granted []string) {
	var due []*twinTask
	for _, t := range w.tasks {
		if !t.running && t.arrival.After(w.now) && !t.arrival.After(now) {
			due = append(due, t)
		}
	}
	sort.Slice(due, func(i, j int) bool {
		if !due[i].arrival.Equal(due[j].arrival) {
			return due[i].arrival.Before(due[j].arrival)
		}
		return due[i].seq < due[j].seq
	})
	later := map[*twinTask]time.Time{}
	for _, t := range due { // each enters alone
		later[t], t.arrival = t.arrival, now.Add(time.Hour)
	}
	w.now = now
	for _, t := range due {
		w.change(t.r.Tenant, func() { t.arrival = later[t]; w.enter(t) })
	}
	for _, t := range append([]*twinTask(nil), w.tasks...) {
		if !t.running && t.r.Deadline != nil && !t.r.Deadline.After(now) {
			w.remove(t)
		}
	}
	for _, r := range w.policy.Resources {
		w.refill(r)
	}
	aside, blocked := map[string]int64{}, map[string]bool{}
	for {
		t := w.next(blocked)
		if t == nil {
			return granted
		}
		if w.fits(t, aside) {
			granted = append(granted, t.r.Task)
			w.grant(t)
			continue
		}
		refilling := false
		interval := func(c Cost) bool { r, _ := w.policy.Resource(c.Resource); return r.Per > 0 }
		for _, c := range t.r.Cost {
			refilling = refilling || interval(c) && !w.fit(c, aside)
		}
		for _, c := range t.r.Cost {
			if refilling && !interval(c) {
				continue
			}
			if w.fit(c, aside) {
				aside[c.Resource] += c.Amount
			} else {
				blocked[c.Resource] = true
			}
		}
	}
}

func (w *twin) refill(r Resource) {
	if r.Per == 0 {
		return
	}
	at := w.levelAt[r.Name]
	if w.level[r.Name] >= r.Burst {
		w.levelAt[r.Name] = w.now
		return
	}
	units := int64(float64(w.now.Sub(at))*float64(r.Amount)/float64(r.Per) + 1e-9)
	if w.level[r.Name]+units >= r.Burst {
		w.level[r.Name], w.levelAt[r.Name] = r.Burst, w.now
		return
	}
	w.level[r.Name] += units
	w.levelAt[r.Name] = at.Add(time.Duration(units * int64(r.Per) / r.Amount))
}

// next is the first task of the best flow: over all waiting tasks, the one whose
// tenant's turn is least; of a tenant and a flow, the agent's turn, then age.
func (w *twin) next(blocked map[string]bool) *twinTask {
	var best *twinTask
	for _, t := range w.heads() {
		stopped := false
		for _, c := range t.r.Cost {
			stopped = stopped || blocked[c.Resource]
		}
		if !stopped && (best == nil || w.first(t, best)) {
			best = t
		}
	}
	return best
}

// heads are what each tenant would run next of each flow.
func (w *twin) heads() map[string]*twinTask {
	heads := map[string]*twinTask{}
	for _, t := range w.tasks {
		if !w.waits(t) || !w.free(t) {
			continue
		}
		key := t.r.Tenant + flowOf(t.r)
		if h := heads[key]; h == nil || w.ahead(t, h) {
			heads[key] = t
		}
	}
	return heads
}

func flowOf(r Request) string {
	names := []string{}
	for _, c := range r.Cost {
		names = append(names, c.Resource)
	}
	sort.Strings(names)
	return fmt.Sprint("|", r.Operation, names)
}

func (w *twin) ahead(a, b *twinTask) bool {
	x, y := w.agents[a.r.Tenant+"/"+a.r.Agent], w.agents[b.r.Tenant+"/"+b.r.Agent]
	if a.r.Agent != b.r.Agent && x != y {
		return x < y
	}
	return older(a, b)
}

func older(a, b *twinTask) bool {
	x, y := a.arrival.Add(-headStart(a.r.Priority)), b.arrival.Add(-headStart(b.r.Priority))
	if !x.Equal(y) {
		return x.Before(y)
	}
	return a.seq < b.seq
}

func (w *twin) first(a, b *twinTask) bool {
	x, y := w.virtual[a.r.Tenant]-borrow(a.r.Priority), w.virtual[b.r.Tenant]-borrow(b.r.Priority)
	switch {
	case x != y:
		return x < y
	case a.r.Tenant != b.r.Tenant:
		return a.r.Tenant < b.r.Tenant
	}
	return older(a, b)
}

func (w *twin) fit(c Cost, aside map[string]int64) bool {
	r, _ := w.policy.Resource(c.Resource)
	if r.Per > 0 {
		return w.level[c.Resource]-aside[c.Resource] >= min(c.Amount, r.Burst)
	}
	used := aside[c.Resource]
	for _, t := range w.tasks {
		for _, o := range t.r.Cost {
			if t.running && o.Resource == c.Resource {
				used += o.Amount
			}
		}
	}
	return used+c.Amount <= r.Concurrent || used == 0
}

func (w *twin) fits(t *twinTask, aside map[string]int64) bool {
	for _, c := range t.r.Cost {
		if !w.fit(c, aside) {
			return false
		}
	}
	return true
}

func (w *twin) service(cost []Cost, held time.Duration) (most int64) {
	for _, c := range cost {
		r, _ := w.policy.Resource(c.Resource)
		if r.Per > 0 {
			most = max(most, int64(r.Per)*c.Amount/r.Amount)
		} else {
			most = max(most, int64(held)*c.Amount/r.Concurrent)
		}
	}
	return max(1, most)
}

func (w *twin) grant(t *twinTask) {
	key := t.r.Tenant + "/" + t.r.Agent
	w.last = max(w.last, w.virtual[t.r.Tenant]-borrow(t.r.Priority))
	w.served[t.r.Tenant] = max(w.served[t.r.Tenant], w.agents[key])
	mean, ok := w.mean[t.r.Operation]
	if !ok {
		mean = firstEstimate
	}
	t.charge = w.service(t.r.Cost, mean)
	w.virtual[t.r.Tenant] += max(1, t.charge/w.policy.Tenant(t.r.Tenant).Weight)
	w.agents[key] += t.charge
	for _, c := range t.r.Cost {
		if r, _ := w.policy.Resource(c.Resource); r.Per > 0 {
			w.level[c.Resource] -= c.Amount
		}
	}
	w.change(t.r.Tenant, func() { t.running, t.granted = true, w.now })
}

func (w *twin) finish(task string, real []Cost, doubt bool) {
	for _, t := range w.tasks {
		if t.r.Task != task {
			continue
		}
		for _, c := range t.r.Cost {
			r, _ := w.policy.Resource(c.Resource)
			if r.Per == 0 {
				continue
			}
			w.refill(r)
			for _, u := range real {
				if u.Resource == c.Resource {
					w.level[c.Resource] = min(w.level[c.Resource]+c.Amount-u.Amount, r.Burst)
				}
			}
		}
		held := w.now.Sub(t.granted)
		if mean, ok := w.mean[t.r.Operation]; ok {
			w.mean[t.r.Operation] = mean + (held-mean)/8
		} else {
			w.mean[t.r.Operation] = held
		}
		delta := w.service(t.r.Cost, held) - t.charge
		w.virtual[t.r.Tenant] += delta / w.policy.Tenant(t.r.Tenant).Weight
		w.agents[t.r.Tenant+"/"+t.r.Agent] += delta
		w.change(t.r.Tenant, func() {
			w.remove(t)
			if doubt {
				w.doubts = append(w.doubts, t.r)
			}
		})
		return
	}
}

func (w *twin) resolve(task string) {
	for i, d := range w.doubts {
		if d.Task == task {
			w.change(d.Tenant, func() { w.doubts = slices.Delete(w.doubts, i, i+1) })
			return
		}
	}
}

// Both are given the same operations; they must grant the same tasks in the
// same order.
func TestTheTwinChoosesTheSame(t *testing.T) {
	for seed := range int64(30) {
		rng := rand.New(rand.NewSource(seed))
		p := testPolicy()
		p.Resources[1].Adapt = nil
		p.Operations, p.UnknownCeiling = []OperationPolicy{{Name: "op2", UnknownCeiling: 2, Breaker: Breaker{Failures: -1}}}, 6
		p.Queue = QueuePolicy{Hard: 1000, Soft: 1000}
		p.Default.MaxQueued = 0
		p.Tenants[0].MaxQueued, p.Tenants[0].Agents.MaxQueued = 0, 0
		p = p.Normalize()
		s, err := New(p, "e", start)
		require.NoError(t, err)
		dumb := newTwin(p, start)
		g := &world{t: t, rng: rng, now: start}
		var running, inDoubt []string
		for step := range 200 {
			g.now = g.now.Add(time.Duration(rng.Intn(900)) * time.Millisecond)
			var finished string
			var real []Cost
			if len(running) > 0 && rng.Intn(2) == 0 {
				i := rng.Intn(len(running))
				finished = running[i]
				running = append(running[:i], running[i+1:]...)
				real = []Cost{{"tokens", int64(rng.Intn(60))}}
			}
			// Time goes first: what comes due, comes due before what is new.
			a, b := grantedIn(s.Advance(g.now)), dumb.advance(g.now)
			require.Equal(t, b, a, "seed %d step %d", seed, step)
			running = append(running, a...)
			if finished != "" {
				rep := Report{Task: finished, Attempt: 1, Kind: Released, Class: Succeeded, Cost: real}
				if rng.Intn(3) == 0 { // a doubt that is not the provider's doing
					rep.Class, rep.Reason, rep.Doubt = Unknown, "worker_error", true
					inDoubt = append(inDoubt, finished)
				}
				s.Report(g.now, rep)
				dumb.finish(finished, real, rep.Doubt)
			}
			if len(inDoubt) > 0 && rng.Intn(3) == 0 {
				s.Report(g.now, Report{Task: inDoubt[0], Kind: Resolved})
				dumb.resolve(inDoubt[0])
				inDoubt = inDoubt[1:]
			}
			for range rng.Intn(3) {
				if r := g.request(); r.Deadline == nil || r.Deadline.After(g.now) {
					s.Ask(g.now, r, false)
					dumb.submit(r)
				}
			}
			a, b = grantedIn(s.Advance(g.now)), dumb.advance(g.now)
			require.Equal(t, b, a, "seed %d step %d", seed, step)
			running = append(running, a...)
		}
	}
}

// grantedIn lists the tasks in the order in which they were granted: lease IDs
// count up.
func grantedIn(e Effects) (tasks []string) {
	number := func(d Decision) uint64 {
		n, err := strconv.ParseUint(d.Lease.ID[len("le-"):], 36, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	granted := slices.DeleteFunc(e.Decisions, func(d Decision) bool { return d.Lease == nil })
	slices.SortFunc(granted, func(a, b Decision) int { return cmp.Compare(number(a), number(b)) })
	for _, d := range granted {
		tasks = append(tasks, d.Task)
	}
	return tasks
}
