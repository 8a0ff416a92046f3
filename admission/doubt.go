package admission

import (
	"fmt"
	"slices"
	"time"
)

// What a task in doubt costs others.
const (
	// MaxUnknownCeiling is the highest ceiling, and the one in force when none is
	// declared: doubts are kept one by one, and a budget has to stay small.
	MaxUnknownCeiling = 1000
	// UnknownRetry is what a client is told to wait at the ceiling. Nobody knows
	// when a doubt ends, so it is a guess, spread like all such times.
	UnknownRetry = 30 * time.Second
	// DoubtAgain is the wait before the task of a doubt is looked at. It tells by
	// itself when the doubt is over; the look is for tasks that were terminated.
	DoubtAgain = 10 * time.Minute
)

// doubt is one task whose effect may have happened. It is counted until evidence
// has decided, or the task has ended.
type doubt struct {
	task  string
	use   *use
	since time.Time
	held  []Cost // what stays charged of interval resources; slots are free
	// leases are those of the task, which are not counted as exposed: a replay, or
	// the attempt in doubt itself while its worker may be alive.
	leases []*item
	due    time.Time
	dueAt  int
}

// use is what one tenant has out of one operation.
type use struct {
	tenant    *tenant
	operation string
	doubts    int // tasks in doubt
	exposed   int // leases of tasks that are not: each may add a doubt
}

// use finds or adds the tenant's use of an operation.
func (t *tenant) use(operation string) *use {
	i, ok := slices.BinarySearchFunc(t.uses, operation, func(u *use, n string) int { return compare(u.operation, n) })
	if !ok {
		t.uses = slices.Insert(t.uses, i, &use{tenant: t, operation: operation})
	}
	return t.uses[i]
}

func (t *tenant) doubts(operation string) int {
	i, ok := slices.BinarySearchFunc(t.uses, operation, func(u *use, n string) int { return compare(u.operation, n) })
	if !ok {
		return 0
	}
	return t.uses[i].doubts
}

// atCeiling tells whether one more lease could put more tasks in doubt than the
// ceiling allows. A task that is in doubt already adds none: it goes on, or the
// doubts that only a replay can end would keep the ceiling for ever.
func (f *flow) atCeiling() bool {
	return !f.class.again && f.use.doubts+f.use.exposed >= f.class.ceiling
}

// ceiling is the limit on an operation's tasks in doubt, per tenant.
func (p Policy) ceiling(operation string) int {
	most := p.operation(operation).UnknownCeiling
	if most == 0 {
		most = p.UnknownCeiling
	}
	if most == 0 {
		most = MaxUnknownCeiling
	}
	return most
}

// expose counts a lease that may put its task in doubt.
func (s *State) expose(it *item) {
	if d := s.doubtOf[it.req.Task]; d != nil {
		d.leases = append(d.leases, it)
		return
	}
	it.exposed = true
	it.tenant.use(it.req.Operation).exposed++
}

// cover ends what expose began.
func (s *State) cover(it *item) {
	if it.exposed {
		it.exposed = false
		it.tenant.use(it.req.Operation).exposed--
	}
	if d := s.doubtOf[it.req.Task]; d != nil {
		d.leases = slices.DeleteFunc(d.leases, func(o *item) bool { return o == it })
	}
}

// doubtAbout puts the task of a leased attempt in doubt.
func (s *State) doubtAbout(it *item) {
	if s.doubtOf[it.req.Task] != nil {
		return
	}
	d := &doubt{task: it.req.Task, use: it.tenant.use(it.req.Operation), since: s.now}
	for _, c := range it.req.Cost {
		if r, ok := s.policy.Resource(c.Resource); ok && r.Per > 0 {
			d.held = append(d.held, c)
		}
	}
	s.holdDoubt(d, s.now.Add(DoubtAgain))
	for _, o := range s.leasesOf(it.req.Task) {
		s.cover(o)
		s.expose(o)
	}
	s.refresh(it.tenant)
}

// leasesOf lists the leases of a task: of its last attempt, and of one before
// whose worker may be alive.
func (s *State) leasesOf(task string) []*item {
	var out []*item
	for it := s.eldest; it != nil; it = it.younger {
		if it.stand == leased && it.req.Task == task {
			out = append(out, it)
		}
	}
	return out
}

