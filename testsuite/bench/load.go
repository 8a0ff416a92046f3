package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"headgate/testsuite/provider"
)

// fillers ask for tasks at the same time when a queue is filled.
const fillers = 32

// load is what callers saw who each ask for a task, wait for its end, and ask for
// the next.
type load struct {
	tasks   int
	seconds float64
	took    []float64          // ms, of each task
	cpu     map[string]float64 // ms a task, by process
	events  float64            // a task
}

func (l load) rate() float64 { return float64(l.tasks) / l.seconds }

func (l load) total() float64 {
	var sum float64
	for _, ms := range l.cpu {
		sum += ms
	}
	return sum
}

// samples of the tasks whose history is looked at.
const samples = 5

// closed runs tasks from so many callers.
func (b *bench) closed(ctx context.Context, w *world, s system, tenant string, lane lane, callers, tasks int) (load, error) {
	if err := w.clean(ctx); err != nil {
		return load{}, err
	}
	orders := make([]order, tasks)
	phase := b.phase()
	for i := range orders {
		orders[i] = order{tenant: tenant, key: fmt.Sprintf("%s-%d", phase, i), lane: lane}
	}
	l := load{tasks: tasks, took: make([]float64, tasks)}
	place, err := w.mark(ctx)
	if err != nil {
		return load{}, err
	}
	before, err := w.used()
	if err != nil {
		return load{}, err
	}
	began := time.Now()
	err = each(ctx, callers, tasks, func(ctx context.Context, i int) error {
		began := time.Now()
		err := run(ctx, s, orders[i])
		l.took[i] = milliseconds(time.Since(began))
		return err
	})
	l.seconds = time.Since(began).Seconds()
	if err != nil {
		return load{}, fmt.Errorf("%s: %w", s.name(), err)
	}
	if l.cpu, err = w.spent(before, tasks); err != nil {
		return load{}, err
	}
	if l.events, err = w.eventsEach(ctx, s, orders, place); err != nil {
		return load{}, err
	}
	return l, w.counted(ctx, tasks)
}

// spent is the processor time of each process since before, a task.
func (w *world) spent(before map[string]time.Duration, tasks int) (map[string]float64, error) {
	after, err := w.used()
	if err != nil {
		return nil, err
	}
	each := map[string]float64{}
	for name, t := range after {
		each[name] = milliseconds(t-before[name]) / float64(tasks)
	}
	return each, nil
}

// eventsEach is how many events a task has caused: its own, by a sample, and its
// share of the budget's since a mark.
func (w *world) eventsEach(ctx context.Context, s system, orders []order, since mark) (float64, error) {
	var own, n float64
	for i := 0; i < len(orders); i += max(1, len(orders)/samples) {
		events, err := s.events(ctx, orders[i])
		if err != nil {
			return 0, err
		}
		own += float64(events)
		n++
	}
	shared, err := w.since(ctx, since)
	return own/n + float64(shared)/float64(len(orders)), err
}

// each calls do for 0 to n-1, so many at a time, until one fails.
func each(ctx context.Context, atOnce, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(atOnce, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// fill asks for tasks, and gives what waits for all of them.
func fill(ctx context.Context, s system, orders []order) (wait func(ctx context.Context) error, err error) {
	waits := make([]func(context.Context) error, len(orders))
	err = each(ctx, fillers, len(orders), func(ctx context.Context, i int) (err error) {
		waits[i], err = s.start(ctx, orders[i])
		return err
	})
	return func(ctx context.Context) error {
		return each(ctx, fillers, len(waits), func(ctx context.Context, i int) error { return waits[i](ctx) })
	}, err
}

// scene is a queue that is filled while its slots are held, and then let go.
type scene struct {
	holds  []order // as many as there are slots, of a tenant of their own
	orders []order
	effect time.Duration // zero: at once
}

// play fills the queue, lets it go, and tells what the provider saw of the orders.
func (b *bench) play(ctx context.Context, w *world, s system, sc scene) ([]span, error) {
	spans, err := b.playOut(ctx, w, s, sc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name(), err)
	}
	return spans, nil
}

func (b *bench) playOut(ctx context.Context, w *world, s system, sc scene) ([]span, error) {
	// 1. Hold every slot.
	if err := w.clean(ctx); err != nil {
		return nil, err
	}
	if err := w.slow(ctx, sc.effect); err != nil {
		return nil, err
	}
	for _, o := range sc.holds {
		if _, err := w.provider.Inject(ctx, provider.Fault{Key: s.witness(o), Kind: provider.HangBefore}); err != nil {
			return nil, err
		}
	}
	held, err := fill(ctx, s, sc.holds)
	if err != nil {
		return nil, err
	}
	if err := w.provider.WaitFor(ctx, "*", provider.Counts{Requests: len(sc.holds)}); err != nil {
		return nil, err
	}
	// 2. Fill the queue, until nothing is left to do but to wait.
	wait, err := fill(ctx, s, sc.orders)
	if err != nil {
		return nil, err
	}
	if err := w.settle(ctx, s, sc.orders); err != nil {
		return nil, err
	}
	// 3. Let go.
	for _, o := range sc.holds {
		if _, err := w.provider.Release(ctx, s.witness(o)); err != nil {
			return nil, err
		}
	}
	all := len(sc.holds) + len(sc.orders)
	if err := w.provider.WaitFor(ctx, "*", provider.Counts{Finished: all}); err != nil {
		return nil, err
	}
	// 4. Everybody knows, and everything adds up.
	if err := held(ctx); err != nil {
		return nil, err
	}
	if err := wait(ctx); err != nil {
		return nil, err
	}
	if err := w.counted(ctx, all); err != nil {
		return nil, err
	}
	return w.spans(ctx, s, sc.orders)
}

// slow makes every effect take so long.
func (w *world) slow(ctx context.Context, effect time.Duration) error {
	if effect == 0 {
		return nil
	}
	_, err := w.provider.Inject(ctx, provider.Fault{Key: "*", Kind: provider.Slow, Times: -1, Delay: provider.Duration(effect)})
	return err
}

// settle waits until every task waits for capacity and for nothing else. The last
// is asked about first: when it has come so far, the others mostly have, and few
// questions are asked of a server that is busy.
func (w *world) settle(ctx context.Context, s system, orders []order) error {
	one := func(ctx context.Context, o order) error {
		return w.until(ctx, "the task waits for capacity", 500*time.Millisecond, func(ctx context.Context) error {
			yes, err := s.waiting(ctx, o)
			if err == nil && !yes {
				err = fmt.Errorf("%s/%s is on its way", o.tenant, o.key)
			}
			return err
		})
	}
	if err := one(ctx, orders[len(orders)-1]); err != nil {
		return err
	}
	return each(ctx, fillers, len(orders), func(ctx context.Context, i int) error { return one(ctx, orders[i]) })
}
