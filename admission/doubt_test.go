package admission

import (
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// checkDoubts counts what stands against the ceilings anew.
func checkDoubts(t *testing.T, s *State) {
	doubts, exposed := map[*use]int{}, map[*use]int{}
	for _, d := range s.doubts {
		must(t, s.doubtOf[d.task] == d, "a doubt is not in the index")
		doubts[d.use]++
	}
	must(t, len(s.doubts) == len(s.doubtOf), "the index of doubts holds more than the list")
	for _, it := range s.ordered() {
		counts := it.promised() && s.doubtOf[it.req.Task] == nil
		must(t, it.exposed == counts, "a lease is not counted as what it is")
		if counts {
			exposed[it.tenant.use(it.req.Operation)]++
		}
	}
	for _, tn := range s.tenants {
		for _, u := range tn.uses {
			must(t, u.doubts == doubts[u], "u.doubts is not what the list says")
			must(t, u.exposed == exposed[u], "u.exposed is not what the items say")
		}
	}
}

// However attempts end, and in whatever order doubts end, no tenant has more of
// an operation in doubt than its ceiling.
func TestDoubtsNeverPassTheCeiling(t *testing.T) {
	for seed := range int64(20) {
		w := newWorld(t, seed)
		for range 400 {
			w.step()
			for _, v := range w.s.View(w.now).Doubts {
				require.LessOrEqual(t, v.Tasks, v.Ceiling, "seed %d: %s of %s", seed, v.Operation, v.Tenant)
			}
		}
	}
}

// Without reports of doubts a ceiling that is never reached changes no choice,
// so that what an older build has recorded replays.
func TestReportsWithoutDoubtAreAsBefore(t *testing.T) {
	s, err := New(Policy{Resources: []Resource{{Name: "slots", Concurrent: 2}}}.Normalize(), "e", start)
	require.NoError(t, err)
	r := Request{Task: "k1", Attempt: 1, Tenant: "a", Operation: "o", Cost: []Cost{{"slots", 1}}}
	require.Equal(t, Run, s.Admit(start, r).Action)
	s.Report(start, Report{Task: "k1", Attempt: 1, Kind: Released, Class: Unknown})
	require.Empty(t, s.View(start).Doubts)
	require.Empty(t, s.Snapshot().Doubts)
}

// A replay of a task in doubt needs no room under the ceiling, before and after
// a restore.
func TestReplaysPassTheCeiling(t *testing.T) {
	for _, restore := range []bool{false, true} {
		rng := rand.New(rand.NewSource(1))
		p := Policy{Resources: []Resource{{Name: "slots", Concurrent: 2}}, UnknownCeiling: 1}.Normalize()
		s, err := New(p, "e", start)
		require.NoError(t, err)
		w := &world{t: t, rng: rng, now: start, s: s, known: map[attempt]Request{}, open: map[string]string{}}
		r := Request{Task: "k1", Attempt: 1, Tenant: "a", Operation: "o", Cost: []Cost{{"slots", 1}}}
		require.Equal(t, Run, s.Admit(start, r).Action)
		s.Report(start, Report{Task: "k1", Attempt: 1, Kind: Released, Class: Unknown, Doubt: true})
		other := r
		other.Task, other.Priority = "k2", Critical
		v := s.Admit(start, other)
		require.Equal(t, Defer, v.Action)
		require.Equal(t, UnknownCeiling, v.Reason)
		again := r
		again.Attempt = 2
		if restore {
			w.s = w.reload()
		}
		w.s.Ask(start, again, false)
		if restore {
			w.s = w.reload()
		}
		require.Len(t, grantedIn(w.s.Advance(start)), 1)
		require.Equal(t, StandLeased, w.s.Why("k1").Stand)
		require.Equal(t, UnknownCeiling, w.s.Why("k2").Reason)
		// The answer to the replay ends the doubt, and the other may go.
		w.s.Report(start.Add(time.Second), Report{Task: "k1", Attempt: 2, Kind: Released, Class: Succeeded})
		require.Equal(t, []string{"k2"}, grantedIn(w.s.Advance(start.Add(time.Second))))
	}
}
