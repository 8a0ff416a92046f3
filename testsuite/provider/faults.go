package provider

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Kind is what goes wrong with a request.
type Kind string

const (
	// Before resets the connection; no effect.
	Before Kind = "before"
	// After makes the effect, then resets the connection without an answer.
	After Kind = "after"
	// Hang makes the effect; the answer waits for Release or for the client to leave.
	Hang Kind = "hang"
	// HangBefore waits for Release, then goes on as usual. No effect if the client
	// leaves first. Its key counts as in flight meanwhile.
	HangBefore Kind = "hang_before"
	// Late waits for Release (or Delay, if set), then goes on even if the client has
	// left: the zombie. It is counted as a request, but to the keys it has not come
	// yet, so that another request with its key may overtake it.
	Late Kind = "late"
	// Slow waits for Delay (or Release), then makes the effect; with Commit the
	// effect comes first. If the client leaves, what was to come does not.
	Slow Kind = "slow"
	// Status answers Status with a problem body; no effect, or with Commit after it.
	Status Kind = "status"
	// Garbage makes the effect and cuts the JSON of the answer in half.
	Garbage Kind = "garbage"
	// Drip makes the effect and sends status, header and one byte at once, the rest
	// spread over Delay (0: after Release).
	Drip Kind = "drip"
	// Cut makes the effect, sends half of the answer, and resets the connection.
	Cut Kind = "cut"

	// Of the model only. Each but SpendCap makes the effect.
	SpendCap    Kind = "spend_cap"    // 429 that waiting does not help; no effect
	Refuse      Kind = "refuse"       // the model declines
	WrongUsage  Kind = "wrong_usage"  // the answer tells a usage that cannot be
	NoUsage     Kind = "no_usage"     // the answer tells none
	StreamFault Kind = "stream_fault" // a stream ends with an error in place of its rest
)

// Endpoint is what a fault is about.
type Endpoint string

const (
	OnCharge Endpoint = "charge" // POST /charges
	OnLookup Endpoint = "lookup" // GET /charges?key=
	OnList   Endpoint = "list"   // GET /charges; its requests have no key
	OnRead   Endpoint = "read"   // GET /read
	OnModel  Endpoint = "model"  // POST /v1/chat/completions and /v1/messages
)

// Fault is one misbehaviour for the next requests of a key. Where an endpoint
// has no effect, read "effect" in the kinds as "the reading".
//
// If several faults fit, the narrowest pattern is taken (a key, then the longest
// prefix, then "*"); among equal patterns, the first injected. A request takes
// one fault; one that is refused as malformed takes none.
type Fault struct {
	Key        string   `json:"key"`                   // pattern, see Witness; may not be empty
	Kind       Kind     `json:"kind"`                  //
	On         Endpoint `json:"on,omitempty"`          // empty: charge
	Times      int      `json:"times"`                 // how many requests, then healthy; 0 means 1, -1 for ever
	Delay      Duration `json:"delay,omitzero"`        // slow (must be positive), late, drip
	Status     int      `json:"status,omitempty"`      // status only: 200 to 599
	RetryAfter string   `json:"retry_after,omitempty"` // status only: the header's text as it is, also nonsense
	Commit     bool     `json:"commit,omitempty"`      // status, slow: the effect is made first
}

// Validate refuses a fault that could not be delivered as written.
func (f Fault) Validate() error {
	switch {
	case f.Key == "":
		return fmt.Errorf(`fault: no key; "*" is every request`)
	case !slices.Contains([]Kind{Before, After, Hang, HangBefore, Late, Slow, Status, Garbage, Drip, Cut, SpendCap, Refuse, WrongUsage, NoUsage, StreamFault}, f.Kind):
		return fmt.Errorf("fault: unknown kind %q", f.Kind)
	case !slices.Contains([]Endpoint{"", OnCharge, OnLookup, OnList, OnRead, OnModel}, f.On):
		return fmt.Errorf("fault: unknown endpoint %q", f.On)
	case f.On != OnModel && slices.Contains([]Kind{SpendCap, Refuse, WrongUsage, NoUsage, StreamFault}, f.Kind):
		return fmt.Errorf("fault: %s is of the model only", f.Kind)
	case f.Times < -1:
		return fmt.Errorf("fault: times %d; -1 is for ever", f.Times)
	case f.Delay < 0 || f.Delay == 0 && f.Kind == Slow:
		return fmt.Errorf("fault: %s with delay %v", f.Kind, f.Delay)
	case f.Delay > 0 && f.Kind != Slow && f.Kind != Late && f.Kind != Drip:
		return fmt.Errorf("fault: %s knows no delay", f.Kind)
	case f.Kind == Status && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("fault: status %d; want 200 to 599", f.Status)
	case f.Kind != Status && (f.Status != 0 || f.RetryAfter != ""):
		return fmt.Errorf("fault: %s knows no status or retry_after", f.Kind)
	case f.Commit && f.Kind != Status && f.Kind != Slow:
		return fmt.Errorf("fault: %s knows no commit", f.Kind)
	case f.On == OnList && !pattern(f.Key).matches(""):
		return fmt.Errorf("fault: key %q on list, whose requests have no key", f.Key)
	}
	return nil
}

// FaultReport is an injected fault and what became of it. Delivered counts the
// requests that it acted on so far: for a reset after the effect, it is counted
// once the effect was made.
type FaultReport struct {
	ID        string `json:"id"`
	Delivered int    `json:"delivered"`
	Fault
}

// Undelivered is true while the fault has not done all it was asked for: all
// its times, or at least one if it is for ever. A test that ends with an
// undelivered fault has tested something else.
func (r FaultReport) Undelivered() bool { return r.Delivered < max(r.Times, 1) }

// faultList is guarded by the server's lock.
type faultList struct {
	last int
	all  []*activeFault
	live []*activeFault // those with times left, so that a healthy provider looks at none
}

type activeFault struct {
	FaultReport
	left int // negative: for ever
}

func (l *faultList) add(f Fault) FaultReport {
	if f.On == "" {
		f.On = OnCharge
	}
	if f.Times == 0 {
		f.Times = 1
	}
	l.last++
	a := &activeFault{FaultReport{ID: "fault_" + strconv.Itoa(l.last), Fault: f}, f.Times}
	l.all = append(l.all, a)
	l.live = append(l.live, a)
	return a.FaultReport
}

// take returns the fault for a request, or nil.
func (l *faultList) take(on Endpoint, key string) *activeFault {
	best := -1
	for i, a := range l.live {
		if a.On == on && pattern(a.Key).matches(key) &&
			(best < 0 || pattern(a.Key).rank() > pattern(l.live[best].Key).rank()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	a := l.live[best]
	if a.left--; a.left == 0 {
		l.live = slices.Delete(l.live, best, best+1)
	}
	return a
}

func (l *faultList) reports() []FaultReport {
	reports := make([]FaultReport, len(l.all))
	for i, a := range l.all {
		reports[i] = a.FaultReport
	}
	return reports
}

// Inject implements Witness.
func (s *Server) Inject(_ context.Context, f Fault) (FaultReport, error) {
	if err := f.Validate(); err != nil {
		return FaultReport{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.add(f), nil
}

// Faults implements Witness.
func (s *Server) Faults(context.Context) ([]FaultReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.reports(), nil
}

// ClearFaults implements Witness.
func (s *Server) ClearFaults(context.Context) ([]FaultReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reports := s.faults.reports()
	s.faults.all, s.faults.live = nil, nil
	return reports, nil
}
