package workers

import (
	"math"

	"headgate/config"
)

// leases is the most effects of a type that the budget of a configuration leases
// at one time; zero: it sets no bound, since some operation of the type takes no
// concurrent resource, or there is none of the type.
//
// Each operation is bounded by one resource, that of which it can have the fewest;
// operations with the same one share it.
func leases(c *config.Config, typeName string) int {
	fewest := map[string]int64{} // leases of a resource, to the cheapest operation that it bounds
	for _, op := range c.Operations {
		if op.Declared.Type != typeName {
			continue
		}
		resource, most := "", int64(math.MaxInt64)
		for _, cost := range op.Costs {
			r, known := c.Budget.Resource(cost.Resource)
			if !known || r.Concurrent == 0 {
				continue
			}
			if n := r.Concurrent / max(cost.Amount, 1); n < most { // an expression may come out as one
				resource, most = r.Name, n
			}
		}
		if resource == "" {
			return 0
		}
		fewest[resource] = max(fewest[resource], most)
	}
	total := int64(0)
	for _, n := range fewest {
		total += n
	}
	return int(min(total, math.MaxInt32))
}

// slotsFor is how many attempts of a type a worker has at once: no more than it is
// told to, and no more than the budget leases and announces. A lease has at most
// one that is announced behind it, whose attempt stands by without any effect.
//
// Look-ups of the type take slots too, so one may wait for the end of an effect;
// that is bounded by the operation's timeout.
func slotsFor(o Options, typeName string) int {
	if most := leases(o.Config, typeName); most > 0 {
		return min(o.Slots, 2*most)
	}
	return o.Slots
}
