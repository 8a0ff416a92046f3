package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headgate/testsuite/provider"
)

// span is one effect as the provider saw it: from the arrival of the request to
// the moment before its answer left.
type span struct {
	tenant, key string
	start, end  time.Time
}

// spans are the effects of the orders, in the order in which they started. Each
// must have exactly one.
func (w *world) spans(ctx context.Context, s system, orders []order) ([]span, error) {
	entries, err := w.provider.Ledger(ctx, "*")
	if err != nil {
		return nil, err
	}
	seen := map[string]provider.Entry{}
	for _, e := range entries {
		if e.Event != provider.EventFinish || e.On != provider.OnCharge {
			continue
		}
		if _, twice := seen[e.Key]; twice {
			return nil, fmt.Errorf("the provider has had two requests with the key %s", e.Key)
		}
		seen[e.Key] = e
	}
	all := make([]span, 0, len(orders))
	for _, o := range orders {
		e, ok := seen[s.witness(o)]
		if !ok || e.Status/100 != 2 {
			return nil, fmt.Errorf("%s/%s has had no effect", o.tenant, o.key)
		}
		all = append(all, span{o.tenant, e.Key, e.Started, e.Time})
	}
	slices.SortFunc(all, func(a, b span) int { return a.start.Compare(b.start) })
	return all, nil
}

// gaps are the times, in milliseconds, between the effects of one slot. Two at one
// time are an error: the slot was used twice.
func gaps(spans []span) ([]float64, error) {
	var all []float64
	for i := 1; i < len(spans); i++ {
		gap := spans[i].start.Sub(spans[i-1].end)
		if gap < 0 {
			return nil, fmt.Errorf("two effects were under way at once in one slot: %s and %s", spans[i-1].key, spans[i].key)
		}
		all = append(all, milliseconds(gap))
	}
	return all, nil
}

// window is a time in which every tenant had work waiting.
type window struct{ from, to time.Time }

// saturated is the time from when every tenant has been served once to when the
// first of them is served for the last time.
func saturated(spans []span) window {
	first, last := map[string]time.Time{}, map[string]time.Time{}
	for _, s := range spans {
		if _, ok := first[s.tenant]; !ok {
			first[s.tenant] = s.start
		}
		last[s.tenant] = s.start
	}
	var w window
	for tenant := range first { // the result does not depend on the order
		if first[tenant].After(w.from) {
			w.from = first[tenant]
		}
		if w.to.IsZero() || last[tenant].Before(w.to) {
			w.to = last[tenant]
		}
	}
	return w
}

// effectTime is the time inside the window that each tenant's effects took.
func (w window) effectTime(spans []span) map[string]time.Duration {
	sum := map[string]time.Duration{}
	for _, s := range spans {
		from, to := s.start, s.end
		if from.Before(w.from) {
			from = w.from
		}
		if to.After(w.to) {
			to = w.to
		}
		if to.After(from) {
			sum[s.tenant] += to.Sub(from)
		}
	}
	return sum
}

func (w window) length() time.Duration { return w.to.Sub(w.from) }

// use is the share of the slots' time in the window in which effects were under way.
func (w window) use(spans []span, slots int) float64 {
	var sum time.Duration
	for _, t := range w.effectTime(spans) {
		sum += t
	}
	return float64(sum) / (float64(slots) * float64(w.length()))
}

// most is how many effects were under way at once.
func most(spans []span) int {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.start, 1}, edge{s.end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.step - b.step // what ends at an instant makes room for what starts
	})
	now, highest := 0, 0
	for _, e := range edges {
		now += e.step
		highest = max(highest, now)
	}
	return highest
}