func (s *State) holdDoubt(d *doubt, due time.Time) {
	s.doubts = append(s.doubts, d)
	s.doubtOf[d.task] = d
	d.use.doubts++
	d.due = due
	s.doubtAudits.fix(d)
}

// resolve ends a doubt. What was charged stays charged: the bucket has refilled
// meanwhile, and giving it back would be a second helping.
func (s *State) resolve(task string) {
	d := s.doubtOf[task]
	if d == nil {
		return
	}
	delete(s.doubtOf, task)
	s.doubts = slices.DeleteFunc(s.doubts, func(o *doubt) bool { return o == d })
	s.doubtAudits.remove(d)
	d.use.doubts--
	for _, it := range d.leases {
		s.expose(it)
	}
	s.refresh(d.use.tenant)
}

// inspectedDoubt answers the look at a task in doubt. Its attempt is zero, which
// none has.
func (s *State) inspectedDoubt(task string, holder Holder) {
	d := s.doubtOf[task]
	if d == nil {
		return
	}
	switch holder {
	case HolderClosed, HolderMissing:
		s.resolve(task)
		return
	case HolderOpen:
		d.due = s.now.Add(DoubtAgain)
	default:
		d.due = s.now.Add(AuditAgain)
	}
	s.doubtAudits.fix(d)
}

// ceilingDetail says what stands against a ceiling.
func (s *State) ceilingDetail(u *use) string {
	return fmt.Sprintf("%d tasks of %s of %s are in doubt and %d more run; the ceiling is %d",
		u.doubts, u.tenant.Name, u.operation, u.exposed, s.policy.ceiling(u.operation))
}

// DoubtRecord is one task in doubt, in a snapshot.
type DoubtRecord struct {
	Task      string    `json:"task"`
	Tenant    string    `json:"tenant"`
	Operation string    `json:"operation"`
	Since     time.Time `json:"since"`
	Held      []Cost    `json:"held,omitempty"`
	Due       time.Time `json:"due"`
}

func (s *State) writeDoubts() []DoubtRecord {
	var out []DoubtRecord
	for _, d := range s.doubts {
		w := DoubtRecord{Task: d.task, Tenant: d.use.tenant.Name, Operation: d.use.operation, Since: d.since, Held: d.held, Due: d.due}
		if d.dueAt == 0 {
			w.Due = s.now // a look was under way
		}
		out = append(out, w)
	}
	return out
}

func (s *State) restoreDoubts(list []DoubtRecord) error {
	for _, w := range list {
		if s.doubtOf[w.Task] != nil {
			return fmt.Errorf("snapshot: %q is in doubt twice", w.Task)
		}
		s.holdDoubt(&doubt{task: w.Task, use: s.tenant(w.Tenant).use(w.Operation), since: w.Since, held: w.Held}, w.Due)
	}
	return nil
}

// DoubtView is what one tenant's tasks in doubt hold of one operation.
type DoubtView struct {
	Operation string    `json:"operation"`
	Tenant    string    `json:"tenant"`
	Tasks     int       `json:"tasks"`   // in doubt
	Ceiling   int       `json:"ceiling"` // at it, nothing new of both is admitted or started
	Since     time.Time `json:"since"`   // of the oldest
	// Held is what stays charged of interval resources. Concurrent slots are free.
	Held []Cost `json:"held,omitempty"`
}

// viewDoubts sums the doubts up, by operation and tenant.
func (s *State) viewDoubts() []DoubtView {
	var out []DoubtView
	for _, d := range s.doubts {
		i, ok := slices.BinarySearchFunc(out, d.use, func(v DoubtView, u *use) int {
			if c := compare(v.Operation, u.operation); c != 0 {
				return c
			}
			return compare(v.Tenant, u.tenant.Name)
		})
		if !ok {
			out = slices.Insert(out, i, DoubtView{Operation: d.use.operation, Tenant: d.use.tenant.Name,
				Ceiling: s.policy.ceiling(d.use.operation), Since: d.since})
		}
		v := &out[i]
		v.Tasks++
		for _, c := range d.held {
			v.Held = plus(v.Held, c)
		}
	}
	return out
}

// plus adds a cost to a list that is sorted by resource.
func plus(list []Cost, c Cost) []Cost {
	i, ok := slices.BinarySearchFunc(list, c.Resource, func(c Cost, n string) int { return compare(c.Resource, n) })
	if !ok {
		return slices.Insert(list, i, c)
	}
	list[i].Amount += c.Amount
	return list
}
