package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"headgate/admission"
	"headgate/contract"
)

// refuseAll is a budget without room.
func refuseAll(v admission.Verdict) func(client.UpdateWorkflowOptions) (any, error) {
	return func(o client.UpdateWorkflowOptions) (any, error) {
		var reply contract.AdmitReply
		for range o.Args[0].(contract.AdmitRequest).Requests {
			reply.Verdicts = append(reply.Verdicts, v)
		}
		return nil, temporal.NewNonRetryableApplicationError("refused", contract.RefusedError, nil, reply)
	}
}

// hand is a clock that a test moves.
type hand struct{ at atomic.Int64 }

func (c *hand) now() time.Time       { return start.Add(time.Duration(c.at.Load())) }
func (c *hand) pass(d time.Duration) { c.at.Add(int64(d)) }

func (c *hand) gateway(f *fake) *Gateway {
	return New(Options{Client: f, Operations: operations{}, Now: c.now})
}

// critical is the body of another kind of request.
var critical = strings.Replace(body, `"high"`, `"critical"`, 1)

func TestFloodAsksTheBudgetOnce(t *testing.T) {
	var c hand
	f := &fake{update: refuseAll(rejectFor(admission.QueueFull))}
	g := c.gateway(f)
	var looked atomic.Int32
	f.describe = func(string) error { looked.Add(1); return nil }
	for i := range 100 {
		r := submitTo(t, g, "k-"+strconv.Itoa(i), body)
		require.Equal(t, 429, r.StatusCode)
		assert.NotEmpty(t, r.Header.Get("Retry-After"))
		p := decodeBody[contract.Problem](t, r)
		require.Equal(t, []string{"queue_full", "because so", "REJECTED"}, []string{p.Reason, p.Detail, p.DeliveryState})
	}
	assert.Len(t, f.updates, 1)
	assert.Equal(t, int32(100), looked.Load(), "each key was looked up")

	require.Equal(t, 429, submitTo(t, g, "c", critical).StatusCode)
	assert.Len(t, f.updates, 2, "critical work has a reserve of its own")
	assert.Equal(t, 400, submitTo(t, g, "u", strings.Replace(body, "charge_card", "nothing", 1)).StatusCode, "what is wrong stays wrong")

	c.pass(memoryTime)
	require.Equal(t, 429, submitTo(t, g, "later", body).StatusCode)
	assert.Len(t, f.updates, 3, "it is not remembered for ever")

	f.update = nil // there is room
	require.Equal(t, 202, submitTo(t, g, "c", critical).StatusCode)
	c.pass(refreshTime)
	require.Equal(t, 202, submitTo(t, g, "k-0", body).StatusCode, "one asks before the time is up")
	assert.Equal(t, 202, submitTo(t, g, "k-1", body).StatusCode, "and what it hears counts for all")
	assert.Len(t, f.started, 3)
}

// What is accepted is never refused, by whichever gateway, whatever it remembers.
func TestFloodSparesAcceptedKeys(t *testing.T) {
	var c hand
	f := &fake{}
	first, second := c.gateway(f), c.gateway(f)
	require.Equal(t, 202, submitTo(t, first, "inv-42", body).StatusCode)
	f.update = refuseAll(rejectFor(admission.QueueFull))
	for _, g := range []*Gateway{first, second} {
		require.Equal(t, 429, submitTo(t, g, "new", body).StatusCode)
	}
	asked := len(f.updates)
	for range 20 {
		for _, g := range []*Gateway{first, second} {
			r := submitTo(t, g, "inv-42", body)
			require.Equal(t, 202, r.StatusCode)
			require.Equal(t, "true", r.Header.Get("Idempotent-Replayed"))
			require.Equal(t, 422, submitTo(t, g, "inv-42", other).StatusCode)
			require.Equal(t, 429, submitTo(t, g, "new", body).StatusCode)
		}
	}
	assert.Len(t, f.updates, asked, "a repetition is nothing to the budget")

	// A key that one gateway has just refused is accepted by another.
	f.update = nil
	third := c.gateway(f)
	require.Equal(t, 202, submitTo(t, third, "new", body).StatusCode)
	for _, g := range []*Gateway{first, second, third} {
		assert.Equal(t, 202, submitTo(t, g, "new", body).StatusCode)
	}
	assert.Len(t, f.started, 2)
}

// A key whose task is being started is the budget's to judge, which knows it.
func TestFloodSparesKeysOnTheirWay(t *testing.T) {
	var c hand
	s := &slowStart{fake: &fake{}, begun: make(chan struct{}), out: make(chan struct{})}
	g := New(Options{Client: s, Operations: operations{}, Now: c.now})
	first := make(chan int)
	go func() { first <- submitTo(t, g, "inv-42", body).StatusCode }()
	<-s.begun

	g.memory.learn(start, kindOf(contract.TaskInput{Tenant: "acme", Agent: "billing-1", Operation: "charge_card"}), rejectFor(admission.QueueFull))
	assert.Equal(t, 429, submitTo(t, g, "inv-43", body).StatusCode)
	second := make(chan int)
	go func() { second <- submitTo(t, g, "inv-42", body).StatusCode }() // its client gave up waiting
	<-s.begun
	close(s.out)
	assert.Equal(t, []int{202, 202}, []int{<-first, <-second})
	assert.Empty(t, s.reports, "one ticket for both")
	assert.Empty(t, g.memory.carried)
}

// slowStart is a Temporal that takes its time to start tasks.
type slowStart struct {
	*fake
	begun, out chan struct{}
}

