package activities

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
)

// standing tries an attempt in the time of a test.
func standing(t *testing.T, run func(t *testing.T, tr *trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, newTrial(t, ownWorld(t))) })
}

// The place of an attempt that stands by is handed to it, and not before.
func TestStandsBy(t *testing.T) {
	standing(t, func(t *testing.T, tr *trial) {
		tr.input.After = "ahead"
		tr.effects.once.Do(func() {
			tr.effects.reports, tr.effects.places = newReports(tr.server, tr.effects.Log), newPlaces(tr.server.Now)
		})
		tr.effects.places.hold("ahead")
		tr.start()
		require.Eventually(t, func() bool {
			tr.effects.places.mu.Lock()
			defer tr.effects.places.mu.Unlock()
			return tr.effects.places.at("ahead").next != nil
		}, 10*time.Second, time.Millisecond)
		require.Zero(t, tr.world.effects())
		require.Equal(t, admission.StepClaimed, tr.server.Last().Step, "no checkpoint, so nothing is sent")
		successor, _ := tr.effects.places.end("ahead", true)
		require.Equal(t, tr.input.Lease, successor)
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, 1, tr.world.effects())
	})
}

func TestDeadlineWhileItStandsBy(t *testing.T) {
	standing(t, func(t *testing.T, tr *trial) {
		deadline := time.Now().Add(50 * time.Millisecond)
		tr.input.After, tr.input.Deadline = "ahead", &deadline
		tr.effects.once.Do(func() {
			tr.effects.reports, tr.effects.places = newReports(tr.server, tr.effects.Log), newPlaces(tr.server.Now)
		})
		tr.effects.places.hold("ahead")
		tr.run()
		tr.undone(t, admission.NotDispatched, "deadline_passed")
		successor, _ := tr.effects.places.end("ahead", true)
		require.Empty(t, successor)
	})
}
