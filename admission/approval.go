package admission

import (
	"fmt"
	"time"
)

// HoldAudit is how often the holder of a place among the held tasks is looked
// at: a task that was ended from outside gives it back.
const HoldAudit = 5 * time.Minute

// A held task is accepted and waits for a person. It counts in every cap on
// waiting tasks, takes no capacity, has no place in the order of service, and
// enters the queue when it asks again without Hold. Where its request names a
// concurrent resource (HoldOn), no more tasks are held on it than the resource
// has slots beside those that are leased: people, too, are a limit.

// holdRefusal tells whether a request would be held above a limit. A resource
// that the budget does not know holds nothing: fewer questions than none are
// not asked.
func (s *State) holdRefusal(r Request) (Verdict, bool) {
	if !r.Hold || r.HoldOn == "" {
		return Verdict{}, false
	}
	i, ok := s.indexOf[r.HoldOn]
	if !ok {
		return Verdict{Action: Reject, Reason: UnknownResource, Detail: fmt.Sprintf("there is no resource %q", r.HoldOn)}, true
	}
	if on := &s.resources[i]; on.Per == 0 && on.used+on.asked >= on.limit {
		return Verdict{Action: Reject, Reason: ApprovalsFull, RetryAfter: s.jitter(r, time.Minute),
			Detail: fmt.Sprintf("%d tasks wait for a person, %s has %d", on.asked, r.HoldOn, on.limit)}, true
	}
	return Verdict{}, false
}

// countHeld counts a held item, by one or minus one.
func (s *State) countHeld(it *item, n int) {
	it.tenant.held += n
	s.held += n
	if i, ok := s.indexOf[it.req.HoldOn]; ok && it.req.HoldOn != "" {
		s.resources[i].asked += int64(n)
	}
}

// approve puts a held item into the queue, where it waits from now on, by the
// times of the request that asks again.
func (s *State) approve(it *item, r Request) {
	s.countHeld(it, -1)
	s.deadlines.remove(it)
	it.req.Hold, it.req.HoldOn, it.req.NotBefore, it.req.Deadline = false, "", r.NotBefore, r.Deadline
	if r.Deadline != nil {
		s.deadlines.fix(it)
	}
	it.arrival = later(s.now, r.NotBefore)
	if it.arrival.After(s.now) {
		s.waiting.fix(it)
		return
	}
	s.enter(it)
	s.refresh(it.tenant)
}
