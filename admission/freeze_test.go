package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever else happens, a frozen operation gets no lease, and each lease that it
// had is asked to stop until that is answered or the lease is back.
func TestAFrozenOperationGetsNoLease(t *testing.T) {
	for seed := range int64(20) {
		w := newWorld(t, seed)
		for range 150 {
			w.step()
		}
		w.s.Freeze(w.now, "op0", &Freeze{Actor: "ann"})
		before := map[attempt]bool{}
		for _, it := range w.s.ordered() {
			if it.promised() { // who stands by is asked to stop, and counts when it went in that moment
				before[it.key()] = true
			}
		}
		for range 150 {
			w.step()
			for _, it := range w.s.leases() {
				if it.req.Operation != "op0" {
					continue
				}
				require.True(t, before[it.key()], "seed %d: a lease of a frozen operation is new", seed)
				require.True(t, it.grace || it.stopped || it.stopping || it.stopIx > 0, "seed %d: a holder is not asked to stop", seed)
			}
		}
		require.Equal(t, "ann", w.s.Frozen("op0").Actor)
	}
}

// A request to stop that was under way when the state was written is made again.
func TestStopsAreAskedAgainAfterARestore(t *testing.T) {
	w := newWorld(t, 1)
	r := Request{Task: "k1", Attempt: 1, Tenant: "beta", Operation: "o", Cost: []Cost{{"slots", 1}}}
	v := w.s.Admit(start, r)
	require.Equal(t, Run, v.Action)
	w.s.Freeze(start, "o", &Freeze{Actor: "ann", Reason: "look"})
	want := []Stop{{Task: "k1", Attempt: 1, Lease: v.Lease.ID, Operation: "o", Reason: "look"}}
	require.Equal(t, want, w.s.Advance(start).Stops)
	w.s = w.reload()
	require.Equal(t, 1, w.s.Stopping("o"))
	require.Equal(t, want, w.s.Advance(start).Stops)
	w.s.Stopped(start, want[0], DeliveryDone)
	require.Zero(t, w.s.Stopping("o"))
	require.Empty(t, w.s.Advance(start).Stops)
}
