package gateway

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"headgate/admission"
)

const (
	// memoryTime is how long a refusal of the budget stands for requests that it
	// would refuse as well: room is seen a quarter of a second late at most.
	memoryTime = 250 * time.Millisecond
	// refreshTime is when one request goes to the budget all the same, so that a
	// flood is a handful of questions a second, and never many at one time.
	refreshTime = memoryTime / 2
	// maxRemembered bounds the refusals that are kept.
	maxRemembered = 4096
)

// memory is what the budget refused a moment ago, so that a flood of requests
// does not ask it again and again. It is asked only about a key that has no task.
//
// What it repeats is true of the request at hand: a refusal counts for requests
// that have in common all that the budget looked at (see scopeOf). It is only
// late, by memoryTime at most; it is forgotten when Retry-After is over, or when
// one of its kind is accepted. A key that is on its way to a task is the
// budget's to judge, which has a ticket for it: in this gateway that is known
// (carry), in another one it is not, where nothing was promised yet and the same
// key finds out later. The zero value is ready.
type memory struct {
	mu      sync.RWMutex
	said    map[scope]*told
	carried map[string]int // requests by their task
}

type told struct {
	verdict   admission.Verdict
	at, until time.Time
	refreshed atomic.Bool // a request has gone to the budget
}

// scope is what requests have in common that are refused together. Fields that
// the reason does not look at are empty.
type scope struct {
	reason                   admission.Reason
	tenant, agent, operation string
	class                    admission.Priority // critical or low where they are treated apart
}

// remembered are the reasons that a flood meets, in the order of the budget's
// checks. The others are about one request: its key, cost or deadline.
var remembered = [...]admission.Reason{
	admission.TenantClosed, admission.DownstreamUnavailable, admission.TenantLimit, admission.AgentLimit,
	admission.StaleBacklog, admission.QueueFull, admission.OverShare,
}

// scopeOf says for which requests a refusal of this one counts; false if the
// reason does not exist for it. From the queue caps on, an operation may make
// room for itself where the tenant has one of its tasks waiting (drop_oldest, in
// the running policy, which may not be our file's): so tenant and operation count.
func scopeOf(reason admission.Reason, r admission.Request) (scope, bool) {
	s := scope{reason: reason, tenant: r.Tenant, operation: r.Operation}
	critical := r.Priority == admission.Critical
	switch reason {
	case admission.TenantClosed:
		s.operation = ""
		return s, true
	case admission.DownstreamUnavailable:
		s.tenant = ""
		return s, !critical
	case admission.TenantLimit:
		return s, true
	case admission.AgentLimit:
		s.agent = r.Agent
		return s, true
	case admission.StaleBacklog:
		return s, !critical
	case admission.QueueFull: // critical work has a reserve
		if critical {
			s.class = admission.Critical
		}
		return s, true
	case admission.OverShare: // low work is refused whatever its tenant's share
		if r.Priority == admission.Low {
			s.class = admission.Low
		}
		return s, !critical
	}
	return scope{}, false
}

// carry notes that a request is on its way to a task, until done is called.
func (m *memory) carry(task string) (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.carried == nil {
		m.carried = map[string]int{}
	}
	m.carried[task]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.carried[task]--; m.carried[task] == 0 {
			delete(m.carried, task)
		}
	}
}

// learn keeps a refusal, if it is of a kind that others will meet, and forgets
// those that an accepted request proves wrong.
func (m *memory) learn(now time.Time, r admission.Request, v admission.Verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.Accepted() {
		if len(m.said) > 0 {
			for _, reason := range remembered {
				s, _ := scopeOf(reason, r)
				delete(m.said, s)
			}
		}
		return
	}
	s, ok := scopeOf(v.Reason, r)
	if !ok {
		return
	}
	keep := memoryTime
	if v.RetryAfter > 0 {
		keep = min(keep, v.RetryAfter.D())
	}
	if m.said == nil || len(m.said) >= maxRemembered {
		m.said = map[scope]*told{} // what is lost costs a question
	}
	m.said[s] = &told{verdict: v, at: now, until: now.Add(keep)}
}

// recall gives the refusal that counts for a request, if the budget need not be
// asked again.
func (m *memory) recall(now time.Time, r admission.Request) (admission.Verdict, bool) {
	last := m.find(now, r)
	if last == nil || now.Sub(last.at) >= refreshTime && last.refreshed.CompareAndSwap(false, true) {
		return admission.Verdict{}, false
	}
	return apart(last.verdict), true
}

// find gives the refusal that counts for a request; nil if there is none. A
// deadline that has passed is the budget's to judge: time does not mend it.
func (m *memory) find(now time.Time, r admission.Request) *told {
	if r.Deadline != nil && !r.Deadline.After(now) {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.said) == 0 || m.carried[r.Task] > 0 {
		return nil
	}
	for _, reason := range remembered {
		if s, ok := scopeOf(reason, r); ok {
			if last := m.said[s]; last != nil && now.Before(last.until) {
				return last
			}
		}
	}
	return nil
}

// apart spreads Retry-After anew, by up to a fifth, so that those who are told
// the same do not come back together.
func apart(v admission.Verdict) admission.Verdict {
	if v.RetryAfter > 0 {
		v.RetryAfter += admission.Duration(rand.Int64N(int64(v.RetryAfter)/5 + 1))
	}
	return v
}
