package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// However many pages are open, the budget is asked less than once a second, and
// not at all when nobody looks.
func TestQueriesOfManyPages(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	const pages, seconds = 10, 30
	for range seconds * 2 {
		var all sync.WaitGroup
		for range pages {
			all.Go(func() {
				status, _ := visit(c, "", "/console/", "HX-Request", "true")
				assert.Equal(t, 200, status)
			})
		}
		all.Wait()
		w.pass(500 * time.Millisecond)
	}
	queues, counts := w.asked("/v1/queue"), w.asked("/v1/phases") // each asks the budget once
	assert.LessOrEqual(t, queues, seconds/2+1)
	assert.LessOrEqual(t, counts, seconds/5+1)
	assert.Less(t, queues+counts, seconds)
	assert.GreaterOrEqual(t, queues, seconds/2-1, "while somebody looks, it is current")
	assert.LessOrEqual(t, w.asked("/v1/unknown"), seconds/5+1)

	w.pass(time.Hour)
	assert.Equal(t, queues, w.asked("/v1/queue"))
}

// What is ordered is seen at once.
func TestAnOrderIsSeenAtOnce(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	_, page := visit(c, "mara", "/console/")
	require.Contains(t, page, "acme / inv-7")
	require.Equal(t, 303, send(c, "mara", resolvePath, resolution()).Code)
	_, page = visit(c, "mara", "/console/")
	assert.NotContains(t, page, "acme / inv-7")
}

// Those who send other credentials see what these show, and nothing else.
func TestLooksAreApartByCredentials(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	for i := range 2 * maxLooks {
		visit(c, "", "/console/", "Authorization", fmt.Sprintf("Bearer %d", i))
	}
	assert.Equal(t, 2*maxLooks, w.asked("/v1/queue"))
	assert.Len(t, c.looks.kept, maxLooks)
	visit(c, "", "/console/", "Authorization", fmt.Sprintf("Bearer %d", 2*maxLooks-1))
	assert.Equal(t, 2*maxLooks, w.asked("/v1/queue"))
	visit(c, "", "/console/")
	assert.Equal(t, 2*maxLooks+1, w.asked("/v1/queue"))
	assert.Empty(t, w.sent[len(w.sent)-1])
}

// While a new look is slow the last one is shown, and nobody asks twice.
func TestASlowLook(t *testing.T) {
	now, begun, slow := start, make(chan struct{}, 8), make(chan struct{})
	first := true
	looks := &looks{every: lookEvery, lists: listEvery, now: func() time.Time { return now }, take: func(context.Context, *http.Request, *look, bool) *look {
		if first {
			first = false
			return &look{At: start, tried: start, listed: start}
		}
		begun <- struct{}{}
		<-slow
		return &look{At: now, tried: now, listed: now}
	}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	require.Equal(t, start, looks.see(r).At)
	now = start.Add(lookEvery)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { assert.Equal(t, start, looks.see(r).At) })
	}
	all.Wait()
	assert.Len(t, begun, 1)
	close(slow)
	require.Eventually(t, func() bool { return looks.see(r).At.Equal(now) }, 10*time.Second, time.Millisecond)

	// Who has ordered something waits to see it.
	slow = make(chan struct{})
	looks.soon(r)
	seen := make(chan *look, 1)
	go func() { seen <- looks.see(r) }()
	<-begun
	<-begun
	select {
	case <-seen:
		t.Fatal("a page shows what was before the order")
	case <-time.After(2 * patience):
	}
	close(slow)
	require.NotNil(t, <-seen)
}

// What the budget does not tell is told apart from what the index does.
func TestALookKeepsWhatItKnew(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	r := httptest.NewRequest(http.MethodGet, "/console/", nil)
	require.Nil(t, c.looks.see(r).Failed)
	w.down, w.unknown = "budget_unavailable", nil
	for range 3 {
		w.pass(listEvery)
		l := c.looks.see(r)
		assert.Equal(t, "budget_unavailable", l.Failed.Reason)
		assert.Equal(t, start, l.At)
		assert.Equal(t, 7, l.Queue.Depth)
		assert.Empty(t, l.Unknown.Tasks, "the index answers without the budget")
	}
}

// BenchmarkPage is one whole page with 1,000 tenants, 10,000 waiting tasks and
// full inboxes; the look is taken anew each time.
func BenchmarkPage(b *testing.B) {
	w := crowded(b)
	c := w.console(nil)
	for b.Loop() {
		w.pass(listEvery)
		w.calls, w.sent = nil, nil
		if status, page := visit(c, "mara", "/console/"); status != 200 || len(page) < 100_000 {
			b.Fatal(status, len(page))
		}
	}
}

func TestPageIsFast(t *testing.T) {
	w := crowded(t)
	c := w.console(nil)
	best := time.Hour
	for range 5 {
		w.pass(listEvery)
		begun := time.Now()
		status, _ := visit(c, "mara", "/console/")
		require.Equal(t, 200, status)
		best = min(best, time.Since(begun))
	}
	assert.Less(t, best, 300*time.Millisecond)
}

func crowded(t testing.TB) *world {
	w := newWorld(t)
	w.queue.Tenants, w.queue.Leases, w.unknown, w.approvals = nil, nil, nil, nil
	for i := range 1000 {
		w.queue.Tenants = append(w.queue.Tenants, admission.TenantView{TenantPolicy: admission.TenantPolicy{Name: fmt.Sprintf("tenant-%04d", i), MaxQueued: 200}, Queued: 10, InFlight: 1,
			OldestAge: admission.Duration(i) * admission.Duration(time.Second), WaitingOn: admission.Capacity, Resource: "psp_calls",
			ByPriority: []admission.PriorityDepth{{Priority: admission.Low, Queued: 4}, {Priority: admission.Normal, Queued: 6}}})
	}
	for i := range admission.MaxLeasesShown {
		w.queue.Leases = append(w.queue.Leases, admission.LeaseView{Task: fmt.Sprintf("task/tenant-%04d/k", i), Operation: "charge_card",
			Cost: []admission.Cost{{Resource: "psp_calls", Amount: 1}, {Resource: "model_tokens", Amount: int64(i)}}})
	}
	w.queue.Depth = 10_000
	for i := range maxInbox {
		w.unknown = append(w.unknown, w.doubt(fmt.Sprintf("inv-%d", i), 1))
		w.approvals = append(w.approvals, contract.TaskView{Tenant: "acme", Key: fmt.Sprint(i), Approval: &contract.ApprovalStand{Version: 1, Since: start, Expires: start}})
	}
	return w
}
