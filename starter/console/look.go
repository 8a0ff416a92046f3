package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"headgate/admission"
	"headgate/contract"
)

const (
	// lookEvery is the least time between two looks at the budget, listEvery that
	// between two readings of Temporal's index.
	lookEvery = 2 * time.Second
	listEvery = 5 * time.Second
	// pollEvery is how often an open page refreshes its parts.
	pollEvery = 3 * time.Second
	// lookTimeout bounds one look, patience how long a page waits for one while
	// there is an earlier one to show, and nothing was ordered since.
	lookTimeout = 20 * time.Second
	patience    = 200 * time.Millisecond
	// maxInbox is how many rows of an inbox are shown.
	maxInbox = 20
	// maxLooks bounds how many senders' looks are kept apart.
	maxLooks = 16
)

// look is what all pages show, as it was at one time. It is not changed once it
// is taken. What could not be read is as it was before.
type look struct {
	At        time.Time // of the last one in which everything was read; zero: none yet
	Caller    contract.Caller
	Queue     queueView
	Phases    contract.PhaseCounts
	Unknown   contract.TaskPage
	Approvals contract.TaskPage
	Trend     []sample

	Failed *problem // why the newest attempt failed; nil: it did not
	Off    int      // looks in a row whose counts did not add up
	tried  time.Time
	listed time.Time // when the index was read
}

// queueView is the answer of GET /v1/queue.
type queueView struct {
	admission.View
	File string `json:"file_policy"`
}

// sample is one point of the trend.
type sample struct {
	At             time.Time
	Depth, Running int
}

const maxTrend = 300

// staleAt tells whether decisions are off at a time.
func (l *look) staleAt(now time.Time, limit time.Duration) bool {
	return l.At.IsZero() || l.Failed != nil || now.Sub(l.At) > limit
}

// Locked tells that the API wants a key, and did not get one that is valid.
func (l *look) Locked() bool { return l.Failed != nil && l.Failed.Reason == "key_required" }

// looks keeps the last look of each sender's credentials; without keys, all
// senders are one.
type looks struct {
	take func(ctx context.Context, r *http.Request, last *look, lists bool) *look
	now  func() time.Time
	// The least time between two looks, and between two with the lists.
	every, lists time.Duration

	mu   sync.Mutex
	kept []*kept // the one used last at the end
}

type kept struct {
	credentials [sha256.Size]byte
	last        *look
	forced      bool          // the next look is due at once, with the lists
	running     chan struct{} // closed when the look under way is over; nil: none is
	ordered     bool          // the look under way is to show what was ordered
}

// see gives the look that counts for a request's sender, and takes a new one if
// it is due. While a new one is slow, the last one is shown.
func (s *looks) see(r *http.Request) *look {
	s.mu.Lock()
	k := s.of(r)
	if k.running == nil && (k.forced || k.last == nil || s.now().Sub(k.last.tried) >= s.every) {
		k.running = make(chan struct{})
		lists := k.forced || k.last == nil || s.now().Sub(k.last.listed) >= s.lists
		k.forced, k.ordered = false, k.forced
		go s.run(k, r, k.last, lists)
	}
	running, last, ordered := k.running, k.last, k.ordered
	s.mu.Unlock()
	if running == nil {
		return last
	}
	var enough <-chan time.Time
	if last != nil && !ordered {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-running:
	case <-enough:
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.last == nil {
		return &look{Failed: &problem{Detail: "nothing was read yet"}}
	}
	return k.last
}

func (s *looks) run(k *kept, r *http.Request, last *look, lists bool) {
	// Others wait for it, too, so that it does not end with the request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), lookTimeout)
	defer cancel()
	next := s.take(ctx, r, last, lists)
	s.mu.Lock()
	defer s.mu.Unlock()
	k.last = next
	close(k.running)
	k.running = nil
}

// soon makes the next look due at once: something was ordered.
func (s *looks) soon(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(r).forced = true
}

// of finds the look of a sender; the caller holds the lock.
func (s *looks) of(r *http.Request) *kept {
	sum := sha256.Sum256([]byte(credentials(r)))
	for i, k := range s.kept {
		if k.credentials == sum {
			s.kept = append(append(s.kept[:i:i], s.kept[i+1:]...), k)
			return k
		}
	}
	k := &kept{credentials: sum}
	if s.kept = append(s.kept, k); len(s.kept) > maxLooks {
		s.kept = s.kept[1:]
	}
	return k
}

// take takes a look: the budget always, the lists if they are due.
func (c *Console) take(ctx context.Context, r *http.Request, last *look, lists bool) *look {
	next := &look{tried: c.now()}
	if last != nil {
		*next = *last
		next.tried, next.Failed = c.now(), nil
	}
	failed := func(err error) bool {
		switch {
		case err == nil:
			return false
		case next.Failed == nil:
			next.Failed = asProblem(err)
		}
		return true
	}
	if lists {
		var caller contract.Caller
		if failed(c.call(ctx, r, http.MethodGet, "/v1/caller", nil, &caller)) {
			return next
		}
		next.Caller = caller
	}
	var queue queueView
	answers := !failed(c.call(ctx, r, http.MethodGet, "/v1/queue", nil, &queue))
	if answers {
		next.Queue = queue
		next.Trend = append(append([]sample{}, next.Trend[max(0, len(next.Trend)-maxTrend+1):]...), sample{next.tried, queue.Depth, queue.InFlight})
	}
	if lists {
		var counts contract.PhaseCounts
		if answers && !failed(c.call(ctx, r, http.MethodGet, "/v1/phases", nil, &counts)) {
			next.Phases = counts
			if next.Off++; counts.Sum() == counts.Total {
				next.Off = 0
			}
		}
		var unknown, approvals contract.TaskPage
		if !failed(c.call(ctx, r, http.MethodGet, fmt.Sprintf("/v1/unknown?limit=%d", maxInbox), nil, &unknown)) {
			slices.SortStableFunc(unknown.Tasks, func(a, b contract.TaskView) int { return since(a).Compare(since(b)) })
			next.Unknown = unknown
		}
		if !failed(c.call(ctx, r, http.MethodGet, fmt.Sprintf("/v1/approvals?limit=%d", maxInbox), nil, &approvals)) {
			next.Approvals = approvals
		}
	}
	if next.Failed == nil {
		next.At = next.tried
		if lists {
			next.listed = next.tried
		}
	}
	return next
}

// since is when a task's outcome became unknown; zero: it is so for good.
func since(t contract.TaskView) time.Time {
	if t.Reconciliation == nil {
		return time.Time{}
	}
	return t.Reconciliation.Since
}

func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	return &problem{Status: http.StatusInternalServerError, Detail: err.Error()}
}
