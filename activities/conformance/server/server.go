// Package server is a Temporal server in memory, as far as attempts see one. The
// tests of the checkpoint protocol share it; it knows nothing of package activities.
package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

// Token is that of the attempt.
const Token = "token"

// ErrNotFound is what it answers about what is over.
var ErrNotFound = serviceerror.NewNotFound("invalid activityID or activity already timed out")

// Server is the Temporal server as far as effects see it. It stores a beat
// unless it answers NotFound or with an RPC error, as the real one does.
type Server struct {
	// Answer says what the server answers to a beat; nil: it stores all. It is
	// called without the lock and may block until ctx ends.
	Answer func(ctx context.Context, b contract.Beat) error
	Signal func(evidence contract.LateEvidence) error // the same for signals

	Tasks    []*workflow.WorkflowExecutionInfo // what it lists
	Listings int                               // pages asked for

	mu     sync.Mutex
	Sent   []contract.Beat // all beats, stored or not
	Stored []contract.Beat
	To     []string // workflow IDs of signals
	Found  []any    // told to findings
	late   []contract.LateEvidence
	skew   time.Duration
}

// RecordActivityHeartbeat takes one beat.
func (s *Server) RecordActivityHeartbeat(ctx context.Context, token []byte, details ...any) error {
	b := details[0].(contract.Beat)
	if len(details) != 1 || string(token) != Token {
		return errors.New("one detail, and the token")
	}
	s.mu.Lock()
	s.Sent = append(s.Sent, b)
	answer := s.Answer
	s.mu.Unlock()
	var err error
	if answer != nil {
		err = answer(ctx, b)
	}
	var cancelled *temporal.CanceledError
	if err == nil || errors.As(err, &cancelled) || errors.Is(err, activity.ErrActivityPaused) || errors.Is(err, activity.ErrActivityReset) {
		s.mu.Lock()
		s.Stored = append(s.Stored, b)
		s.mu.Unlock()
	}
	return err
}

// ListWorkflow gives the stored tasks, two on a page.
func (s *Server) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Listings++
	from := len(r.GetNextPageToken())
	to := min(from+2, len(s.Tasks))
	out := &workflowservice.ListWorkflowExecutionsResponse{Executions: s.Tasks[from:to]}
	if to < len(s.Tasks) {
		out.NextPageToken = make([]byte, to)
	}
	return out, nil
}

// SignalWithStartWorkflow takes a message to findings.
func (s *Server) SignalWithStartWorkflow(_ context.Context, workflowID, name string, arg any, _ client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.To = append(s.To, workflowID+" "+name)
	s.Found = append(s.Found, arg)
	return nil, nil
}

// SignalWorkflow takes evidence for a task.
func (s *Server) SignalWorkflow(_ context.Context, workflowID, runID, name string, arg any) error {
	if name != contract.EvidenceSignal || runID != "" {
		return errors.New("unexpected signal")
	}
	late := arg.(contract.LateEvidence)
	if s.Signal != nil {
		if err := s.Signal(late); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.To = append(s.To, workflowID)
	s.late = append(s.late, late)
	return nil
}

// Heal makes the server store all beats from now on.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Answer = nil
}

// Now is the worker's clock: it jumps when the process "was stopped".
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.skew)
}

// Jump lets the worker's clock jump.
func (s *Server) Jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += d
}

// Last is the last beat that the server holds.
func (s *Server) Last() contract.Beat {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Stored) == 0 {
		return contract.Beat{}
	}
	return s.Stored[len(s.Stored)-1]
}

// Steps are the steps of the stored beats, repetitions left out.
func (s *Server) Steps() []admission.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var steps []admission.Step
	for _, b := range s.Stored {
		steps = append(steps, b.Step)
	}
	return slices.Compact(steps)
}

// Evidence is what came late.
func (s *Server) Evidence() []contract.LateEvidence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.late)
}

// On answers err to the beats of one step.
func On(step admission.Step, err error) func(context.Context, contract.Beat) error {
	return func(_ context.Context, b contract.Beat) error {
		if b.Step == step {
			return err
		}
		return nil
	}
}

// After answers err to every beat from the second of a step on.
func After(step admission.Step, err error) func(context.Context, contract.Beat) error {
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

// CancelRequested is the answer to a beat of an attempt that is asked to stop.
func CancelRequested() error { return temporal.NewCanceledError() }
