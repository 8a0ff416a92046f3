package activities

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

const (
	testHeartbeat = 12 * time.Second
	testTimeout   = 30 * time.Second
)

var errNotFound = serviceerror.NewNotFound("invalid activityID or activity already timed out")

// server is the Temporal server as far as effects see it. It stores a beat
// unless it answers NotFound or with an RPC error, as the real one does.
type server struct {
	// answer says what the server answers to a beat; nil: it stores all. It is
	// called without the lock and may block until ctx ends.
	answer func(ctx context.Context, b contract.Beat) error
	signal func(evidence contract.LateEvidence) error // the same for signals

	mu     sync.Mutex
	sent   []contract.Beat // all beats, stored or not
	stored []contract.Beat
	late   []contract.LateEvidence
	to     []string // workflow IDs of signals
	found  []any    // told to findings

	tasks    []*workflow.WorkflowExecutionInfo
	listings int
}

func (s *server) RecordActivityHeartbeat(ctx context.Context, token []byte, details ...any) error {
	b := details[0].(contract.Beat)
	if len(details) != 1 || string(token) != "token" {
		return errors.New("one detail, and the token")
	}
	s.mu.Lock()
	s.sent = append(s.sent, b)
	answer := s.answer
	s.mu.Unlock()
	var err error
	if answer != nil {
		err = answer(ctx, b)
	}
	if said, _ := beatAnswer(err); said == acknowledged || said == stopAsked {
		s.mu.Lock()
		s.stored = append(s.stored, b)
		s.mu.Unlock()
	}
	return err
}

// ListWorkflow gives the stored tasks, two on a page.
func (s *server) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listings++
	from := len(r.GetNextPageToken())
	to := min(from+2, len(s.tasks))
	out := &workflowservice.ListWorkflowExecutionsResponse{Executions: s.tasks[from:to]}
	if to < len(s.tasks) {
		out.NextPageToken = make([]byte, to)
	}
	return out, nil
}

func (s *server) SignalWithStartWorkflow(_ context.Context, workflowID, name string, arg any, _ client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, workflowID+" "+name)
	s.found = append(s.found, arg)
	return nil, nil
}

func (s *server) SignalWorkflow(_ context.Context, workflowID, runID, name string, arg any) error {
	if name != contract.EvidenceSignal || runID != "" {
		return errors.New("unexpected signal")
	}
	late := arg.(contract.LateEvidence)
	if s.signal != nil {
		if err := s.signal(late); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, workflowID)
	s.late = append(s.late, late)
	return nil
}

func (s *server) now() time.Time { return time.Now() }

// last is the last beat that the server holds.
func (s *server) last() contract.Beat {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stored) == 0 {
		return contract.Beat{}
	}
	return s.stored[len(s.stored)-1]
}

// steps are the steps of the stored beats, repetitions left out.
func (s *server) steps() []admission.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var steps []admission.Step
	for _, b := range s.stored {
		steps = append(steps, b.Step)
	}
	return slices.Compact(steps)
}

func (s *server) evidence() []contract.LateEvidence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.late)
}

// on answers err to the beats of one step.
func on(step admission.Step, err error) func(context.Context, contract.Beat) error {
	return func(_ context.Context, b contract.Beat) error {
		if b.Step == step {
			return err
		}
		return nil
	}
}

// after answers err to every beat from the second of a step on.
func after(step admission.Step, err error) func(context.Context, contract.Beat) error {
	seen := 0
	return func(_ context.Context, b contract.Beat) error {
		if b.Step == step {
			seen++
		}
		if seen > 1 || seen == 1 && b.Step != step {
			return err
		}
		return nil
	}
}

func cancelRequested() error { return temporal.NewCanceledError() }

// trial is one attempt against a server and a provider.
type trial struct {
	server  *server
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
	s := &server{}
	tr := &trial{server: s, world: w, input: w.input, stop: make(chan struct{}), left: testTimeout + 2*testHeartbeat, done: make(chan struct{})}
	tr.effects = &Effects{Client: s, Types: map[string]Type{w.input.Operation.Type: w.kind}, Worker: "http@here:1", Build: "test", Log: zap.NewNop(), Now: s.now}
	tr.ctx, tr.cancel = context.WithCancelCause(t.Context())
	return tr
}

// start runs the attempt; wait waits for its end.
func (tr *trial) start() {
	go func() {
		defer close(tr.done)
		tr.got, tr.err = tr.effects.attempt(tr.input, []byte("token"), testHeartbeat, time.Now().Add(tr.left)).run(tr.ctx, tr.stop)
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
