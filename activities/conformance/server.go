package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"headgate/activities"
	"headgate/admission"
	"headgate/contract"
)

// token is that of the attempt.
const token = "token"

var errNotFound = serviceerror.NewNotFound("invalid activityID or activity already timed out")

// server is the Temporal server as far as effects see it. It stores a beat
// unless it answers NotFound or with an RPC error, as the real one does.
type server struct {
	activities.Client // nil: an attempt calls no more than what is below

	// answer says what the server answers to a beat; nil: it stores all. It is
	// called without the lock and may block until ctx ends.
	answer func(ctx context.Context, b contract.Beat) error

	mu     sync.Mutex
	sent   []contract.Beat // all beats, stored or not
	stored []contract.Beat
	late   []contract.LateEvidence
	to     []string // workflow IDs of signals
	skew   time.Duration
}

func (s *server) RecordActivityHeartbeat(ctx context.Context, beat []byte, details ...any) error {
	b := details[0].(contract.Beat)
	if len(details) != 1 || string(beat) != token {
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
	var cancelled *temporal.CanceledError
	if err == nil || errors.As(err, &cancelled) || errors.Is(err, activity.ErrActivityPaused) {
		s.mu.Lock()
		s.stored = append(s.stored, b)
		s.mu.Unlock()
	}
	return err
}

func (s *server) SignalWorkflow(_ context.Context, workflowID, runID, name string, arg any) error {
	if name != contract.EvidenceSignal || runID != "" {
		return errors.New("unexpected signal")
	}
	late := arg.(contract.LateEvidence)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, workflowID)
	s.late = append(s.late, late)
	return nil
}

// heal makes the server store all beats from now on.
func (s *server) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = nil
}

// now is the worker's clock: it jumps when the process "was stopped".
func (s *server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.skew)
}

func (s *server) jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += d
}

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
