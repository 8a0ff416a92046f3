package chaos

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// task is a planned task and what its client has seen of it.
type task struct {
	Task
	accepted bool
	refusals int // answers that told it to come back
	lost     int // requests that were not answered
	view     contract.TaskView
	story    contract.Explanation
	counts   provider.Counts
	entries  []provider.Entry
	decided  int // by a person
}

func (t *task) name() string    { return t.Tenant + "/" + t.Key }
func (t *task) witness() string { return contract.ProviderKey(t.Tenant, t.Key) }
func (t *task) reads() bool     { return t.Operation == "read" }

// effects is how often the provider did what was asked.
func (t *task) effects() int {
	if t.reads() {
		return t.counts.Reads
	}
	return t.counts.Effects
}

// submitAll is a crowd of callers; each sends a task, waits a while for its end,
// and goes on to the next.
func (r *run) submitAll(ctx context.Context) error {
	next := make(chan *task)
	var all sync.WaitGroup
	for i := range r.o.Callers {
		all.Go(func() {
			for t := range next {
				r.caller(ctx, i, t)
			}
		})
	}
	for _, t := range r.tasks {
		select {
		case next <- t:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// caller brings one task in, whatever happens, and waits for it. A task that is
// not known or not ended after the wait is looked at again in the end.
func (r *run) caller(ctx context.Context, i int, t *task) {
	for try := i; ctx.Err() == nil; try++ {
		if r.submit(ctx, t, try) {
			break
		}
	}
	r.mu.Lock()
	r.accepted++
	close(r.moved)
	r.moved = make(chan struct{})
	r.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	_, _ = r.door(i).Await(limited, t.Tenant, t.Key, 5*time.Second) // its door may be dead
}

// submit sends a task to one gateway, or to both, and tells whether it was
// accepted. Until then it comes back with the same key, as told to.
func (r *run) submit(ctx context.Context, t *task, try int) bool {
	send := func(door *drill.Door) (drill.Answer, error) {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return door.Submit(limited, t.Key, contract.SubmitRequest{Tenant: t.Tenant, Operation: t.Operation, Priority: t.Priority, Payload: t.payload()})
	}
	if t.Twice {
		var aside sync.WaitGroup
		defer aside.Wait()
		aside.Go(func() { _, _ = send(r.door(try + 1)) })
	}
	answer, err := send(r.door(try))
	switch {
	case err != nil:
		t.lost++
		after(ctx, 100*time.Millisecond)
		return false
	case answer.Status/100 == 2:
		t.accepted = true
		return true
	case answer.Status != 429 && answer.Status/100 != 5:
		r.fault(fmt.Errorf("submit %s: %d %s: %s", t.name(), answer.Status, answer.Problem.Reason, answer.Problem.Detail))
		return true
	}
	t.refusals++
	seconds, _ := strconv.Atoi(answer.RetryAfter)
	after(ctx, min(time.Duration(max(seconds, 1))*time.Second, 3*time.Second)) // impatient, so that the run ends
	return false
}

func (r *run) door(i int) *drill.Door { return r.Doors[i%len(r.Doors)] }

func (t *task) payload() []byte {
	return fmt.Appendf(nil, `{"amount":%d,"currency":"EUR","key":%q,"tenant":%q}`, 100+len(t.Key), t.witness(), t.Tenant)
}

// settle waits until every accepted task has ended. Those that only a person can
// decide are decided by the provider's own ledger, once nothing is in its hands.
// It answers with those that have not ended.
func (r *run) settle(ctx context.Context) (late []*task) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		late = nil
		for _, t := range r.tasks {
			if !t.accepted || t.view.Phase.End() && t.view.Phase != contract.PhaseUnknown {
				continue
			}
			if answer, err := r.Door.Task(ctx, t.Tenant, t.Key); err == nil && answer.Status == 200 {
				t.view = answer.Task
			}
			switch {
			case !t.view.Phase.End():
				late = append(late, t)
			case t.view.Phase == contract.PhaseUnknown:
				late = append(late, t)
				r.decide(ctx, t)
			}
		}
		if len(late) == 0 || ctx.Err() != nil {
			return late
		}
		after(ctx, 500*time.Millisecond)
	}
}

// decide is a person who reads the provider's ledger.
func (r *run) decide(ctx context.Context, t *task) {
	hands, err := r.Provider.Concurrency(ctx)
	if err != nil || hands.Now > 0 || t.view.Reconciliation == nil {
		return
	}
	counts, err := r.Provider.Effects(ctx, t.witness())
	if err != nil {
		return
	}
	outcome := contract.DidNotHappen
	if counts.Effects > 0 || t.reads() && counts.Reads > 0 {
		outcome = contract.Happened
	}
	stand := t.view.Reconciliation
	answer, err := r.Door.Resolve(ctx, t.Tenant, t.Key, contract.Resolution{
		ID: fmt.Sprintf("chaos-%s-%d", t.Key, stand.Version), Actor: "operator", Outcome: outcome,
		Evidence: "the provider's own ledger was read", Version: stand.Version})
	if err == nil && answer.Status/100 == 2 {
		t.decided++
	}
}
