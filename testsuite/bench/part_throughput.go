package bench

import (
	"context"
	"strings"
)

const (
	throughputTenant = "load"
	queuedCallers    = 64
	queuedSlots      = 8
)

// duel is a pair of loads: Headgate's and the bare one's.
type duel [2]load

func pairsOf(duels []duel, value func(l load) float64) [][2]float64 {
	pairs := make([][2]float64, len(duels))
	for i, d := range duels {
		pairs[i] = [2]float64{value(d[0]), value(d[1])}
	}
	return pairs
}

// duels measures both sides in turn, after a round that does not count. then may
// measure more within each pair.
func (b *bench) duels(ctx context.Context, w *world, sides [2]system, lane lane, callers int, then func() error) ([]duel, error) {
	for _, s := range sides {
		if _, err := b.closed(ctx, w, s, throughputTenant, lane, callers, max(min(callers, b.tasks), b.tasks/4)); err != nil {
			return nil, err
		}
	}
	var all []duel
	for i := range b.Pairs {
		var d duel
		for side, s := range sides {
			var err error
			if d[side], err = b.closed(ctx, w, s, throughputTenant, lane, callers, b.tasks); err != nil {
				return nil, err
			}
		}
		all = append(all, d)
		b.say("pair %d/%d  headgate %s tasks/s, bare %s tasks/s, %d callers", i+1, b.Pairs, number(d[0].rate()), number(d[1].rate()), callers)
		if then != nil {
			if err := then(); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func uncontended(ctx context.Context, b *bench) error {
	if err := b.open(ctx, "main"); err != nil {
		return err
	}
	w := b.worlds["main"]
	stop, err := b.bareWorker(ctx, w, 0, "bare")
	if err != nil {
		return err
	}
	defer stop()
	sides := [2]system{headgate{w}, bare{world: w, queue: func(order) string { return "bare" }}}
	var alone []duel
	many, err := b.duels(ctx, w, sides, plenty, b.Callers, func() error {
		var d duel
		for side, s := range sides {
			var err error
			if d[side], err = b.closed(ctx, w, s, throughputTenant, plenty, 1, b.alone); err != nil {
				return err
			}
		}
		alone = append(alone, d)
		return nil
	})
	if err != nil {
		return err
	}
	r := &b.report
	rates := pairsOf(many, load.rate)
	r.add("uncontended_ratio", median(over(rates, ratio)), rates, nil)
	r.add("bare_tasks_per_s", median(over(rates, second)), rates, nil)
	p50 := pairsOf(alone, func(l load) float64 { return median(l.took) })
	r.add("uncontended_p50_ratio", median(over(p50, ratio)), p50, nil)
	events := pairsOf(many, func(l load) float64 { return l.events })
	r.add("extra_events", median(over(events, difference)), events, nil)
	b.addCPU("uncontended_cpu_ratio", many)
	return nil
}

func queued(ctx context.Context, b *bench) error {
	if err := b.open(ctx, "main"); err != nil {
		return err
	}
	w := b.worlds["main"]
	stop, err := b.bareWorker(ctx, w, queuedSlots, "bare-eight")
	if err != nil {
		return err
	}
	defer stop()
	sides := [2]system{headgate{w}, bare{world: w, queue: func(order) string { return "bare-eight" }}}
	all, err := b.duels(ctx, w, sides, eight, queuedCallers, nil)
	if err != nil {
		return err
	}
	rates := pairsOf(all, load.rate)
	b.report.add("queued_ratio", median(over(rates, ratio)), rates, nil)
	b.addCPU("queued_cpu_ratio", all)
	return nil
}

// addCPU adds the ratio of the processor times, with those of each process.
func (b *bench) addCPU(key string, duels []duel) {
	names := map[string]bool{}
	for _, d := range duels {
		for name := range d[0].cpu {
			names[name] = true
		}
	}
	detail := map[string]float64{}
	for name := range names {
		each := pairsOf(duels, func(l load) float64 { return l.cpu[name] })
		for side, of := range []func(float64, float64) float64{first, second} {
			if ms := median(over(each, of)); ms >= 0.05 { // less is not that side's process
				detail[strings.Join([]string{[]string{"headgate", "bare"}[side], name}, " ")] = ms
			}
		}
	}
	pairs := pairsOf(duels, load.total)
	b.report.add(key, median(over(pairs, ratio)), pairs, detail)
}
