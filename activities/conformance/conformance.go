// Package conformance is the suite that every type of effects passes, built in or
// your own: the checkpoint before the effect, fences, late evidence, the payload's
// hash, one effect for one attempt.
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, func(t *testing.T, p *conformance.Provider) conformance.Subject {
//			...
//		})
//	}
//
// Each case runs in a bubble of testing/synctest: time goes on only while every
// goroutine waits, so that half a minute is over at once. A socket is nothing that
// the bubble can wait for: let the type reach its provider through Pipes, or by
// function calls.
package conformance

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"headgate/activities"
	"headgate/activities/conformance/server"
	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// The times of the operation that is tried.
const (
	Heartbeat = 12 * time.Second
	Timeout   = 30 * time.Second
)

const identity = "worker@here:1"

// Subject is a type under test, and an effect that it makes.
type Subject struct {
	Type activities.Type
	// Operation is what the type is declared with. Its name, timeout and heartbeat
	// are set by the suite if they are empty.
	Operation contract.Operation
	Payload   string // JSON
	Result    string // of the effect: JSON
	Reference string // of the effect
}

// Provider is the part of the provider that the suite plays. The provider that
// the type acts on calls Act for each effect, and answers when it returns nil.
type Provider struct {
	mu      sync.Mutex
	count   int
	arrived chan struct{} // one for each effect
	release chan struct{} // closed: answers leave
	seen    func()        // when an effect arrives, before it is counted
}

// Act is an effect that arrives. It returns nil when the answer may leave, or an
// error when ctx ends first and nobody waits for it.
func (p *Provider) Act(ctx context.Context) error {
	if p.seen != nil {
		p.seen()
	}
	p.mu.Lock()
	p.count++
	p.mu.Unlock()
	p.arrived <- struct{}{}
	select {
	case <-p.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Effects is how many arrived.
func (p *Provider) Effects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *Provider) hold() { p.release = make(chan struct{}) }

// Run tries the type in every case, each with a subject of its own.
func Run(t *testing.T, subject func(t *testing.T, p *Provider) Subject) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Provider{arrived: make(chan struct{}, 10), release: make(chan struct{})}
				close(p.release)
				c.run(t, newTrial(t, subject(t, p), p))
			})
		})
	}
}

// trial is one attempt against a server and a provider.
type trial struct {
	server   *server.Server
	provider *Provider
	subject  Subject
	input    contract.EffectInput
	effects  *activities.Effects
	stop     chan struct{} // the worker's
	left     time.Duration // of the attempt
	again    bool          // the effect is asked for twice

	ctx      context.Context
	cancel   context.CancelCauseFunc
	done     chan struct{}
	got      contract.Outcome
	repeated contract.Outcome
	err      error
}

func newTrial(t *testing.T, subject Subject, p *Provider) *trial {
	require.NotNil(t, subject.Type, "a subject has a type")
	op := subject.Operation
	if op.Name == "" {
		op.Name = "tried"
	}
	if op.Type == "" {
		op.Type = "tried"
	}
	op.Timeout, op.Heartbeat = contract.Duration(Timeout), contract.Duration(Heartbeat)
	payload, err := config.Canonical([]byte(subject.Payload))
	require.NoError(t, err)
	s := &server.Server{}
	tr := &trial{server: s, provider: p, subject: subject, stop: make(chan struct{}), left: Timeout + 2*Heartbeat, done: make(chan struct{})}
	tr.input = contract.EffectInput{
		Tenant: "acme", Key: "inv-42", Attempt: 2, Lease: "l-7",
		ProviderKey: contract.ProviderKey("acme", "inv-42"),
		Operation:   op,
		Payload:     json.RawMessage(payload),
		Hash:        config.Hash(op.Name, payload),
	}
	tr.effects = &activities.Effects{Client: s, Types: map[string]activities.Type{op.Type: &twice{subject.Type, tr}}, Worker: identity, Build: "test", Log: zap.NewNop(), Now: s.Now}
	tr.ctx, tr.cancel = context.WithCancelCause(t.Context())
	return tr
}

// start runs the attempt; wait waits for its end.
func (tr *trial) start() {
	go func() {
		defer close(tr.done)
		tr.got, tr.err = tr.effects.Run(tr.ctx, tr.input, activities.Attempt{Token: []byte(server.Token), Heartbeat: Heartbeat, Deadline: time.Now().Add(tr.left)}, tr.stop)
	}()
}

func (tr *trial) wait() { <-tr.done }

func (tr *trial) run() {
	tr.start()
	tr.wait()
}

// dispatch starts the attempt, and returns when its effect has arrived. The answer
// is held.
func (tr *trial) dispatch() {
	tr.provider.hold()
	tr.start()
	<-tr.provider.arrived
}

// toldNothingSent requires an attempt that has lost its claim and told so much: the
// mark may be stored, so that nothing was sent is worth telling.
func (tr *trial) toldNothingSent(t *testing.T) {
	t.Helper()
	require.Error(t, tr.err)
	require.Zero(t, tr.provider.Effects())
	late := tr.server.Evidence()
	require.Len(t, late, 1)
	require.Equal(t, admission.NotDispatched, late[0].Outcome.Class)
}

// undone requires an attempt that dispatched nothing.
func (tr *trial) undone(t *testing.T, class admission.Class, reason string) {
	t.Helper()
	require.NoError(t, tr.err)
	require.Equal(t, class, tr.got.Class)
	require.Equal(t, reason, tr.got.Reason)
	require.Zero(t, tr.provider.Effects(), "effects at the provider")
	require.Equal(t, identity, tr.got.Worker)
}

// twice is the type, whose effect is asked for again where a trial wants that.
type twice struct {
	activities.Type
	tr *trial
}

func (w *twice) Prepare(ctx context.Context, in contract.EffectInput) (activities.Prepared, error) {
	p, err := w.Type.Prepare(ctx, in)
	if p == nil || !w.tr.again {
		return p, err
	}
	return &twicePrepared{p, w.tr}, err
}

type twicePrepared struct {
	activities.Prepared
	tr *trial
}

func (w *twicePrepared) Effect(ctx context.Context, guard *activities.Guard) contract.Outcome {
	o := w.Prepared.Effect(ctx, guard)
	w.tr.repeated = w.Prepared.Effect(ctx, guard)
	return o
}

func (w *twicePrepared) Close() error {
	if c, ok := w.Prepared.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
