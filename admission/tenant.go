package admission

import (
	"slices"
	"time"
)

// tenant is one flow of the fair queue.
type tenant struct {
	TenantPolicy
	pause    *Pause
	virtual  int64 // service received, over weight
	agents   []*agent
	served   int64 // virtual time among the agents
	inFlight int
	claims   int // on standby for another tenant's place: counted against the cap
	standby  int
	queued   int // waiting tasks, delayed and held ones included
	held     int // of these, for a person
	depth    [4]int

	// The arrival list holds the queued tasks, oldest first.
	first, last *item

	retries retryBudget

	flows []*flow // by class number; nil: none yet
	uses  []*use  // by operation
	oldAt int
}

// flow is a tenant's tasks of one class. A tenant whose tasks wait for one
// resource is not held back on another.
type flow struct {
	tenant *tenant
	class  *class
	use    *use
	head   *item // what it would run next; nil: nothing may run
	at     int
}

// agent is one agent of a tenant.
type agent struct {
	name     string
	virtual  int64
	inFlight int
	claims   int // on standby for another agent's place
	queued   int
	ready    []heap[*item] // by class number; each by arrival less head start
}

// class is the set of flows of one operation that need the same resources, in
// the order of service. A resource that a head waits for stops its whole class at once, so
// that a round of grants costs O(classes + grants * log tenants).
type class struct {
	number    int
	gate      *gate
	ceiling   int   // on a tenant's tasks in doubt
	again     bool  // of tasks that are in doubt already
	resources []int // indexes into State.resources
	flows     heap[*flow]
}

// headStart is how much earlier than it arrived a task counts as arrived inside
// its tenant. The order ages by itself: a low task is overtaken by normal ones
// for half a minute, not for ever.
func headStart(p Priority) time.Duration {
	switch p {
	case Low:
		return -30 * time.Second
	case High:
		return 30 * time.Second
	case Critical:
		return 2 * time.Minute
	}
	return 0
}

// borrow is how far ahead of its tenant's fair turn a task is served, in
// service over weight (nanoseconds of the whole resource). It is a loan: the
// tenant's virtual time advances by the full charge all the same, so in the
// long run nothing is gained.
func borrow(p Priority) int64 {
	switch p {
	case Low:
		return -int64(200 * time.Millisecond)
	case High:
		return int64(200 * time.Millisecond)
	case Critical:
		return int64(800 * time.Millisecond)
	}
	return 0
}

// turn is the effective virtual time by which flows are served.
func (f *flow) turn() int64 { return f.tenant.virtual - borrow(f.head.req.Priority) }

func (t *tenant) dispatchPaused(now time.Time) bool {
	return t.pause != nil && t.pause.Dispatch && !lapsed(t.pause, now)
}

func (t *tenant) closed(now time.Time) bool {
	return t.pause != nil && t.pause.Admission && !lapsed(t.pause, now)
}

func lapsed(p *Pause, now time.Time) bool { return p.Until != nil && !p.Until.After(now) }

func (t *tenant) full() bool { return t.MaxInFlight > 0 && t.inFlight+t.claims >= t.MaxInFlight }

func (t *tenant) agentFull(a *agent) bool {
	return t.Agents.MaxInFlight > 0 && a.inFlight+a.claims >= t.Agents.MaxInFlight
}

// pick chooses the tenant's next task of a class: agents in turn by the service
// that they got, inside an agent by arrival less head start.
func (t *tenant) pick(class int) *item {
	var best *item
	var from *agent
	for _, a := range t.agents {
		if class >= len(a.ready) || t.agentFull(a) {
			continue
		}
		it, ok := a.ready[class].top()
		if !ok {
			continue
		}
		if best == nil || a.virtual < from.virtual || a.virtual == from.virtual && before(it, best) {
			best, from = it, a
		}
	}
	return best
}

// runnable tells whether any of the tenant's tasks could run as far as the
// tenant itself is concerned.
func (t *tenant) runnable() bool {
	for _, f := range t.flows {
		if f != nil && f.head != nil {
			return true
		}
	}
	return false
}

// idle tells whether no task of the agent could be chosen.
func (a *agent) idle() bool {
	for i := range a.ready {
		if a.ready[i].len() > 0 {
			return false
		}
	}
	return true
}

// queue is the agent's queue of a class.
func (a *agent) queue(class int) *heap[*item] {
	for len(a.ready) <= class {
		a.ready = append(a.ready, newItemHeap(before, func(it *item) *int { return &it.readyAt }))
	}
	return &a.ready[class]
}

// agent finds or adds an agent.
func (t *tenant) agent(name string) *agent {
	i, ok := slices.BinarySearchFunc(t.agents, name, func(a *agent, n string) int { return compare(a.name, n) })
	if ok {
		return t.agents[i]
	}
	a := &agent{name: name}
	t.agents = slices.Insert(t.agents, i, a)
	return a
}

// before is the order of tasks inside an agent.
func before(a, b *item) bool {
	x, y := a.arrival.Add(-headStart(a.req.Priority)), b.arrival.Add(-headStart(b.req.Priority))
	if !x.Equal(y) {
		return x.Before(y)
	}
	return a.seq < b.seq
}

// push puts an item into the arrival list, from the end: almost always it is the
// newest. drop takes one out.
func (t *tenant) push(it *item) {
	after := t.last
	if t.first != nil && (it.arrival.Before(t.first.arrival) || it.arrival.Equal(t.first.arrival) && it.seq < t.first.seq) {
		after = nil // it comes back to the head
	}
	for after != nil && (it.arrival.Before(after.arrival) || it.arrival.Equal(after.arrival) && it.seq < after.seq) {
		after = after.prev
	}
	it.prev = after
	if after != nil {
		it.next, after.next = after.next, it
	} else {
		it.next, t.first = t.first, it
	}
	if it.next != nil {
		it.next.prev = it
	} else {
		t.last = it
	}
}

func (t *tenant) drop(it *item) {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		t.first = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		t.last = it.prev
	}
	it.prev, it.next = nil, nil
}
