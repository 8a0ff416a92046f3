package admission

import (
	"slices"
	"strconv"
	"time"
)

// Times that every budget keeps to.
const (
	// TicketFor is how long an admitted task may take to be started.
	TicketFor = 20 * time.Second
	// TicketMargin is waited after a ticket's end before the budget looks
	// whether the task was started in time.
	TicketMargin = 10 * time.Second
	// Redeliver is the wait before a decision is sent again, to a task that is
	// not there yet or could not be told. It doubles up to RedeliverMax. A grant
	// is often sooner than the start of its task, which takes a gateway a few
	// milliseconds, or some hundred under load.
	Redeliver = 50 * time.Millisecond
	// RedeliverMax bounds the wait.
	RedeliverMax = 30 * time.Second
	// AuditAgain is the wait before a holder that was seen alive, or could not
	// be looked at, is looked at again.
	AuditAgain = 30 * time.Second
	// MaxEffects bounds what one Advance hands out, of each kind.
	MaxEffects = 200
)

// State is everything that one budget knows. It is not safe for concurrent
// use. Time never runs backwards in it: an earlier now counts as the last one.
type State struct {
	policy Policy
	now    time.Time
	epoch  string // tells leases of a restarted budget from those of an older one
	seq    uint64

	resources []resource
	indexOf   map[string]int

	tenants   []*tenant // sorted by name
	tenantOf  map[string]*tenant
	paused    []*tenant // sorted by name
	active    int64     // sum of the weights of tenants with waiting tasks
	virtual   int64     // virtual time: what a tenant that comes back starts at
	classes   []*class
	classOf   map[string]*class
	oldest    heap[*tenant] // tenants that could run something, by their oldest task
	depth     int           // waiting tasks
	held      int           // of these, for a person
	inFlight  int
	items     map[attempt]*item
	eldest    *item // of all items, by age
	youngest  *item
	waiting   heap[*item] // delayed, by arrival
	deadlines heap[*item] // waiting, with a deadline
	audits    heap[*item] // by due
	outbox    heap[*item] // by deliverAt
	endings   heap[*item] // leased without a successor, by over
	standby   int         // of the waiting ones
	recheck   bool        // something was closed: see callBack

	stops heap[*item] // leased, to be asked to stop, by stopAt

	doubts      []*doubt // by age
	doubtOf     map[string]*doubt
	doubtAudits heap[*doubt] // by due

	gates      []*gate         // sorted by name
	operations []operationStat // sorted by name
	drain      drain
	handover   handover
}

// New is an empty budget. epoch is any text that differs between two runs that
// do not share a snapshot. The policy must be normalized and valid.
func New(p Policy, epoch string, now time.Time) (*State, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &State{
		policy:    p,
		now:       now,
		epoch:     epoch,
		indexOf:   map[string]int{},
		tenantOf:  map[string]*tenant{},
		classOf:   map[string]*class{},
		items:     map[attempt]*item{},
		doubtOf:   map[string]*doubt{},
		waiting:   newItemHeap(byTime(byArrival), func(it *item) *int { return &it.delayAt }),
		deadlines: newItemHeap(byTime(byDeadline), func(it *item) *int { return &it.deadlineAt }),
		audits:    newItemHeap(byTime(byDue), func(it *item) *int { return &it.dueAt }),
		outbox:    newItemHeap(byTime(byDelivery), func(it *item) *int { return &it.deliverIx }),
		endings:   newItemHeap(byTime(byOver), func(it *item) *int { return &it.endingAt }),
		stops:     newItemHeap(byTime(byStop), func(it *item) *int { return &it.stopIx }),
		doubtAudits: heap[*doubt]{
			less: func(a, b *doubt) bool {
				if !a.due.Equal(b.due) {
					return a.due.Before(b.due)
				}
				return a.task < b.task
			},
			at: func(d *doubt) *int { return &d.dueAt },
		},
		oldest: heap[*tenant]{
			less: func(a, b *tenant) bool {
				if !a.first.arrival.Equal(b.first.arrival) {
					return a.first.arrival.Before(b.first.arrival)
				}
				return a.Name < b.Name
			},
			at: func(t *tenant) *int { return &t.oldAt },
		},
	}
	for i, r := range p.Resources {
		s.indexOf[r.Name] = i
		s.resources = append(s.resources, resource{Resource: r, limit: r.Concurrent, level: r.Burst, at: now})
	}
	return s, nil
}

// Policy is the one in force.
func (s *State) Policy() Policy { return s.policy }

// clock moves the budget's time; it never goes back.
func (s *State) clock(now time.Time) {
	if now.After(s.now) {
		s.now = now
	}
}

func (s *State) newID(kind string) string {
	s.seq++
	return kind + s.epoch + "-" + strconv.FormatUint(s.seq, 36)
}

func (s *State) tenant(name string) *tenant {
	if t := s.tenantOf[name]; t != nil {
		return t
	}
	t := &tenant{TenantPolicy: s.policy.Tenant(name)} // its virtual time is set when it can run something
	i, _ := slices.BinarySearchFunc(s.tenants, name, func(t *tenant, n string) int { return compare(t.Name, n) })
	s.tenants = slices.Insert(s.tenants, i, t)
	s.tenantOf[name] = t
	return t
}

