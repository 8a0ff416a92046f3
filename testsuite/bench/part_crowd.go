package bench

import (
	"context"
	"fmt"
	"time"

	"headgate/testsuite/provider"
)

// Two worlds of the same kind: in the crowded one a tenant has a long queue. Each
// is idle while the other is measured.
const (
	calmWorld    = "calm"
	crowdedWorld = "crowded"
	crowd        = "crowd"  // the tenant with the queue
	lone         = "victim" // the tenant beside it
	shortQueue   = 10
)

// victim measures the wait of a tenant with one task a second, alone and beside
// another one's flood.
func victim(ctx context.Context, b *bench) error {
	calm, crowded, err := b.crowds(ctx)
	if err != nil {
		return err
	}
	var all [2][]float64
	var p50, p99 [][2]float64
	for i := range b.Pairs {
		// 1. Alone, in the world without a flood.
		if err := calm.clean(ctx); err != nil {
			return err
		}
		if err := calm.slow(ctx, b.effectTime); err != nil {
			return err
		}
		alone, err := b.trickle(ctx, calm)
		if err != nil {
			return err
		}
		if err := calm.counted(ctx, b.victims); err != nil {
			return err
		}
		// 2. Beside the flood.
		beside, err := b.besideFlood(ctx, crowded)
		if err != nil {
			return err
		}
		all[0], all[1] = append(all[0], beside...), append(all[1], alone...)
		p50 = append(p50, [2]float64{median(beside), median(alone)})
		p99 = append(p99, [2]float64{percentile(beside, 0.99), percentile(alone, 0.99)})
		b.say("pair %d/%d  wait beside the flood p50 %s ms, p99 %s; alone p50 %s, p99 %s",
			i+1, b.Pairs, number(p50[i][0]), number(p99[i][0]), number(p50[i][1]), number(p99[i][1]))
	}
	slot := milliseconds(b.effectTime)
	detail := map[string]float64{"p99 ms beside the flood, all pairs": percentile(all[0], 0.99),
		"p99 ms alone, all pairs": percentile(all[1], 0.99), "one slot's time, ms": slot}
	b.report.add("victim_ratio", percentile(all[0], 0.99)/(percentile(all[1], 0.99)+slot), p99, detail)
	b.report.add("victim_p50_ms", median(over(p50, first)), p50, nil)
	return nil
}

// crowds opens the two worlds, with the crowd held back in both.
func (b *bench) crowds(ctx context.Context) (calm, crowded *world, err error) {
	if err := b.open(ctx, calmWorld, crowdedWorld); err != nil {
		return nil, nil, err
	}
	calm, crowded = b.worlds[calmWorld], b.worlds[crowdedWorld]
	for _, w := range []*world{calm, crowded} {
		if err := w.door.Pause(ctx, crowd, "bench"); err != nil {
			return nil, nil, err
		}
	}
	return calm, crowded, nil
}

// gather brings the crowd's queue to so many tasks. The crowd is held back.
func (b *bench) gather(ctx context.Context, w *world, n int) error {
	have, err := w.inQueue(ctx)
	if err != nil || have >= n {
		return err
	}
	b.say("%d tasks join the queue of a paused tenant, which takes its time", n-have)
	phase, began := b.phase(), time.Now()
	const step = 1000 // tasks between two lines of progress
	for done := have; done < n; {
		some := min(step, n-done)
		orders := batch(crowd, fmt.Sprintf("%s-%d", phase, done), eight, some, 1)
		if _, err := fill(ctx, headgate{w}, orders); err != nil {
			return err
		}
		// Their workflows begin in the order of their coming, so the last tell of all.
		if err := w.settle(ctx, headgate{w}, orders[max(0, some-fillers):]); err != nil {
			return err
		}
		if done += some; done < n {
			b.say("%d of %d wait, after %s", done, n, time.Since(began).Round(time.Second))
		}
	}
	if have, err = w.inQueue(ctx); err == nil && have != n {
		err = fmt.Errorf("the budget says that %d tasks wait, of %d that were accepted", have, n)
	}
	return err
}

