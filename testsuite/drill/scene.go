package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// Scene is one case being played in a world.
type Scene struct {
	*World
	Tenant string // the case's own

	began    time.Time
	mu       sync.Mutex
	order    []*trace
	points   []*proxy.Point
	maxDepth int
}

// trace is what the drill saw of one task from outside.
type trace struct {
	tenant, key string
	accepted    bool
	refused     contract.Problem // of the last refusal
	steps       []Step
	view        contract.TaskView // the last that was read

	reading sync.Mutex // held from the question to the note: answers must not overtake one another
}

// Step is a phase that a task was first seen in.
type Step struct {
	Phase    contract.Phase `json:"phase"`
	Attempts int            `json:"attempts"`
	After    time.Duration  `json:"after_ns"` // since the case began
}

func newScene(w *World, tenant string) *Scene {
	return &Scene{World: w, Tenant: tenant, began: time.Now()}
}

// witnessKey is the name under which the provider counts a task's effects.
func witnessKey(tenant, key string) string { return contract.ProviderKey(tenant, key) }

// Submit asks for a task of the case's own tenant, which must be accepted.
func (s *Scene) Submit(ctx context.Context, key, operation string) error {
	return s.SubmitAs(ctx, s.Tenant, key, operation, admission.Normal)
}

// SubmitAs is Submit for another tenant or priority.
func (s *Scene) SubmitAs(ctx context.Context, tenant, key, operation string, priority admission.Priority) error {
	return s.submit(ctx, key, contract.SubmitRequest{Tenant: tenant, Operation: operation, Priority: priority})
}

// SubmitBy is Submit of work of low priority with a deadline.
func (s *Scene) SubmitBy(ctx context.Context, key, operation string, deadline time.Time) error {
	return s.submit(ctx, key, contract.SubmitRequest{Tenant: s.Tenant, Operation: operation, Priority: admission.Low, Deadline: &deadline})
}

func (s *Scene) submit(ctx context.Context, key string, r contract.SubmitRequest) error {
	answer, err := s.ask(ctx, key, r)
	if err == nil && answer.Status/100 != 2 {
		err = fmt.Errorf("submit %s/%s: %d %s: %s", r.Tenant, key, answer.Status, answer.Problem.Reason, answer.Problem.Detail)
	}
	return err
}

// Ask asks for a task, which may be refused. An error means that no answer came.
func (s *Scene) Ask(ctx context.Context, tenant, key, operation string, priority admission.Priority) (Answer, error) {
	return s.ask(ctx, key, contract.SubmitRequest{Tenant: tenant, Operation: operation, Priority: priority})
}

// ask is Ask of anything; the payload is added.
func (s *Scene) ask(ctx context.Context, key string, r contract.SubmitRequest) (Answer, error) {
	t := s.trace(r.Tenant, key)
	r.Payload = payload(r.Tenant, key, amount)
	answer, err := s.Door.Submit(ctx, key, r)
	if err != nil {
		return answer, err
	}
	if answer.Status/100 == 2 {
		s.accept(t)
		return answer, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.refused = answer.Problem
	return answer, nil
}

// accept notes that a task must be there from now on.
func (s *Scene) accept(t *trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.accepted = true
}

// amount is what every charge is about, unless a case is about the payload.
const amount = 1200

// payload names its task, so that a provider which is given no idempotency key
// can still count the effects of each.
func payload(tenant, key string, amount int) json.RawMessage {
	return fmt.Appendf(nil, `{"amount":%d,"currency":"EUR","key":%q,"tenant":%q}`, amount, witnessKey(tenant, key), tenant)
}

func (s *Scene) trace(tenant, key string) *trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.order {
		if t.tenant == tenant && t.key == key {
			return t
		}
	}
	t := &trace{tenant: tenant, key: key}
	s.order = append(s.order, t)
	return t
}

