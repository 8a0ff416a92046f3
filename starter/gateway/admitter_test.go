package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
)

// door is a budget whose answers are let out one by one.
type door struct {
	in  chan []admission.Request // what was sent
	out chan error               // lets one batch out
	ids sync.Map
	now atomic.Int32 // in flight
}

func newDoor() *door {
	return &door{in: make(chan []admission.Request), out: make(chan error)}
}

func (d *door) send(_ context.Context, id string, requests []admission.Request) ([]admission.Verdict, error) {
	if d.now.Add(1) != 1 {
		panic("two updates in flight")
	}
	defer d.now.Add(-1)
	if _, again := d.ids.LoadOrStore(id, true); again {
		panic("an update ID was used twice")
	}
	d.in <- requests
	if err := <-d.out; err != nil {
		return nil, err
	}
	verdicts := make([]admission.Verdict, len(requests))
	for i, r := range requests {
		verdicts[i] = admission.Verdict{Action: admission.Queue, Detail: r.Task}
	}
	return verdicts, nil
}

// ask sends a request and gives a channel of its answer.
func ask(ctx context.Context, a *admitter, task string) chan admitted {
	answer := make(chan admitted, 1)
	go func() {
		v, err := a.admit(ctx, admission.Request{Task: task})
		answer <- admitted{v, err}
	}()
	return answer
}

// waits until n requests are collected.
func (a *admitter) collected(t *testing.T, n int) {
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.waiting) == n
	}, 5*time.Second, time.Millisecond)
}

func TestAdmitterSendsAtOnceThenCollects(t *testing.T) {
	d := newDoor()
	a := &admitter{send: d.send}
	first := ask(t.Context(), a, "0")
	require.Len(t, <-d.in, 1, "idle: at once, alone")

	var rest []chan admitted
	for i := 1; i <= maxBatch+10; i++ {
		rest = append(rest, ask(t.Context(), a, strconv.Itoa(i)))
	}
	a.collected(t, maxBatch+10)
	d.out <- nil
	got := <-first
	require.NoError(t, got.err)
	require.Equal(t, "0", got.verdict.Detail)

	assert.Len(t, <-d.in, maxBatch, "all that came meanwhile, up to the limit")
	d.out <- nil
	assert.Len(t, <-d.in, 10)
	d.out <- nil
	for i, answer := range rest {
		got := <-answer
		require.NoError(t, got.err)
		assert.Equal(t, strconv.Itoa(i+1), got.verdict.Detail, "each its own verdict")
	}

	again := ask(t.Context(), a, "again")
	assert.Len(t, <-d.in, 1, "idle again")
	d.out <- nil
	require.NoError(t, (<-again).err)
}

func TestAdmitterDropsAClientThatLeft(t *testing.T) {
	d := newDoor()
	a := &admitter{send: d.send}
	ctx, leave := context.WithCancel(t.Context())
	inFlight := ask(ctx, a, "in-flight")
	<-d.in
	gone := ask(ctx, a, "gone")
	a.collected(t, 1)
	stays := ask(t.Context(), a, "stays")
	a.collected(t, 2)

	leave()
	got := <-gone
	require.ErrorIs(t, got.err, context.Canceled)
	a.collected(t, 1)

	d.out <- nil
	got = <-inFlight
	require.NoError(t, got.err, "its ticket must not be lost")
	assert.Equal(t, "in-flight", got.verdict.Detail)
	requests := <-d.in
	require.Len(t, requests, 1)
	assert.Equal(t, "stays", requests[0].Task)
	d.out <- nil
	require.NoError(t, (<-stays).err)
}

func TestAdmitterEverybodyLeaves(t *testing.T) {
	d := newDoor()
	a := &admitter{send: d.send}
	first := ask(t.Context(), a, "first")
	<-d.in
	ctx, leave := context.WithCancel(t.Context())
	gone := ask(ctx, a, "gone")
	a.collected(t, 1)
	leave()
	<-gone
	d.out <- nil
	<-first
	next := ask(t.Context(), a, "next")
	assert.Len(t, <-d.in, 1)
	d.out <- nil
	require.NoError(t, (<-next).err)
}

func TestAdmitterErrorIsForTheWholeBatch(t *testing.T) {
	d := newDoor()
	a := &admitter{send: d.send}
	first := ask(t.Context(), a, "0")
	<-d.in
	rest := []chan admitted{ask(t.Context(), a, "1"), ask(t.Context(), a, "2")}
	a.collected(t, 2)
	d.out <- nil
	require.NoError(t, (<-first).err)
	<-d.in
	broken := errors.New("broken")
	d.out <- broken
	for _, answer := range rest {
		assert.ErrorIs(t, (<-answer).err, broken)
	}
}

func TestAdmitterRefusesWhenTooManyWait(t *testing.T) {
	d := newDoor()
	a := &admitter{send: d.send}
	first := ask(t.Context(), a, "first")
	<-d.in
	a.mu.Lock()
	a.waiting = make([]*admitting, maxWaiting)
	a.mu.Unlock()
	_, err := a.admit(t.Context(), admission.Request{})
	assert.ErrorIs(t, err, errGatewayBusy)
	a.mu.Lock()
	a.waiting = nil
	a.mu.Unlock()
	d.out <- nil
	require.NoError(t, (<-first).err)
}

func TestAdmitterCountsVerdicts(t *testing.T) {
	a := &admitter{send: func(context.Context, string, []admission.Request) ([]admission.Verdict, error) {
		return make([]admission.Verdict, 2), nil
	}}
	_, err := a.admit(t.Context(), admission.Request{})
	assert.ErrorContains(t, err, "2 verdicts for 1 requests")
}

// Many clients come and leave; nothing is lost, doubled or sent twice at once.
func TestAdmitterUnderLoad(t *testing.T) {
	var inFlight, batches atomic.Int32
	a := &admitter{send: func(_ context.Context, _ string, requests []admission.Request) ([]admission.Verdict, error) {
		if inFlight.Add(1) != 1 {
			return nil, errors.New("two in flight")
		}
		defer inFlight.Add(-1)
		batches.Add(1)
		verdicts := make([]admission.Verdict, len(requests))
		for i, r := range requests {
			verdicts[i].Detail = r.Task
		}
		return verdicts, nil
	}}
	var clients sync.WaitGroup
	errs := make(chan error, 2000)
	for i := range 2000 {
		clients.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				cancel()
			}
			defer cancel()
			task := strconv.Itoa(i)
			v, err := a.admit(ctx, admission.Request{Task: task})
			switch {
			case err != nil && (!errors.Is(err, context.Canceled) || i%3 != 0):
				errs <- err
			case err == nil && v.Detail != task:
				errs <- fmt.Errorf("client %s got the verdict of %s", task, v.Detail)
			}
		})
	}
	clients.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	assert.Empty(t, a.waiting)
	assert.Positive(t, batches.Load())
}
