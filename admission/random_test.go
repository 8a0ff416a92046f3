package admission

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world drives a State with random operations and remembers what the outside
// knows: which tasks exist, which hold a lease.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	now   time.Time
	s     *State
	known map[attempt]Request
	open  map[string]string // task -> ticket
	next  int
	held  []attempt // some of them are over already
	doubt []string  // tasks that said so

	freezes bool // op1 is frozen now and then
	asks    bool // some tasks wait for a person
	handed  int  // places that were handed over
}

func testPolicy() Policy {
	return Policy{
		Resources: []Resource{
			{Name: "slots", Concurrent: 4, Adapt: &Adapt{Min: 1}},
			{Name: "pages", Concurrent: 2},
			{Name: "tokens", Per: Duration(time.Minute), Amount: 600, Burst: 60},
		},
		Queue:          QueuePolicy{Soft: 40, Hard: 60, MaxAge: Duration(10 * time.Minute), CriticalReserve: 5},
		Default:        TenantPolicy{Weight: 1, MaxInFlight: 3, MaxQueued: 30},
		Operations:     []OperationPolicy{{Name: "op1", WhenFull: WhenFullDropOldest}, {Name: "op2", WhenFull: WhenFullDefer, Breaker: Breaker{Failures: 2}, UnknownCeiling: 2}},
		UnknownCeiling: 5,
		Tenants:        []TenantPolicy{{Name: "acme", Weight: 3, MaxInFlight: 4, Agents: AgentPolicy{MaxInFlight: 2, MaxQueued: 20}}},
	}.Normalize()
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(t *testing.T, seed int64) *world {
	s, err := New(testPolicy(), "e", start)
	require.NoError(t, err)
	s.policy.Handover = seed%2 == 1
	return &world{t: t, rng: rand.New(rand.NewSource(seed)), now: start, s: s, known: map[attempt]Request{}, open: map[string]string{}}
}

func (w *world) request() Request {
	w.next++
	tenants := []string{"acme", "beta", "gamma", "delta"}
	costs := [][]Cost{{{"slots", 1}}, {{"slots", 2}}, {{"pages", 1}, {"slots", 1}}, {{"tokens", 1 + w.rng.Int63n(90)}}, {{"slots", 1}, {"tokens", 5}}, nil}
	r := Request{
		Task: fmt.Sprintf("task/x/%d", w.next), Attempt: 1, Tenant: tenants[w.rng.Intn(4)], Agent: string(rune('a' + w.rng.Intn(3))),
		Operation: fmt.Sprintf("op%d", w.rng.Intn(3)), Priority: Priority(w.rng.Intn(4) - 1), Hash: "h", Cost: costs[w.rng.Intn(len(costs))],
		LeaseFor: Duration(30 * time.Second),
	}
	if w.rng.Intn(4) == 0 {
		d := w.now.Add(time.Duration(w.rng.Intn(60)-2) * time.Second)
		r.Deadline = &d
	}
	if w.rng.Intn(6) == 0 {
		d := w.now.Add(time.Duration(w.rng.Intn(20)) * time.Second)
		r.NotBefore = &d
	}
	if w.asks && w.rng.Intn(4) == 0 {
		r.Hold, r.HoldOn = true, []string{"", "pages"}[w.rng.Intn(2)]
	}
	return r
}

// decide has a person approve or decline some of the tasks that are held and
// open, in every state of one.
func (w *world) decide(most int, states ...*State) {
	for _, it := range states[0].ordered() {
		if most == 0 || !it.req.Hold || it.stand != delayed || w.open[it.req.Task] == "" {
			continue
		}
		most--
		r, declined := it.req, w.rng.Intn(3) == 0
		r.Hold, r.HoldOn = false, ""
		if r.Deadline == nil && w.rng.Intn(2) == 0 {
			d := w.now.Add(time.Minute)
			r.Deadline = &d
		}
		for _, s := range states {
			if declined {
				s.Report(w.now, Report{Task: r.Task, Attempt: r.Attempt, Kind: Withdrawn})
			} else {
				s.Ask(w.now, r, false)
			}
		}
	}
}

// step makes a move and looks at everything.
func (w *world) step() {
	w.move()
	check(w.t, w.s)
	checkLimits(w.t, w.s)
}

// move makes one random change and carries out the effects, sometimes badly.
func (w *world) move() {
	w.now = w.now.Add(time.Duration(w.rng.Intn(1500)-100) * time.Millisecond) // sometimes backwards
	moves := 11
	if w.freezes {
		moves = 12
	}
	switch w.rng.Intn(moves) {
	case 11:
		var f *Freeze
		if w.rng.Intn(3) == 0 {
			f = &Freeze{Actor: "ann"}
		}
		w.s.Freeze(w.now, "op1", f)
	case 10:
		if len(w.doubt) > 0 {
			w.s.Report(w.now, Report{Kind: Resolved, Task: w.doubt[0], Attempt: 1})
			w.doubt = w.doubt[1:]
		}
	case 0, 1, 2, 3:
		r := w.request()
		v := w.s.Admit(w.now, r)
		again := w.s.Admit(w.now, r)
		if v.Accepted() {
			require.Equal(w.t, v.Ticket, again.Ticket, "the same request gives the same ticket")
			w.known[attempt{r.Task, 1}] = r
			if v.Lease != nil {
				w.held = append(w.held, attempt{r.Task, 1})
			}
			if w.rng.Intn(8) > 0 { // else the gateway died before the start
				w.open[r.Task] = v.Ticket
			}
		}
	case 4, 5, 6:
		if len(w.held) > 0 {
			i := w.rng.Intn(len(w.held))
			key := w.held[i]
			w.held[i] = w.held[len(w.held)-1]
			w.held = w.held[:len(w.held)-1]
			if it := w.s.items[key]; it != nil && it.promised() {
				w.finish(it)
			}
		}
	case 7:
		w.s.Pause(w.now, []string{"acme", "beta"}[w.rng.Intn(2)], Pause{Dispatch: w.rng.Intn(2) == 0, Admission: w.rng.Intn(4) == 0})
	case 8:
		if w.rng.Intn(20) > 0 {
			break
		}
		if w.rng.Intn(4) == 0 {
			p := testPolicy()
			p.Handover = w.rng.Intn(2) == 0
			require.NoError(w.t, w.s.Configure(w.now, p))
		} else {
			w.s = w.reload()
		}
	case 9: // somebody closes a task behind our back
		if w.rng.Intn(10) > 0 {
			break
		}
		for _, it := range w.s.ordered() {
			if w.rng.Intn(10) == 0 {
				delete(w.open, it.req.Task)
				break
			}
		}
	}
	if w.asks && w.rng.Intn(3) == 0 {
		w.decide(1+w.rng.Intn(2), w.s)
	}
	w.carry(w.s.Advance(w.now))
}

func (w *world) finish(it *item) {
	if it.grace {
		return
	}
	rep := Report{Task: it.req.Task, Attempt: it.req.Attempt, Kind: Released, Class: []Class{Succeeded, NotDispatched, Unknown}[w.rng.Intn(3)]}
	if w.rng.Intn(6) == 0 {
		rep.Class, rep.Reason, rep.RetryAfter = Refused, "rate_limited", Duration(time.Duration(w.rng.Intn(4))*time.Second)
	}
	switch w.rng.Intn(4) {
	case 0:
		rep.Grace = Duration(5 * time.Second)
	case 1:
		rep.Cost = []Cost{{"tokens", w.rng.Int63n(120)}}
	}
	switch next := it.successor; {
	case it.stand == standby && w.rng.Intn(3) == 0: // it has given up standing by
		w.s.Report(w.now, Report{Task: it.req.Task, Attempt: it.req.Attempt, Kind: Declined})
		return
	case it.stand == standby:
		rep.Class, rep.Grace, rep.Cost = []Class{NotDispatched, Succeeded}[w.rng.Intn(2)], 0, nil // cancelled, or its report came before the one ahead
	case next != nil && w.rng.Intn(4) > 0:
		rep.Class, rep.Reason, rep.RetryAfter, rep.Grace = Succeeded, "", 0, 0
		rep.Successor, rep.Waited = next.lease.ID, Duration(w.rng.Intn(100))*Duration(time.Millisecond)
		w.held = append(w.held, next.key())
		w.handed++
	}
	if rep.Class == Unknown && w.rng.Intn(3) > 0 {
		rep.Doubt = true
		w.doubt = append(w.doubt, rep.Task)
	}
	w.s.Report(w.now, rep)
	if w.rng.Intn(3) == 0 && it.req.Attempt < 4 && w.open[it.req.Task] != "" {
		r := it.req
		r.Attempt++
		w.s.Ask(w.now, r, false)
		w.s.Ask(w.now, r, false)
		w.known[attempt{r.Task, r.Attempt}] = r
	} else if w.rng.Intn(5) > 0 {
		delete(w.open, it.req.Task)
	}
}

func (w *world) carry(e Effects) {
	for _, d := range e.Decisions {
		how := DeliveryDone
		if d.Lease != nil {
			w.held = append(w.held, attempt{d.Task, d.Attempt})
		}
		if w.open[d.Task] == "" {
			how = DeliveryGone
		} else if w.rng.Intn(5) == 0 {
			how = DeliveryFailed
		}
		w.s.Delivered(w.now, d, how)
	}
	for _, stop := range e.Stops {
		w.s.Stopped(w.now, stop, []Delivery{DeliveryDone, DeliveryGone, DeliveryFailed}[w.rng.Intn(3)])
	}
	for _, in := range e.Inspections {
		switch {
		case w.rng.Intn(8) == 0:
			w.s.Inspected(w.now, in, HolderUnclear, "")
		case w.open[in.Task] == "":
			w.s.Inspected(w.now, in, HolderMissing, "")
		default:
			w.s.Inspected(w.now, in, HolderOpen, w.open[in.Task])
		}
	}
}

func (w *world) reload() *State {
	raw, err := json.Marshal(w.s.Snapshot())
	require.NoError(w.t, err)
	var snap Snapshot
	require.NoError(w.t, json.Unmarshal(raw, &snap))
	s, err := Restore(snap)
	require.NoError(w.t, err)
	return s
}

// check holds the invariants against the state, counted anew from its items.
func check(t *testing.T, s *State) {
	checkDoubts(t, s)
	used := map[string]int64{}
	inFlight, queuedN, agents := map[string]int{}, map[string]int{}, map[string]int{}
	depth, flying, held, standing, asked, claims := 0, 0, 0, 0, map[string]int64{}, map[string]int{}
	for _, it := range s.ordered() {
		switch it.stand {
		case leased:
			must(t, !it.req.Hold, "a held task has a lease")
			flying++
			inFlight[it.req.Tenant]++
			agents[it.req.Tenant+"/"+it.req.Agent]++
			for _, c := range it.req.Cost {
				used[c.Resource] += c.Amount
			}
			must(t, it.successor == nil || it.successor.ahead == it && it.successor.stand == standby, "a successor stands by")
			must(t, it.successor == nil || it.endingAt == 0, "one successor is enough")
			must(t, it.ahead == nil, "a lease follows nobody")
		case standby:
			standing++
			depth++
			queuedN[it.req.Tenant]++
			must(t, it.ahead != nil && it.ahead.successor == it && it.ahead.promised() && !it.ahead.grace, "a standby follows a lease")
			must(t, it.lease.After == it.ahead.lease.ID, "a standby knows whom it follows")
			if it.tenant != it.ahead.tenant {
				claims[it.req.Tenant]++
			}
			if it.agent != it.ahead.agent {
				claims[it.req.Tenant+"/"+it.req.Agent]++
			}
		case queued, delayed:
			must(t, it.ahead == nil && it.successor == nil && it.lease.ID == "", "what waits holds nothing")
			depth++
			if it.req.Hold {
				held++
				asked[it.req.HoldOn]++
				must(t, it.stand == delayed && it.delayAt == 0 && it.readyAt == 0, "a held task has no turn")
				must(t, it.dueAt != 0 || it.due.IsZero(), "nobody looks after a held task")
			}
			queuedN[it.req.Tenant]++
			if it.req.Deadline != nil {
				must(t, it.req.Deadline.After(s.now), "an expired task waits")
			}
		}
	}
	must(t, depth == s.depth, "s.depth is not what the items say")
	must(t, held == s.held, "s.held is not what the items say")
	must(t, flying == s.inFlight, "s.inFlight is not what the items say")
	must(t, standing == s.standby, "s.standby is not what the items say")
	for i := range s.resources {
		r := &s.resources[i]
		if r.Per == 0 {
			must(t, used[r.Name] == r.used, r.Name)
			must(t, asked[r.Name] == r.asked, r.Name)
			must(t, r.used >= 0, r.Name)
		} else {
			must(t, r.level <= r.Burst, r.Name)
		}
	}
	weights := int64(0)
	for _, tn := range s.tenants {
		must(t, inFlight[tn.Name] == tn.inFlight, "tn.inFlight is not what the items say")
		must(t, claims[tn.Name] == tn.claims, "tn.claims is not what the items say")
		must(t, queuedN[tn.Name] == tn.queued, "tn.queued is not what the items say")
		if tn.MaxInFlight > 0 {
			must(t, tn.inFlight <= tn.MaxInFlight, tn.Name)
		}
		for _, a := range tn.agents {
			must(t, claims[tn.Name+"/"+a.name] == a.claims, "a.claims is not what the items say")
			must(t, agents[tn.Name+"/"+a.name] == a.inFlight, "a.inFlight is not what the items say")
			if tn.Agents.MaxInFlight > 0 {
				must(t, a.inFlight <= tn.Agents.MaxInFlight, a.name)
			}
		}
		if tn.queued > 0 {
			weights += tn.Weight
		}
		for _, f := range tn.flows {
			if f != nil {
				free := !tn.full() && !tn.dispatchPaused(s.now)
				free = free && !f.barred()
				must(t, (free && tn.pick(f.class.number) != nil) == (f.at != 0), "a flow that could run is in its class")
			}
		}
	}
	must(t, weights == s.active, "s.active is not what the items say")
}

// checkLimits is what check leaves out, since it does not hold right after a
// limit was made smaller than what is in use.
func checkLimits(t *testing.T, s *State) {
	for i := range s.resources {
		if r := &s.resources[i]; r.Per == 0 {
			must(t, r.used <= r.Concurrent, r.Name)
		}
	}
}

func must(t *testing.T, ok bool, what string) {
	if !ok { // asserting by reflection, a million times, takes minutes
		t.Helper()
		t.Fatal(what)
	}
}

func TestRandomOperationsKeepEveryLimit(t *testing.T) {
	handed := 0
	defer func() { require.Greater(t, handed, 40, "places are handed over") }()
	for seed := range int64(40) {
		w := newWorld(t, seed)
		w.freezes = seed%2 == 0
		w.asks = seed%2 == 1
		for range 600 {
			w.step()
		}
		handed += w.handed
		// Everybody goes home: all that was taken must come back.
		w.s.Pause(w.now, "acme", Pause{})
		w.s.Pause(w.now, "beta", Pause{})
		w.s.Freeze(w.now, "op1", nil)
		for _, task := range w.doubt {
			w.s.Report(w.now, Report{Kind: Resolved, Task: task})
		}
		for round := 0; w.s.depth+w.s.inFlight > 0 && round < 5000; round++ {
			w.now = w.now.Add(2 * time.Second)
			w.decide(-1, w.s)
			w.carry(w.s.Advance(w.now))
			for _, it := range w.s.leases() {
				if it.confirmed && !it.grace {
					w.s.Report(w.now, Report{Task: it.req.Task, Attempt: it.req.Attempt, Kind: Released, Class: Succeeded})
				}
			}
			check(t, w.s)
		}
		require.Zero(t, w.s.depth, "seed %d: tasks wait for ever", seed)
		require.Zero(t, w.s.inFlight, "seed %d: leases are left", seed)
		require.Empty(t, w.s.doubts, "seed %d: doubts are left", seed)
		require.LessOrEqual(t, len(w.s.items), 60, "only undelivered decisions may be left")
	}
}

// A restored state must behave as the one that it was written from.
func TestRestoreBehavesTheSame(t *testing.T) {
	for seed := range int64(30) {
		w := newWorld(t, seed)
		w.asks = seed%2 == 1
		for range 300 {
			w.step()
		}
		a, b := w.reload(), w.reload()
		for i := range 200 {
			w.now = w.now.Add(700 * time.Millisecond)
			r := w.request()
			va, vb := a.Admit(w.now, r), b.Admit(w.now, r)
			require.Equal(t, va, vb, "seed %d step %d", seed, i)
			if r.Hold && va.Accepted() {
				w.open[r.Task] = va.Ticket
			}
			if i%3 == 0 {
				w.decide(1, a, b)
			}
			if i%10 == 0 {
				raw, err := json.Marshal(b.Snapshot())
				require.NoError(t, err)
				var snap Snapshot
				require.NoError(t, json.Unmarshal(raw, &snap))
				b, err = Restore(snap)
				require.NoError(t, err)
				a.Advance(w.now)
				b.Advance(w.now) // hands out again what was under way
			}
			ea, eb := a.Advance(w.now), b.Advance(w.now)
			require.Equal(t, leaseIDs(ea), leaseIDs(eb), "seed %d step %d", seed, i)
			for j, held := range a.leases() {
				if j%3 == 0 {
					rep := Report{Task: held.req.Task, Attempt: held.req.Attempt, Kind: Released, Class: Succeeded}
					a.Report(w.now, rep)
					b.Report(w.now, rep)
				}
			}
			require.Equal(t, a.View(w.now), b.View(w.now), "seed %d step %d", seed, i)
		}
	}
}

func leaseIDs(e Effects) []string {
	out := []string{}
	for _, d := range e.Decisions {
		if d.Lease != nil {
			out = append(out, d.Lease.ID)
		}
	}
	return out
}