// classFor finds or adds the class of an operation and its cost. again is set
// for attempts of a task that is in doubt already.
func (s *State) classFor(operation string, cost []Cost, again bool) *class {
	indexes := make([]int, 0, 4)
	for _, c := range cost {
		if i, ok := s.indexOf[c.Resource]; ok {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	key := append(make([]byte, 0, 80), operation...)
	key = append(key, '/')
	for _, i := range indexes {
		key = strconv.AppendInt(key, int64(i), 36)
		key = append(key, ',')
	}
	if again {
		key = append(key, '!')
	}
	if c := s.classOf[string(key)]; c != nil {
		return c
	}
	c := &class{number: len(s.classes), gate: s.gate(operation), ceiling: s.policy.ceiling(operation), again: again, resources: slices.Clone(indexes), flows: heap[*flow]{
		less: func(a, b *flow) bool { return sooner(a, b) },
		at:   func(f *flow) *int { return &f.at },
	}}
	s.classes = append(s.classes, c)
	s.classOf[string(key)] = c
	return c
}

// add puts a new attempt in front of the queue: delayed if its time has not
// come, else queued.
func (s *State) add(r Request) *item {
	s.seq++
	t := s.tenant(r.Tenant)
	r.Hash = fingerprint(r.Hash)
	again := s.doubtOf[r.Task] != nil
	it := &item{req: r, seq: s.seq, arrival: s.now, stand: queued, again: again, tenant: t, agent: t.agent(r.Agent),
		class: s.classFor(r.Operation, r.Cost, again)}
	switch {
	case r.Hold:
		it.stand = delayed
	case r.NotBefore != nil && r.NotBefore.After(s.now):
		it.arrival, it.stand = *r.NotBefore, delayed
	case r.Since != nil && r.Since.Before(s.now):
		it.arrival = *r.Since
	}
	s.insert(it)
	s.refresh(t)
	return it
}

// insert links a waiting item into every order that it belongs to.
func (s *State) insert(it *item) {
	s.keep(it)
	s.await(it)
}

// await counts an item among those that wait.
func (s *State) await(it *item) {
	s.count(it, 1)
	if it.req.Deadline != nil {
		s.deadlines.fix(it)
	}
	switch {
	case it.req.Hold:
		s.countHeld(it, 1)
		s.audit(it, s.now.Add(HoldAudit))
		return
	case it.stand == delayed:
		s.waiting.fix(it)
		return
	}
	s.enter(it)
}

// count keeps the numbers of those that wait.
func (s *State) count(it *item, n int) {
	t := it.tenant
	if n > 0 && t.queued == 0 {
		s.active += t.Weight
	}
	s.depth += n
	t.queued += n
	it.agent.queued += n
	t.depth[it.req.Priority-Low] += n
	if n < 0 && t.queued == 0 {
		s.active -= t.Weight
	}
}

// enter makes a waiting item eligible; the caller refreshes its tenant.
func (s *State) enter(it *item) {
	t := it.tenant
	it.stand = queued
	if it.agent.idle() {
		it.agent.virtual = max(it.agent.virtual, t.served)
	}
	it.agent.queue(it.class.number).fix(it)
	t.push(it)
}

// leave takes a waiting item out of the queue; it stays in s.items.
func (s *State) leave(it *item) {
	t := it.tenant
	s.count(it, -1)
	s.deadlines.remove(it)
	if it.req.Hold {
		s.countHeld(it, -1)
	}
	if it.stand == delayed {
		s.waiting.remove(it)
		return
	}
	it.agent.queue(it.class.number).remove(it)
	t.drop(it)
	s.refresh(t)
}

// refresh puts a tenant's flows where their heads belong, after anything about
// it changed. A tenant that could run nothing before saved up no credit.
func (s *State) refresh(t *tenant) {
	idle := !t.runnable()
	held := t.dispatchPaused(s.now) || t.full()
	for _, c := range s.classes {
		f := t.flow(c)
		c.flows.remove(f)
		f.head = nil
		if !held && !f.barred() {
			f.head = t.pick(c.number)
		}
	}
	if idle && t.runnable() {
		t.virtual = max(t.virtual, s.floor())
	}
	for _, f := range t.flows {
		if f != nil && f.head != nil {
			f.class.flows.fix(f)
		}
	}
	if t.runnable() {
		s.oldest.fix(t)
	} else {
		s.oldest.remove(t)
	}
}

// floor is the virtual time at which a tenant comes back: that of the flow that
// was served last, but not above those that are first in their class now. The
// second matters when service was charged by too high an estimate and settled
// since.
func (s *State) floor() int64 {
	floor := s.virtual
	for _, c := range s.classes {
		if f, ok := c.flows.top(); ok {
			floor = min(floor, f.tenant.virtual)
		}
	}
	return floor
}

func (t *tenant) flow(c *class) *flow {
	for len(t.flows) <= c.number {
		t.flows = append(t.flows, nil)
	}
	if t.flows[c.number] == nil {
		t.flows[c.number] = &flow{tenant: t, class: c, use: t.use(c.gate.Name)}
	}
	return t.flows[c.number]
}

// sooner is the order of service between flows.
func sooner(a, b *flow) bool {
	if x, y := a.turn(), b.turn(); x != y {
		return x < y
	}
	if a.tenant != b.tenant {
		return a.tenant.Name < b.tenant.Name
	}
	return before(a.head, b.head)
}
