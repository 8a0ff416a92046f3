package activities

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"headgate/activities/conformance/server"
	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

func TestPrepare(t *testing.T) {
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	cases := []struct {
		name    string
		prepare func(tr *trial) func(ctx context.Context) error
		class   admission.Class
		reason  string
		detail  string
	}{
		{"error", func(*trial) func(context.Context) error {
			return func(context.Context) error { return errors.New("no display") }
		}, admission.NotDispatched, "prepare_failed", "no display"},
		{"refusal", func(*trial) func(context.Context) error {
			return func(context.Context) error {
				return &Refusal{Class: admission.Failed, Reason: "invalid_payload", Detail: "no prompt"}
			}
		}, admission.Failed, "invalid_payload", "no prompt"},
		{"panic", func(*trial) func(context.Context) error {
			return func(context.Context) error { panic("a payload") }
		}, admission.NotDispatched, "panic", ""},
		{"worker stops", func(tr *trial) func(context.Context) error {
			time.AfterFunc(time.Second, func() { close(tr.stop) })
			return waits
		}, admission.NotDispatched, "worker_stopping", ""},
		{"cancelled by a beat", func(tr *trial) func(context.Context) error {
			tr.server.Answer = server.After(admission.StepClaimed, server.CancelRequested())
			return waits
		}, admission.NotDispatched, "cancelled", ""},
		{"cancelled by the context", func(tr *trial) func(context.Context) error {
			time.AfterFunc(time.Second, func() { tr.cancel(server.CancelRequested()) })
			return waits
		}, admission.NotDispatched, "cancelled", ""},
		{"claim lost", func(tr *trial) func(context.Context) error {
			tr.server.Answer = server.After(admission.StepClaimed, server.ErrNotFound)
			return waits
		}, admission.NotDispatched, "fenced", ""},
		{"no stored beat for the whole timeout", func(tr *trial) func(context.Context) error {
			tr.server.Answer = server.After(admission.StepClaimed, errors.New("unavailable"))
			return waits
		}, admission.NotDispatched, "fenced", ""},
		{"takes all the time", func(*trial) func(context.Context) error { return waits },
			admission.NotDispatched, "not_enough_time", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrial(t, ownWorld(t))
				tr.world.kind.(*own).prepare = c.prepare(tr)
				tr.run()
				tr.undone(t, c.class, c.reason)
				require.Equal(t, c.detail, tr.got.Detail)
				require.NotContains(t, tr.server.Steps(), admission.StepDispatching)
			})
		})
	}
}

// A repeated claim that had no answer may be stored at any time, also over the
// checkpoint, which would then look as if nothing had left.
func TestClaimInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, ownWorld(t))
		lost := 0
		tr.server.Answer = func(context.Context, contract.Beat) error {
			if lost++; lost == 2 {
				return errors.New("unavailable")
			}
			return nil
		}
		tr.world.kind.(*own).prepare = func(ctx context.Context) error {
			pause(ctx, testHeartbeat)
			return nil
		}
		tr.run()
		tr.undone(t, admission.NotDispatched, "fenced")
		require.NotContains(t, tr.server.Steps(), admission.StepDispatching)
	})
}

func TestPrepareIsCoveredByBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, ownWorld(t))
		tr.world.kind.(*own).prepare = func(ctx context.Context) error {
			pause(ctx, testHeartbeat*3/2)
			return nil
		}
		tr.run()
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.GreaterOrEqual(t, len(tr.server.Stored), 1+4+2)
		require.Equal(t, testHeartbeat*3/2, tr.got.Dispatching.Sub(tr.got.Claimed))
		require.Equal(t, 1, tr.world.closed)
	})
}

// Whatever happens, what was prepared is closed once.
func TestClosed(t *testing.T) {
	for name, change := range map[string]func(tr *trial){
		"not dispatched": func(tr *trial) { tr.server.Answer = server.On(admission.StepDispatching, server.ErrNotFound) },
		"close fails":    func(tr *trial) { tr.world.kind.(*own).closeErr = errors.New("still busy") },
		"prepare failed": func(tr *trial) {
			tr.world.kind.(*own).prepare = func(context.Context) error { return errors.New("half") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrial(t, ownWorld(t))
				change(tr)
				tr.run()
				require.NoError(t, tr.err)
				require.Equal(t, 1, tr.world.closed)
			})
		})
	}
}

