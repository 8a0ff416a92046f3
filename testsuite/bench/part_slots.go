package bench

import (
	"context"
	"fmt"
)

// handoff measures one slot: how long it is empty between two effects.
func handoff(ctx context.Context, b *bench) error {
	if err := b.open(ctx, "main"); err != nil {
		return err
	}
	w := b.worlds["main"]
	stop, err := b.bareWorker(ctx, w, 1, "bare-one")
	if err != nil {
		return err
	}
	defer stop()
	sides := [2]system{headgate{w}, bare{world: w, queue: func(order) string { return "bare-one" }}}
	var all [2][]float64
	var p50, p99 [][2]float64
	for i := range b.Pairs {
		var middle, slowest [2]float64
		for side, s := range sides {
			phase := b.phase()
			sc := scene{holds: holds("holder", phase, holdOne, 1), effect: b.effectTime / 4}
			sc.orders = batch("worker", phase, one, b.handoffs, 1)
			spans, err := b.play(ctx, w, s, sc)
			if err != nil {
				return err
			}
			empty, err := gaps(spans)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
			all[side] = append(all[side], empty...)
			middle[side], slowest[side] = median(empty), percentile(empty, 0.99)
		}
		p50, p99 = append(p50, middle), append(p99, slowest)
		b.say("pair %d/%d  headgate p50 %s ms, bare p50 %s ms", i+1, b.Pairs, number(middle[0]), number(middle[1]))
	}
	b.report.add("handoff_p50_ms", median(over(p50, first)), p50, nil)
	b.report.add("handoff_p99_ms", percentile(all[0], 0.99), p99, map[string]float64{"bare": percentile(all[1], 0.99)})
	b.report.add("handoff_ratio", median(over(p50, ratio)), p50, nil)
	return nil
}

// holds are tasks that take slots until they are let go.
func holds(tenant, phase string, lane lane, n int) []order {
	return batch(tenant, phase+"-hold", lane, n, 1)
}

// batch is n tasks of one tenant.
func batch(tenant, phase string, lane lane, n, weight int) []order {
	orders := make([]order, n)
	for i := range orders {
		orders[i] = order{tenant: tenant, key: fmt.Sprintf("%s-%d", phase, i), lane: lane, weight: weight}
	}
	return orders
}

// turns mixes batches, so that all of them are asked for at the same pace.
func turns(batches ...[]order) []order {
	var mixed []order
	longest := 0
	for _, each := range batches {
		longest = max(longest, len(each))
	}
	for i := range longest {
		for _, each := range batches {
			for j := i * len(each) / longest; j < (i+1)*len(each)/longest; j++ {
				mixed = append(mixed, each[j])
			}
		}
	}
	return mixed
}

const (
	sharedSlots = 8
	cap2        = 2 // slots of each capped tenant
)

// saturate plays a queue of several tenants through the eight slots, and gives the
// effects and the time in which all of them had work.
func (b *bench) saturate(ctx context.Context, w *world, s system, sc scene) ([]span, window, error) {
	sc.effect = b.effectTime
	spans, err := b.play(ctx, w, s, sc)
	if err != nil {
		return nil, window{}, err
	}
	if n := most(spans); n > sharedSlots {
		return nil, window{}, fmt.Errorf("%s: %d effects were under way at once in %d slots", s.name(), n, sharedSlots)
	}
	all := saturated(spans)
	if all.length() <= 0 {
		return nil, window{}, fmt.Errorf("%s: there was no time in which all tenants had work", s.name())
	}
	return spans, all, nil
}

// utilisation measures how much of eight slots four tenants with a cap of two can
// use. The bare side gives each tenant a queue and a worker with two slots.
func utilisation(ctx context.Context, b *bench) error {
	if err := b.open(ctx, "main"); err != nil {
		return err
	}
	w := b.worlds["main"]
	tenants := []string{"capped-1", "capped-2", "capped-3", "capped-4"}
	stop, err := b.bareWorker(ctx, w, cap2, tenants...)
	if err != nil {
		return err
	}
	defer stop()
	sides := [2]system{headgate{w}, bare{world: w, queue: func(o order) string { return o.tenant }}}
	var pairs [][2]float64
	for i := range b.Pairs {
		var used [2]float64
		for side, s := range sides {
			var sc scene
			var batches [][]order
			phase := b.phase()
			for _, tenant := range tenants {
				batches = append(batches, batch(tenant, phase, eight, b.perTenant, 1))
				if s.name() == "bare" { // the slots are the tenant's own
					sc.holds = append(sc.holds, holds(tenant, phase, holdEight, cap2)...)
				}
			}
			if len(sc.holds) == 0 {
				sc.holds = holds("holder", phase, holdEight, sharedSlots)
			}
			sc.orders = turns(batches...)
			spans, all, err := b.saturate(ctx, w, s, sc)
			if err != nil {
				return err
			}
			used[side] = all.use(spans, sharedSlots)
		}
		pairs = append(pairs, used)
		b.say("pair %d/%d  headgate %s, bare %s of the slots' time", i+1, b.Pairs, number(used[0]), number(used[1]))
	}
	b.report.add("utilisation", median(over(pairs, first)), pairs, nil)
	return nil
}

// shares measures how evenly, or by weight, tenants are served when all want more.
// The bare side has Temporal's own fairness keys.
func shares(ctx context.Context, b *bench) error {
	if err := b.open(ctx, "main"); err != nil {
		return err
	}
	w := b.worlds["main"]
	stop, err := b.bareWorker(ctx, w, sharedSlots, "bare-shared")
	if err != nil {
		return err
	}
	defer stop()
	sides := [2]system{headgate{w}, bare{world: w, queue: func(order) string { return "bare-shared" }, fair: true}}

	byWeight := []string{"weight-1", "weight-2", "weight-4"}
	equal := []string{"equal-1", "equal-2", "equal-3", "equal-4"}
	var off, index [][2]float64
	for i := range b.Pairs {
		var wrong, even [2]float64
		for side, s := range sides {
			served, err := b.served(ctx, w, s, byWeight, []int{1, 2, 4})
			if err != nil {
				return err
			}
			wrong[side] = shareError(served, []float64{1, 2, 4})
		}
		for side, s := range sides {
			served, err := b.served(ctx, w, s, equal, []int{1, 1, 1, 1})
			if err != nil {
				return err
			}
			even[side] = jainIndex(served)
		}
		off, index = append(off, wrong), append(index, even)
		b.say("pair %d/%d  error of weighted shares: headgate %s, bare %s; Jain's index: headgate %s, bare %s",
			i+1, b.Pairs, number(wrong[0]), number(wrong[1]), number(even[0]), number(even[1]))
	}
	b.report.add("share_error", median(over(off, first)), off, nil)
	b.report.add("jain", median(over(index, first)), index, nil)
	return nil
}

// served is the effect time of each tenant while all of them had work.
func (b *bench) served(ctx context.Context, w *world, s system, tenants []string, weights []int) ([]float64, error) {
	phase := b.phase()
	sc := scene{holds: holds("holder", phase, holdEight, sharedSlots)}
	var batches [][]order
	for i, tenant := range tenants {
		batches = append(batches, batch(tenant, phase, eight, weights[i]*b.perTenant, weights[i]))
	}
	sc.orders = turns(batches...)
	spans, all, err := b.saturate(ctx, w, s, sc)
	if err != nil {
		return nil, err
	}
	sum := all.effectTime(spans)
	served := make([]float64, len(tenants))
	for i, tenant := range tenants {
		served[i] = sum[tenant].Seconds()
	}
	return served, nil
}
