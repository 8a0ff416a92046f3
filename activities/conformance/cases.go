package conformance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"headgate/activities/conformance/server"
	"headgate/admission"
	"headgate/contract"
)

// cases are what every type passes.
var cases = []struct {
	name string
	run  func(t *testing.T, tr *trial)
}{
	{"an announced lease begins when the one ahead has ended", func(t *testing.T, tr *trial) {
		ahead := *tr
		ahead.input.Lease, ahead.input.Attempt, ahead.done = "ahead", 1, make(chan struct{})
		ahead.dispatch()
		tr.input.After = "ahead"
		tr.start()
		synctest.Wait()
		require.Equal(t, 1, tr.provider.Effects(), "it stands by")
		close(tr.provider.release)
		ahead.wait()
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, tr.input.Lease, ahead.got.Successor)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, 2, tr.provider.Effects())
	}},
	{"an announced lease that is not handed over", func(t *testing.T, tr *trial) {
		tr.input.After = "elsewhere"
		tr.run()
		tr.undone(t, admission.NotDispatched, contract.StandbyLate)
		require.False(t, tr.got.Released, "the budget decides about it")
	}},
	{"happy path", func(t *testing.T, tr *trial) {
		start := time.Now()
		tr.provider.seen = func() {
			b := tr.server.Last()
			require.Equal(t, admission.StepDispatching, b.Step, "the checkpoint is durable before the effect arrives")
			require.Equal(t, 2, b.Attempt)
			require.Equal(t, start.Add(Heartbeat*3/4), b.SendBy)
		}
		tr.run()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, tr.subject.Reference, tr.got.Reference)
		require.JSONEq(t, tr.subject.Result, string(tr.got.Result))
		require.Equal(t, 1, tr.provider.Effects())
		require.Equal(t, []admission.Step{admission.StepClaimed, admission.StepDispatching, admission.StepResponded}, tr.server.Steps())
		require.Equal(t, "test", tr.got.Build)
		for _, b := range tr.server.Stored { // complete, each of them
			require.Equal(t, tr.input.Hash, b.Hash)
			require.Equal(t, tr.input.ProviderKey, b.ProviderKey)
			require.Equal(t, identity, b.Worker)
			require.Equal(t, start, b.Claimed)
		}
		require.Equal(t, tr.got, *tr.server.Last().Outcome, "the outcome is in the last beat")
	}},
	{"payload is not the accepted one", func(t *testing.T, tr *trial) {
		tr.input.Payload = []byte(`{"another":"payload"}`)
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
		tr.left = Timeout - time.Second
		tr.run()
		tr.undone(t, admission.NotDispatched, "not_enough_time")
		require.NotContains(t, tr.server.Steps(), admission.StepDispatching)
	}},
	{"fenced before the claim", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.On(admission.StepClaimed, server.ErrNotFound)
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
	}},
	{"fenced at the checkpoint", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.On(admission.StepDispatching, server.ErrNotFound)
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
		require.Zero(t, tr.got.Dispatching)
	}},
	{"checkpoint without an answer", func(t *testing.T, tr *trial) {
		tr.server.Answer = func(ctx context.Context, b contract.Beat) error {
			if b.Step == admission.StepDispatching {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		start := time.Now()
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
		require.LessOrEqual(t, time.Since(start), Heartbeat/2)
	}},
	{"checkpoint without an answer, and the claim lost", func(t *testing.T, tr *trial) {
		tr.server.Answer = func(ctx context.Context, b contract.Beat) error {
			switch b.Step {
			case admission.StepDispatching:
				<-ctx.Done()
				return ctx.Err()
			case admission.StepResponded:
				return server.ErrNotFound
			}
			return nil
		}
		tr.run()
		tr.toldNothingSent(t)
	}},
	{"cancelled before the checkpoint", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.On(admission.StepDispatching, server.CancelRequested())
		tr.run()
		tr.undone(t, admission.NotDispatched, "cancelled")
	}},
	{"paused before the checkpoint", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.On(admission.StepDispatching, activity.ErrActivityPaused)
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
	}},
	{"worker stops before the claim", func(t *testing.T, tr *trial) {
		close(tr.stop)
		tr.run()
		tr.undone(t, admission.NotDispatched, "worker_stopping")
		require.Empty(t, tr.server.Sent)
	}},
	{"stopped between checkpoint and first byte", func(t *testing.T, tr *trial) {
		tr.server.Answer = func(_ context.Context, b contract.Beat) error {
			if b.Step == admission.StepDispatching {
				tr.server.Jump(Heartbeat) // SIGSTOP, SIGCONT
			}
			return nil
		}
		tr.run()
		tr.undone(t, admission.NotDispatched, "send_by_passed")
		require.NotZero(t, tr.got.SendBy)
	}},
	{"the same, with the claim lost", func(t *testing.T, tr *trial) {
		tr.server.Answer = func(_ context.Context, b contract.Beat) error {
			switch b.Step {
			case admission.StepDispatching:
				tr.server.Jump(Heartbeat)
			case admission.StepResponded:
				return server.ErrNotFound
			}
			return nil
		}
		tr.run()
		tr.toldNothingSent(t)
	}},
	{"slow effect under repeated beats", func(t *testing.T, tr *trial) {
		tr.dispatch()
		time.AfterFunc(2*Heartbeat, func() { close(tr.provider.release) })
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.GreaterOrEqual(t, len(tr.server.Stored), 2+5, "a beat every third of the timeout")
	}},
	{"cancelled after dispatch: the outcome decides", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.After(admission.StepDispatching, server.CancelRequested())
		tr.dispatch()
		tr.cancel(server.CancelRequested()) // the SDK may tell it to the context, too
		time.AfterFunc(Timeout-time.Second, func() { close(tr.provider.release) })
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, admission.StepResponded, tr.server.Last().Step)
	}},
	{"claim lost after dispatch, answer in time", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.After(admission.StepDispatching, server.ErrNotFound)
		tr.dispatch()
		time.AfterFunc(Heartbeat, func() { close(tr.provider.release) })
		tr.wait()
		require.Error(t, tr.err)
		require.Zero(t, tr.got, "nothing is reported as success")
		late := tr.server.Evidence()
		require.Len(t, late, 1)
		require.Equal(t, 2, late[0].Attempt)
		require.Equal(t, admission.Succeeded, late[0].Outcome.Class)
		require.Equal(t, tr.subject.Reference, late[0].Outcome.Reference)
		require.Equal(t, []string{"task/acme/inv-42"}, tr.server.To)
	}},
	{"claim lost after dispatch, no answer", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.After(admission.StepDispatching, server.ErrNotFound)
		tr.provider.hold()
		start := time.Now()
		tr.run()
		require.Error(t, tr.err)
		require.Empty(t, tr.server.Evidence())
		require.Less(t, time.Since(start), 2*Heartbeat, "broken off before the lease is given on")
		require.Equal(t, 1, tr.provider.Effects())
	}},
	{"no stored beat for the whole timeout", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.After(admission.StepDispatching, errors.New("unavailable"))
		tr.dispatch()
		start := time.Now()
		time.AfterFunc(3*Heartbeat, tr.server.Heal)
		tr.wait()
		require.Less(t, time.Since(start), 4*Heartbeat)
		require.NoError(t, tr.err, "the server is back and still wants the outcome")
		require.Equal(t, admission.Unknown, tr.got.Class)
	}},
	{"answer while the server is away", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.On(admission.StepResponded, errors.New("unavailable"))
		time.AfterFunc(Heartbeat, tr.server.Heal)
		tr.run()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, admission.StepResponded, tr.server.Last().Step)
	}},
	{"provider never answers", func(t *testing.T, tr *trial) {
		tr.provider.hold()
		start := time.Now()
		tr.run()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Unknown, tr.got.Class)
		require.Equal(t, "no_answer", tr.got.Reason)
		require.Equal(t, Timeout, time.Since(start))
		require.Equal(t, 1, tr.provider.Effects())
	}},
	{"worker stops after dispatch", func(t *testing.T, tr *trial) {
		tr.dispatch()
		close(tr.stop)
		time.AfterFunc(Heartbeat, func() { close(tr.provider.release) })
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
	}},
	{"worker's patience ends after dispatch", func(t *testing.T, tr *trial) {
		tr.dispatch()
		start := time.Now()
		tr.cancel(worker.ErrWorkerShutdown)
		tr.wait()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Unknown, tr.got.Class)
		require.Less(t, time.Since(start), time.Second)
	}},
	{"one attempt is one effect, whatever asks again", func(t *testing.T, tr *trial) {
		tr.again = true
		tr.run()
		require.NoError(t, tr.err)
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, 1, tr.provider.Effects())
		require.NotEqual(t, admission.Succeeded, tr.repeated.Class)
	}},
	{"prepared, and never dispatched", func(t *testing.T, tr *trial) {
		tr.server.Answer = server.On(admission.StepDispatching, server.ErrNotFound)
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
		require.NotEmpty(t, tr.server.Sent, "it came as far as the checkpoint")
	}},
}