func TestPerform(t *testing.T) {
	cases := []struct {
		name    string
		perform func(ctx context.Context, guard *Guard) contract.Outcome
		reason  string
	}{
		{"panic", func(context.Context, *Guard) contract.Outcome { panic("a payload") }, "panic"},
		{"no outcome", func(context.Context, *Guard) contract.Outcome { return contract.Outcome{} }, "no_outcome"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zapcore.DebugLevel)
				tr := newTrial(t, ownWorld(t))
				tr.effects.Log = zap.New(core)
				tr.world.kind.(*own).perform = c.perform
				tr.run()
				require.NoError(t, tr.err)
				require.Equal(t, admission.Unknown, tr.got.Class)
				require.Equal(t, c.reason, tr.got.Reason)
				require.Equal(t, admission.StepResponded, tr.server.Last().Step)
				for _, l := range logs.All() {
					require.NotContains(t, l.Message, "payload")
					for _, f := range l.Context {
						require.NotContains(t, f.String, "a payload")
						require.NotContains(t, f.String, "1200")
					}
				}
			})
		})
	}
}

// A fenced attempt that has sent nothing yet is broken off at once.
func TestFencedBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, ownWorld(t))
		tr.server.Answer = server.After(admission.StepDispatching, server.ErrNotFound)
		tr.world.kind.(*own).perform = func(ctx context.Context, guard *Guard) contract.Outcome {
			<-ctx.Done()
			return contract.Outcome{Class: admission.NotDispatched, Reason: guard.MaySend().Error()}
		}
		start := time.Now()
		tr.run()
		require.Error(t, tr.err)
		require.Equal(t, testHeartbeat/3, time.Since(start))
		require.Equal(t, "fenced", tr.server.Evidence()[0].Outcome.Reason)
	})
}

func TestOperationThatCannotRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *contract.EffectInput, e *Effects)
		class  admission.Class
		reason string
	}{
		"type":    {func(_ *contract.EffectInput, e *Effects) { e.Types = nil }, admission.NotDispatched, "unknown_type"},
		"timeout": {func(in *contract.EffectInput, _ *Effects) { in.Operation.Timeout = 0 }, admission.Failed, "invalid_operation"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t, ownWorld(t))
			c.change(&tr.input, tr.effects)
			tr.run()
			tr.undone(t, c.class, c.reason)
		})
	}
}

// Temporal's JSON converter escapes <, > and & on the way; that changes neither
// the hash nor what the provider is sent.
func TestPayloadIsCanonicalAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, ownWorld(t))
		tr.input.Payload = []byte(`{"a":"\u003cb\u003e \u0026 c"}`)
		tr.input.Hash = config.Hash(tr.input.Operation.Name, []byte(`{"a":"<b> & c"}`))
		kind := &peek{Type: tr.world.kind}
		tr.effects.Types["own"] = kind
		tr.run()
		require.Equal(t, admission.Succeeded, tr.got.Class)
		require.Equal(t, `{"a":"<b> & c"}`, kind.payload)
	})
}

type peek struct {
	Type
	payload string
}

func (p *peek) Prepare(ctx context.Context, in contract.EffectInput) (Prepared, error) {
	p.payload = string(in.Payload)
	return p.Type.Prepare(ctx, in)
}

func TestLateEvidence(t *testing.T) {
	run := func(t *testing.T, signal func(contract.LateEvidence) error) (*trial, time.Duration) {
		tr := newTrial(t, ownWorld(t))
		tr.server.Answer = server.On(admission.StepResponded, server.ErrNotFound)
		tr.server.Signal = signal
		start := time.Now()
		tr.run()
		require.Error(t, tr.err)
		return tr, time.Since(start)
	}
	t.Run("sent again until taken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			tr, _ := run(t, func(contract.LateEvidence) error {
				if n++; n < 5 {
					return errors.New("unavailable")
				}
				return nil
			})
			require.Len(t, tr.server.Evidence(), 1)
		})
	})
	t.Run("given up after a while", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, took := run(t, func(contract.LateEvidence) error { return errors.New("unavailable") })
			require.InDelta(t, lateFor.Seconds(), took.Seconds(), latePauseAt.Seconds())
		})
	})
	t.Run("no open task", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, took := run(t, func(contract.LateEvidence) error { return server.ErrNotFound })
			require.Zero(t, took)
		})
	})
}

// Through the SDK's own activity context, with its token and its timeouts.
func TestEffectAsActivity(t *testing.T) {
	client := &mocks.Client{}
	var steps []admission.Step
	client.On("RecordActivityHeartbeat", mock.Anything, mock.Anything, mock.Anything).
		Run(func(args mock.Arguments) {
			require.NotEmpty(t, args.Get(1))
			steps = append(steps, args.Get(2).(contract.Beat).Step)
		}).Return(nil)
	w := ownWorld(t)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	RegisterEffects(env, &Effects{Client: client, Types: map[string]Type{"own": w.kind}, Log: zap.NewNop()})
	got, err := env.ExecuteActivity(contract.EffectActivity, w.input)
	require.NoError(t, err)
	var o contract.Outcome
	require.NoError(t, got.Get(&o))
	require.Equal(t, admission.Succeeded, o.Class, o.Reason)
	require.Equal(t, []admission.Step{admission.StepClaimed, admission.StepDispatching, admission.StepResponded}, steps)
}