// inQueue is how many tasks of the crowd wait.
func (w *world) inQueue(ctx context.Context) (int, error) {
	view, err := w.door.Queue(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range view.Tenants {
		if t.Name == crowd {
			return t.Queued, nil
		}
	}
	return 0, nil
}

// besideFlood measures the victim's waits while the crowd is served, and holds the
// crowd back again.
func (b *bench) besideFlood(ctx context.Context, w *world) ([]float64, error) {
	if err := b.gather(ctx, w, b.Flood); err != nil {
		return nil, err
	}
	if err := w.clean(ctx); err != nil {
		return nil, err
	}
	before, err := w.inQueue(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.slow(ctx, b.effectTime); err != nil {
		return nil, err
	}
	if err := w.door.Resume(ctx, crowd); err != nil {
		return nil, err
	}
	// Two rounds, so that the slots are in step with nothing any more.
	if err := w.provider.WaitFor(ctx, "*", provider.Counts{Requests: 2 * sharedSlots}); err != nil {
		return nil, err
	}
	waits, err := b.trickle(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := w.door.Pause(ctx, crowd, "bench"); err != nil {
		return nil, err
	}
	if err := w.until(ctx, "the crowd's effects have ended", often, func(ctx context.Context) error {
		view, err := w.door.Queue(ctx)
		if err == nil && view.InFlight > 0 {
			err = fmt.Errorf("%d are in flight", view.InFlight)
		}
		return err
	}); err != nil {
		return nil, err
	}
	left, err := w.inQueue(ctx)
	if err != nil {
		return nil, err
	}
	if left == 0 {
		return nil, fmt.Errorf("the flood of %d tasks was over before the victim's %d: choose a larger one", before, b.victims)
	}
	return waits, w.counted(ctx, before-left+b.victims)
}

// trickle asks for the victim's tasks, one a second whatever becomes of them, and
// gives the time from each request to its arrival at the provider, in milliseconds.
func (b *bench) trickle(ctx context.Context, w *world) ([]float64, error) {
	s := headgate{w}
	orders := batch(lone, b.phase(), eight, b.victims, 1)
	asked := make([]time.Time, len(orders))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, len(orders))
	for i, o := range orders {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		asked[i] = time.Now()
		go func() { ended <- run(ctx, s, o) }()
	}
	for range orders {
		if err := <-ended; err != nil {
			return nil, fmt.Errorf("the victim: %w", err)
		}
	}
	spans, err := w.spans(ctx, s, orders)
	if err != nil {
		return nil, err
	}
	began := map[string]time.Time{}
	for _, s := range spans {
		began[s.key] = s.start
	}
	waits := make([]float64, len(orders))
	for i, o := range orders {
		waits[i] = milliseconds(began[s.witness(o)].Sub(asked[i]))
	}
	return waits, nil
}

// growth measures what a task costs beside a long queue that may not move.
func growth(ctx context.Context, b *bench) error {
	calm, crowded, err := b.crowds(ctx)
	if err != nil {
		return err
	}
	if err := b.gather(ctx, calm, shortQueue); err != nil {
		return err
	}
	if err := b.gather(ctx, crowded, b.Queued); err != nil {
		return err
	}
	worlds := [2]*world{crowded, calm}
	one := func(w *world) (load, error) {
		return b.closed(ctx, w, headgate{w}, lone, plenty, b.Callers/2+1, b.growth)
	}
	for _, w := range worlds { // a round that does not count
		if _, err := one(w); err != nil {
			return err
		}
	}
	var pairs [][2]float64
	for i := range b.Pairs {
		var each [2]float64
		for side, w := range worlds {
			l, err := one(w)
			if err != nil {
				return err
			}
			each[side] = 1000 / l.rate()
		}
		pairs = append(pairs, each)
		b.say("pair %d/%d  %s ms a task beside %d queued, %s ms beside %d", i+1, b.Pairs, number(each[0]), b.Queued, number(each[1]), shortQueue)
	}
	b.report.add("growth_ratio", median(over(pairs, ratio)), pairs, map[string]float64{"queued": float64(b.Queued)})
	left, err := crowded.inQueue(ctx)
	if err == nil && left < b.Queued {
		err = fmt.Errorf("%d of the %d queued tasks are left at the end", left, b.Queued)
	}
	return err
}