func (s *slowStart) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	s.begun <- struct{}{}
	<-s.out
	return s.fake.ExecuteWorkflow(ctx, o, workflow, args...)
}

// A budget that does not answer has refused nothing.
func TestFloodOfErrorsIsNotRemembered(t *testing.T) {
	var c hand
	f := &fake{update: func(client.UpdateWorkflowOptions) (any, error) { return nil, serviceerror.NewUnavailable("down") }}
	g := c.gateway(f)
	require.Equal(t, 503, submitTo(t, g, "a", body).StatusCode)
	f.update = nil
	assert.Equal(t, 202, submitTo(t, g, "a", body).StatusCode)
}

// slow is a Temporal whose look-ups are let out one by one.
type slow struct {
	*fake
	in  atomic.Int32
	out chan struct{}
}

func (s *slow) DescribeWorkflowExecution(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.in.Add(1)
	defer s.in.Add(-1)
	<-s.out
	return s.fake.DescribeWorkflowExecution(ctx, id, run)
}

func TestLookupsAreBounded(t *testing.T) {
	s := &slow{fake: &fake{update: refuseAll(rejectFor(admission.QueueFull))}, out: make(chan struct{})}
	g := New(Options{Client: s, Operations: operations{}, Now: func() time.Time { return start }})
	g.memory.learn(start, kindOf(contract.TaskInput{Tenant: "acme", Agent: "billing-1", Operation: "charge_card"}), rejectFor(admission.QueueFull))

	var clients sync.WaitGroup
	send := func(key, text string, status func(int)) {
		clients.Go(func() { status(submitTo(t, g, key, text).StatusCode) })
	}
	var refused atomic.Int32
	count := func(status int) {
		if status == 429 {
			refused.Add(1)
		}
	}
	waiting := func(n int64) {
		require.Eventually(t, func() bool { return s.in.Load() == maxLookups && g.lookups.waiting.Load() == n }, 10*time.Second, time.Millisecond)
	}
	for i := range maxLookups + maxUnseen/2 {
		send("k-"+strconv.Itoa(i), body, count)
	}
	waiting(maxUnseen / 2)

	r := submitTo(t, g, "one-more", body)
	require.Equal(t, 503, r.StatusCode, "a flood that is refused anyway leaves room")
	assert.NotEmpty(t, r.Header.Get("Retry-After"))
	p := decodeBody[contract.Problem](t, r)
	assert.Equal(t, "gateway_busy", p.Reason)
	assert.Equal(t, contract.NextRetryLater, p.NextAction)
	assert.Empty(t, p.DeliveryState, "it may have been accepted before")

	for i := range maxUnseen / 2 {
		send("c-"+strconv.Itoa(i), critical, count)
	}
	waiting(maxUnseen)
	assert.Equal(t, 503, submitTo(t, g, "too-many", critical).StatusCode)

	ctx, leave := context.WithCancel(t.Context())
	leave()
	assert.False(t, g.lookups.wait(ctx, maxUnseen+1), "a client that left does not wait")

	close(s.out)
	clients.Wait()
	assert.Equal(t, int32(maxLookups+maxUnseen), refused.Load(), "all that waited are looked up")
	assert.Zero(t, g.lookups.waiting.Load())
	assert.Empty(t, g.lookups.free)
}

// A flood is one line a second for each reason, with the number in it.
func TestFloodInTheLog(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	var c hand
	f := &fake{update: refuseAll(rejectFor(admission.QueueFull))}
	g := New(Options{Client: f, Operations: operations{}, Now: c.now, Log: zap.New(core)})
	lines := func() (n []int64, reasons []string) {
		for _, e := range logs.TakeAll() {
			if e.Message == "requests refused" {
				n, reasons = append(n, e.ContextMap()["requests"].(int64)), append(reasons, e.Level.String()+" "+e.ContextMap()["reason"].(string))
			}
		}
		return n, reasons
	}
	for i := range 50 {
		submitTo(t, g, strconv.Itoa(i), body)
	}
	f.update = func(client.UpdateWorkflowOptions) (any, error) { return nil, serviceerror.NewUnavailable("down") }
	for i := range 10 {
		submitTo(t, g, strconv.Itoa(i), critical)
	}
	submitTo(t, g, "x", "{")
	n, reasons := lines()
	assert.Equal(t, []int64{1, 1}, n)
	assert.Equal(t, []string{"info queue_full", "warn budget_unavailable"}, reasons, "a client's mistake is its own")

	c.pass(tallyEvery)
	submitTo(t, g, "again", critical)
	n, _ = lines()
	assert.Equal(t, []int64{10}, n, "nine before, and this one")

	for range 3 {
		g.fail(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/queue", nil), errors.New("each is another one"))
	}
	n, _ = lines()
	assert.Equal(t, []int64{1, 1, 1}, n)
}

// unread is an answer that nobody reads.
type unread struct {
	header http.Header
	status int
}

func (u *unread) Header() http.Header         { return u.header }
func (u *unread) WriteHeader(status int)      { u.status = status }
func (u *unread) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkRefusal is what a refusal in a flood costs the gateway itself: a new
// key each, while Temporal and the budget answer at once.
func BenchmarkRefusal(b *testing.B) {
	f := &fake{update: refuseAll(rejectFor(admission.QueueFull))}
	h := New(Options{Client: f, Operations: operations{}}).Handler()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := httptest.NewRequest("POST", "http://127.0.0.1:7280/v1/tasks", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k-"+strconv.Itoa(i))
		w := &unread{header: http.Header{}}
		if h.ServeHTTP(w, r); w.status != http.StatusTooManyRequests {
			b.Fatalf("status %d", w.status)
		}
	}
}
