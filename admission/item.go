package admission

import "time"

type stand uint8

const (
	delayed stand = iota
	queued
	standby // takes the place of a lease that is about to end
	leased
	ended // only its decision is still to be delivered
)

// attempt names one attempt of one task.
type attempt struct {
	task string
	n    int
}

// item is one attempt that the budget knows of.
type item struct {
	req     Request
	seq     uint64
	stand   stand
	arrival time.Time // began to wait; for a delayed one: will
	granted time.Time // leased
	lease   Lease
	charge  int64 // service that was charged at the grant

	ends, over       time.Time // leased, standby: when it is expected to end, and when that is near; see handover
	ahead, successor *item     // standby: whose place it takes; leased: who takes it
	handed           bool      // its successor has gone
	announced        string    // queued: the lease that it stood by for last

	ticket    string // set for one that a gateway admitted
	startBy   time.Time
	confirmed bool // the task is known to exist

	again   bool // its task was in doubt when it asked
	exposed bool // leased: it may put its task in doubt

	grace  bool      // the attempt is over, its worker may be alive until due
	due    time.Time // look at the holder then; zero: never
	refuse Reason    // ended: why
	detail string
	retry  Duration

	stopAt   time.Time // leased, its operation is frozen: the holder is asked to stop then
	stopping bool      // a request is under way
	stopped  bool      // the holder has been asked

	deliver   bool      // the task has yet to hear the decision
	deliverAt time.Time // not before
	tries     int
	asked     bool // a delivery or an audit is under way
	askedAt   time.Time

	tenant                                                           *tenant
	agent                                                            *agent
	class                                                            *class
	prev, next                                                       *item // arrival list
	elder, younger                                                   *item // all items
	readyAt, delayAt, deadlineAt, dueAt, deliverIx, stopIx, endingAt int
}

func (it *item) key() attempt { return attempt{it.req.Task, it.req.Attempt} }

// promised tells whether a lease has been given or announced.
func (it *item) promised() bool { return it.stand == leased || it.stand == standby }

func (it *item) leaseFor() time.Duration {
	if it.req.LeaseFor <= 0 {
		return time.Minute
	}
	return it.req.LeaseFor.D()
}

func newItemHeap(less func(a, b *item) bool, at func(*item) *int) heap[*item] {
	return heap[*item]{less: less, at: at}
}

// The times that heaps of items are ordered by.
func byArrival(it *item) time.Time  { return it.arrival }
func byDeadline(it *item) time.Time { return *it.req.Deadline }
func byDue(it *item) time.Time      { return it.due }
func byDelivery(it *item) time.Time { return it.deliverAt }
func byStop(it *item) time.Time     { return it.stopAt }
func byOver(it *item) time.Time     { return it.over }

// byTime orders a heap of items by a time, and by age where that is equal.
func byTime(of func(*item) time.Time) func(a, b *item) bool {
	return func(a, b *item) bool {
		x, y := of(a), of(b)
		if !x.Equal(y) {
			return x.Before(y)
		}
		return a.seq < b.seq
	}
}
