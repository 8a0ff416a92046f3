package activities

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"headgate/activities/conformance/server"
	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

const (
	testHeartbeat = 12 * time.Second
	testTimeout   = 30 * time.Second
)

// trial is one attempt against a server and a provider.
type trial struct {
	server  *server.Server
	world   *world
	input   contract.EffectInput
	effects *Effects
	stop    chan struct{} // the worker's
	left    time.Duration // of the attempt

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	got    contract.Outcome
	err    error
}

func newTrial(t *testing.T, w *world) *trial {
	s := &server.Server{}
	tr := &trial{server: s, world: w, input: w.input, stop: make(chan struct{}), left: testTimeout + 2*testHeartbeat, done: make(chan struct{})}
	tr.effects = &Effects{Client: s, Types: map[string]Type{w.input.Operation.Type: w.kind}, Worker: "http@here:1", Build: "test", Log: zap.NewNop(), Now: s.Now}
	tr.ctx, tr.cancel = context.WithCancelCause(t.Context())
	return tr
}

// start runs the attempt; wait waits for its end.
func (tr *trial) start() {
	go func() {
		defer close(tr.done)
		tr.got, tr.err = tr.effects.attempt(tr.input, []byte(server.Token), testHeartbeat, time.Now().Add(tr.left)).run(tr.ctx, tr.stop)
	}()
}

func (tr *trial) wait() { <-tr.done }

func (tr *trial) run() {
	tr.start()
	tr.wait()
}

// undone requires an attempt that dispatched nothing.
func (tr *trial) undone(t *testing.T, class admission.Class, reason string) {
	t.Helper()
	require.NoError(t, tr.err)
	require.Equal(t, class, tr.got.Class)
	require.Equal(t, reason, tr.got.Reason)
	require.Zero(t, tr.world.effects(), "effects at the provider")
	require.Equal(t, "http@here:1", tr.got.Worker)
}

// world is a provider and the effect type that acts on it. It holds the answer
// back while hold is set.
type world struct {
	kind  Type
	input contract.EffectInput

	mu      sync.Mutex
	count   int
	closed  int
	arrived chan struct{} // one for each effect
	release chan struct{} // closed: answers leave
	seen    func()        // when an effect arrives, before it is counted
}

func newWorld(operation contract.Operation, payload string) *world {
	w := &world{arrived: make(chan struct{}, 10), release: make(chan struct{})}
	close(w.release)
	w.input = testInput(operation, payload)
	return w
}

func (w *world) effects() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// act is an effect that arrives. It returns when the answer may leave, or with
// an error when nobody waits for it.
func (w *world) act(ctx context.Context) error {
	if w.seen != nil {
		w.seen()
	}
	w.mu.Lock()
	w.count++
	w.mu.Unlock()
	w.arrived <- struct{}{}
	select {
	case <-w.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func testInput(operation contract.Operation, payload string) contract.EffectInput {
	return contract.EffectInput{
		Tenant: "acme", Key: "inv-42", Attempt: 2, Lease: "l-7",
		ProviderKey: contract.ProviderKey("acme", "inv-42"),
		Operation:   operation,
		Payload:     json.RawMessage(payload),
		Hash:        config.Hash(operation.Name, []byte(payload)),
	}
}

// own is an operator's own type, as plain as it can be.
type own struct {
	world    *world
	prepare  func(ctx context.Context) error
	perform  func(ctx context.Context, guard *Guard) contract.Outcome
	closeErr error
}

func (o *own) Prepare(ctx context.Context, _ contract.EffectInput) (Prepared, error) {
	if o.prepare != nil {
		if err := o.prepare(ctx); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *own) Effect(ctx context.Context, guard *Guard) contract.Outcome {
	if o.perform != nil {
		return o.perform(ctx, guard)
	}
	if err := guard.MaySend(); err != nil {
		return contract.Outcome{Class: admission.NotDispatched, Reason: err.Error()}
	}
	if err := o.world.act(ctx); err != nil {
		return contract.Outcome{Class: admission.Unknown, Reason: "no_answer"}
	}
	return contract.Outcome{Class: admission.Succeeded, Status: 200, Result: json.RawMessage(`{"id":"ch_1"}`), Reference: "ch_1"}
}

func (o *own) Close() error {
	o.world.mu.Lock()
	defer o.world.mu.Unlock()
	o.world.closed++
	return o.closeErr
}

func ownWorld(*testing.T) *world {
	w := newWorld(contract.Operation{Name: "work", Type: "own", Timeout: contract.Duration(testTimeout), Heartbeat: contract.Duration(testHeartbeat)}, `{"amount":1200}`)
	w.kind = &own{world: w}
	return w
}
