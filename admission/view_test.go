package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a view calls reserved is what its leases hold: of slots, all that are used.
func TestViewTellsWhatIsReserved(t *testing.T) {
	seen := int64(0)
	for seed := range int64(10) {
		w := newWorld(t, seed)
		for range 200 {
			w.step()
			for _, r := range w.s.View(w.now).Resources {
				if r.Concurrent > 0 {
					require.Equal(t, r.Used, r.Reserved, "seed %d: %s", seed, r.Name)
				} else {
					require.GreaterOrEqual(t, r.Reserved, int64(0))
					seen += r.Reserved
				}
			}
		}
	}
	require.Positive(t, seen, "something was reserved of a resource per interval")
}
