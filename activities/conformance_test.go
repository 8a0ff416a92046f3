package activities

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"headgate/admission"
	"headgate/contract"
)

// Every type of effects passes every case, in a time that runs only when all
// goroutines wait.
func TestConformance(t *testing.T) {
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	types := []struct {
		name  string
		world func(t *testing.T) *world
	}{
		{"own", ownWorld},
		{"http", httpWorld},
		{"https", httpsWorld(cert)},
		{"browser", browserWorld},
	}
	for _, kind := range types {
		for _, c := range cases {
			t.Run(kind.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.run(t, newTrial(t, kind.world(t))) })
			})
		}
	}
}

var cases = []struct {
	name string
	run  func(t *testing.T, tr *trial)
}{
	{"an announced lease begins when the one ahead has ended", func(t *testing.T, tr *trial) {
		tr.input.After = "ahead"
		tr.effects.once.Do(func() {
			tr.effects.reports, tr.effects.places = newReports(tr.server, tr.effects.Log), &places{now: tr.server.now}
		})
		tr.effects.places.hold("ahead")
		tr.start()
		require.Eventually(t, func() bool {
			tr.effects.places.mu.Lock()
			defer tr.effects.places.mu.Unlock()
			return tr.effects.places.at("ahead").next != nil
		}, 10*time.Second, time.Millisecond)
		require.Zero(t, tr.world.effects())
		require.Equal(t, admission.StepClaimed, tr.server.last().Step, "no checkpoint, so nothing is sent")
		successor, _ := tr.effects.places.end("ahead", true)
		require.Equal(t, tr.input.Lease, successor)
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, 1, tr.world.effects())
	}},
	{"an announced lease that is not handed over", func(t *testing.T, tr *trial) {
		tr.input.After = "elsewhere"
		tr.run()
		tr.undone(t, admission.NotDispatched, contract.StandbyLate)
		require.False(t, tr.got.Released, "the budget decides about it")
	}},
	{"the deadline passes while it stands by", func(t *testing.T, tr *trial) {
		deadline := time.Now().Add(50 * time.Millisecond)
		tr.input.After, tr.input.Deadline = "ahead", &deadline
		tr.effects.once.Do(func() {
			tr.effects.reports, tr.effects.places = newReports(tr.server, tr.effects.Log), &places{now: tr.server.now}
		})
		tr.effects.places.hold("ahead")
		tr.run()
		tr.undone(t, admission.NotDispatched, "deadline_passed")
		successor, _ := tr.effects.places.end("ahead", true)
		require.Empty(t, successor)
	}},
	{"happy path", func(t *testing.T, tr *trial) {
		start := time.Now()
		tr.world.seen = func() {
			b := tr.server.last()
			require.Equal(t, admission.StepDispatching, b.Step, "the checkpoint is durable before the effect arrives")
			require.Equal(t, 2, b.Attempt)
			require.Equal(t, start.Add(testHeartbeat*3/4), b.SendBy)
		}
		tr.run()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, "ch_1", tr.got.Reference)
		require.JSONEq(t, `{"id":"ch_1"}`, string(tr.got.Result))
		require.Equal(t, 1, tr.world.effects())
		require.Equal(t, []admission.Step{admission.StepClaimed, admission.StepDispatching, admission.StepResponded}, tr.server.steps())
		require.Equal(t, "test", tr.got.Build)
		for _, b := range tr.server.stored { // complete, each of them
			require.Equal(t, tr.input.Hash, b.Hash)
			require.Equal(t, tr.input.ProviderKey, b.ProviderKey)
			require.Equal(t, "http@here:1", b.Worker)
			require.Equal(t, start, b.Claimed)
		}
		require.Equal(t, tr.got, *tr.server.last().Outcome, "the outcome is in the last beat")
	}},
	{"payload is not the accepted one", func(t *testing.T, tr *trial) {
		tr.input.Payload = []byte(`{"amount":1201}`)
		tr.run()
		tr.undone(t, admission.Failed, "payload_hash")
	}},
	{"deadline passed before the claim", func(t *testing.T, tr *trial) {
		past := time.Now().Add(-time.Second)
		tr.input.Deadline = &past
		tr.run()
		tr.undone(t, admission.NotDispatched, "deadline_passed")
	}},
	{"not enough time left", func(t *testing.T, tr *trial) {
		tr.left = testTimeout - time.Second
		tr.run()
		tr.undone(t, admission.NotDispatched, "not_enough_time")
		require.NotContains(t, tr.server.steps(), admission.StepDispatching)
	}},
	{"fenced before the claim", func(t *testing.T, tr *trial) {
		tr.server.answer = on(admission.StepClaimed, errNotFound)
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
	}},
	{"fenced at the checkpoint", func(t *testing.T, tr *trial) {
		tr.server.answer = on(admission.StepDispatching, errNotFound)
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
		require.Zero(t, tr.got.Dispatching)
	}},
	{"checkpoint without an answer", func(t *testing.T, tr *trial) {
		tr.server.answer = func(ctx context.Context, b contract.Beat) error {
			if b.Step == admission.StepDispatching {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		start := time.Now()
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
		require.LessOrEqual(t, time.Since(start), testHeartbeat/2)
	}},
	{"checkpoint without an answer, and the claim lost", func(t *testing.T, tr *trial) {
		tr.server.answer = func(ctx context.Context, b contract.Beat) error {
			switch b.Step {
			case admission.StepDispatching:
				<-ctx.Done()
				return ctx.Err()
			case admission.StepResponded:
				return errNotFound
			}
			return nil
		}
		tr.run()
		require.Error(t, tr.err)
		require.Zero(t, tr.world.effects())
		late := tr.server.evidence()
		require.Len(t, late, 1, "the mark may be stored; that nothing was sent is worth telling")
		require.Equal(t, admission.NotDispatched, late[0].Outcome.Class)
	}},
	{"cancelled before the checkpoint", func(t *testing.T, tr *trial) {
		tr.server.answer = on(admission.StepDispatching, cancelRequested())
		tr.run()
		tr.undone(t, admission.NotDispatched, "cancelled")
	}},
	{"paused before the checkpoint", func(t *testing.T, tr *trial) {
		tr.server.answer = on(admission.StepDispatching, activity.ErrActivityPaused)
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
	}},
	{"worker stops before the claim", func(t *testing.T, tr *trial) {
		close(tr.stop)
		tr.run()
		tr.undone(t, admission.NotDispatched, "worker_stopping")
		require.Empty(t, tr.server.sent)
	}},
	{"stopped between checkpoint and first byte", func(t *testing.T, tr *trial) {
		tr.server.answer = func(_ context.Context, b contract.Beat) error {
			if b.Step == admission.StepDispatching {
				tr.server.jump(testHeartbeat) // SIGSTOP, SIGCONT
			}
			return nil
		}
		tr.run()
		tr.undone(t, admission.NotDispatched, "send_by_passed")
		require.NotZero(t, tr.got.SendBy)
	}},
	{"the same, with the claim lost", func(t *testing.T, tr *trial) {
		tr.server.answer = func(_ context.Context, b contract.Beat) error {
			switch b.Step {
			case admission.StepDispatching:
				tr.server.jump(testHeartbeat)
			case admission.StepResponded:
				return errNotFound
			}
			return nil
		}
		tr.run()
		require.Error(t, tr.err)
		require.Zero(t, tr.world.effects())
		late := tr.server.evidence()
		require.Len(t, late, 1, "that nothing was sent is worth telling")
		require.Equal(t, admission.NotDispatched, late[0].Outcome.Class)
	}},
	{"slow effect under repeated beats", func(t *testing.T, tr *trial) {
		tr.world.hold()
		tr.start()
		<-tr.world.arrived
		time.AfterFunc(2*testHeartbeat, func() { close(tr.world.release) })
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.GreaterOrEqual(t, len(tr.server.stored), 2+5, "a beat every third of the timeout")
	}},
	{"cancelled after dispatch: the outcome decides", func(t *testing.T, tr *trial) {
		tr.server.answer = after(admission.StepDispatching, cancelRequested())
		tr.world.hold()
		tr.start()
		<-tr.world.arrived
		tr.cancel(cancelRequested()) // the SDK may tell it to the context, too
		time.AfterFunc(testTimeout-time.Second, func() { close(tr.world.release) })
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, admission.StepResponded, tr.server.last().Step)
	}},
	{"claim lost after dispatch, answer in time", func(t *testing.T, tr *trial) {
		tr.server.answer = after(admission.StepDispatching, errNotFound)
		tr.world.hold()
		tr.start()
		<-tr.world.arrived
		time.AfterFunc(testHeartbeat, func() { close(tr.world.release) })
		tr.wait()
		require.Error(t, tr.err)
		require.Zero(t, tr.got, "nothing is reported as success")
		late := tr.server.evidence()
		require.Len(t, late, 1)
		require.Equal(t, 2, late[0].Attempt)
		require.Equal(t, admission.Succeeded, late[0].Outcome.Class)
		require.Equal(t, "ch_1", late[0].Outcome.Reference)
		require.Equal(t, []string{"task/acme/inv-42"}, tr.server.to)
	}},
	{"claim lost after dispatch, no answer", func(t *testing.T, tr *trial) {
		tr.server.answer = after(admission.StepDispatching, errNotFound)
		tr.world.hold()
		start := time.Now()
		tr.run()
		require.Error(t, tr.err)
		require.Empty(t, tr.server.evidence())
		require.Less(t, time.Since(start), 2*testHeartbeat, "broken off before the lease is given on")
		require.Equal(t, 1, tr.world.effects())
	}},
	{"no stored beat for the whole timeout", func(t *testing.T, tr *trial) {
		tr.server.answer = after(admission.StepDispatching, errors.New("unavailable"))
		tr.world.hold()
		tr.start()
		<-tr.world.arrived
		start := time.Now()
		time.AfterFunc(3*testHeartbeat, tr.server.heal)
		tr.wait()
		require.Less(t, time.Since(start), 4*testHeartbeat)
		require.NoError(t, tr.err, "the server is back and still wants the outcome")
		require.Equal(t, admission.Unknown, tr.got.Class)
	}},
	{"answer while the server is away", func(t *testing.T, tr *trial) {
		tr.server.answer = on(admission.StepResponded, errors.New("unavailable"))
		time.AfterFunc(testHeartbeat, tr.server.heal)
		tr.run()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, admission.StepResponded, tr.server.last().Step)
	}},
	{"provider never answers", func(t *testing.T, tr *trial) {
		tr.world.hold()
		start := time.Now()
		tr.run()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Unknown, tr.got.Class)
		require.Equal(t, "no_answer", tr.got.Reason)
		require.Equal(t, testTimeout, time.Since(start))
		require.Equal(t, 1, tr.world.effects())
	}},
	{"worker stops after dispatch", func(t *testing.T, tr *trial) {
		tr.world.hold()
		tr.start()
		<-tr.world.arrived
		close(tr.stop)
		time.AfterFunc(testHeartbeat, func() { close(tr.world.release) })
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
	}},
	{"worker's patience ends after dispatch", func(t *testing.T, tr *trial) {
		tr.world.hold()
		tr.start()
		<-tr.world.arrived
		start := time.Now()
		tr.cancel(worker.ErrWorkerShutdown)
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Unknown, tr.got.Class)
		require.Less(t, time.Since(start), time.Second)
	}},
}