func (s *Scene) traces() []*trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// watch follows the tasks from outside, as a client that polls would, until ctx
// ends.
func (s *Scene) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, t := range s.traces() {
			s.mu.Lock()
			over := !t.accepted || t.view.Phase.End() && t.view.Phase != contract.PhaseUnknown
			s.mu.Unlock()
			if !over {
				_, _ = s.look(ctx, t) // the gateway may be dead on purpose
			}
		}
		if view, err := s.Door.Queue(ctx); err == nil {
			s.mu.Lock()
			s.maxDepth = max(s.maxDepth, view.Depth)
			s.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// look reads one task and notes a new phase.
func (s *Scene) look(ctx context.Context, t *trace) (contract.TaskView, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	answer, err := s.Door.Task(ctx, t.tenant, t.key)
	if err != nil {
		return contract.TaskView{}, err
	}
	if answer.Status != 200 {
		return contract.TaskView{}, fmt.Errorf("read %s/%s: %d %s", t.tenant, t.key, answer.Status, answer.Problem.Detail)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.view = answer.Task
	if n := len(t.steps); n == 0 || t.steps[n-1].Phase != answer.Task.Phase {
		t.steps = append(t.steps, Step{answer.Task.Phase, answer.Task.Attempts, time.Since(s.began)})
	}
	return answer.Task, nil
}

// Until waits until a task of the case's own tenant is in a phase.
func (s *Scene) Until(ctx context.Context, key string, phase contract.Phase) error {
	return s.UntilAs(ctx, s.Tenant, key, phase)
}

// UntilAs is Until for another tenant. Another end than the one that is waited
// for is an error at once.
func (s *Scene) UntilAs(ctx context.Context, tenant, key string, phase contract.Phase) error {
	t := s.trace(tenant, key)
	var last string
	err := until(ctx, fmt.Sprintf("%s/%s is %s", tenant, key, phase), func(ctx context.Context) (bool, error) {
		if err := s.Lost(); err != nil {
			return false, err
		}
		view, err := s.look(ctx, t)
		if err != nil {
			if ctx.Err() == nil {
				last = err.Error()
			}
			return false, nil
		}
		last = fmt.Sprintf("it is %s (%s %s)", view.Phase, view.ErrorClass, view.Detail)
		if view.Phase != phase && view.Phase.End() && view.Phase != contract.PhaseUnknown {
			return false, fmt.Errorf("it ended %s (%s %s)", view.Phase, view.ErrorClass, view.Detail)
		}
		return view.Phase == phase, nil
	})
	if err != nil {
		return fmt.Errorf("%w; last: %s", err, last)
	}
	return nil
}

// WaitsOn waits until a task of the case's own tenant waits for one reason.
func (s *Scene) WaitsOn(ctx context.Context, key string, reason admission.Reason) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return until(ctx, fmt.Sprintf("%s/%s waits on %s", s.Tenant, key, reason), func(ctx context.Context) (bool, error) {
		why, err := s.Door.Why(ctx, s.Tenant, key)
		return err == nil && why.Stand != admission.StandLeased && why.Reason == reason, nil
	})
}

// Fault makes the provider misbehave for one task, once.
func (s *Scene) Fault(ctx context.Context, key string, f provider.Fault) error {
	return s.FaultAs(ctx, s.Tenant, key, f)
}

// FaultAs is Fault for another tenant.
func (s *Scene) FaultAs(ctx context.Context, tenant, key string, f provider.Fault) error {
	f.Key = witnessKey(tenant, key)
	_, err := s.Provider.Inject(ctx, f)
	return err
}

// Seen waits until the provider has counted so much for a task.
func (s *Scene) Seen(ctx context.Context, key string, want provider.Counts) error {
	return s.Provider.WaitFor(ctx, witnessKey(s.Tenant, key), want)
}

// Release lets the provider go on with what it holds of a task.
func (s *Scene) Release(ctx context.Context, tenant, key string) error {
	n, err := s.Provider.Release(ctx, witnessKey(tenant, key))
	if err == nil && n == 0 {
		err = fmt.Errorf("the provider holds nothing of %s/%s", tenant, key)
	}
	return err
}

// close lets go of every call that is still held.
func (s *Scene) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, point := range s.points {
		point.Release()
	}
}

// place arms a point that does not outlive the scene.
func (s *Scene) place(p *Process, rule proxy.Rule) *proxy.Point {
	point := p.Proxy.Place(rule)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = append(s.points, point)
	return point
}
