package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Policy is everything that a budget decides by. Slices are sorted by name, so
// that a workflow that walks them replays the same way.
type Policy struct {
	Resources  []Resource        `json:"resources"`
	Queue      QueuePolicy       `json:"queue"`
	Default    TenantPolicy      `json:"default"` // for tenants that are not named
	Tenants    []TenantPolicy    `json:"tenants,omitempty"`
	Operations []OperationPolicy `json:"operations,omitempty"`
	// Handover lets a lease pass to the next task in the worker that holds it.
	Handover bool `json:"handover,omitempty"`
	// UnknownCeiling is that of operations that declare none, at most
	// MaxUnknownCeiling, which is also what zero means.
	UnknownCeiling int `json:"unknown_ceiling,omitempty"`
}

// Resource is a named scarce thing: concurrent (Concurrent > 0), or per
// interval (Per > 0). Exactly one of the two.
//
// An interval resource is a token bucket: it refills by Amount per Per, holds
// at most Burst, and lets through what its level covers. A cost above Burst
// waits for a full bucket and leaves a debt. So no window of length Per sees
// more than Amount + max(Burst, largest single cost).
type Resource struct {
	Name       string   `json:"name"`
	Concurrent int64    `json:"concurrent,omitempty"`
	Per        Duration `json:"per,omitempty"`
	Amount     int64    `json:"amount,omitempty"`
	Burst      int64    `json:"burst,omitempty"` // zero: a tenth of Amount, at least 1
	Adapt      *Adapt   `json:"adapt,omitempty"` // concurrent only; nil: the limit stays as it is
}

// QueuePolicy bounds what may wait. Counts are tasks.
type QueuePolicy struct {
	Soft            int      `json:"soft"`                       // zero: four fifths of Hard
	Hard            int      `json:"hard"`                       // zero: 1000
	MaxAge          Duration `json:"max_age,omitempty"`          // zero: no age limit
	CriticalReserve int      `json:"critical_reserve,omitempty"` // above Hard, critical work only
}

// TenantPolicy bounds one tenant. A cap that is zero is taken from the default
// tenant, and means no cap if it is zero there too; a zero weight is 1.
type TenantPolicy struct {
	Name        string      `json:"name,omitempty"`
	Weight      int64       `json:"weight,omitempty"`
	MaxInFlight int         `json:"max_in_flight,omitempty"`
	MaxQueued   int         `json:"max_queued,omitempty"`
	Agents      AgentPolicy `json:"agents,omitzero"`
}

// AgentPolicy bounds each agent of a tenant. Zero: no cap.
type AgentPolicy struct {
	MaxInFlight int `json:"max_in_flight,omitempty"`
	MaxQueued   int `json:"max_queued,omitempty"`
}

// Limits of what a policy may say; they keep all sums inside 64 bits.
const (
	MaxAmount = int64(1) << 40
	MaxWeight = int64(1) << 20
	MaxQueue  = 1_000_000
	MaxPer    = 31 * 24 * time.Hour
)

// Normalize sorts the slices and fills in the documented zero values.
func (p Policy) Normalize() Policy {
	p.Resources = slices.Clone(p.Resources)
	slices.SortFunc(p.Resources, func(a, b Resource) int { return compare(a.Name, b.Name) })
	for i := range p.Resources {
		r := &p.Resources[i]
		if r.Per > 0 && r.Burst == 0 {
			r.Burst = max(1, r.Amount/10)
		}
	}
	if p.Queue.Hard == 0 {
		p.Queue.Hard = 1000
	}
	if p.Queue.Soft == 0 {
		p.Queue.Soft = max(1, p.Queue.Hard*4/5)
	}
	p.Default.Weight = max(1, p.Default.Weight)
	p.Tenants = slices.Clone(p.Tenants)
	slices.SortFunc(p.Tenants, func(a, b TenantPolicy) int { return compare(a.Name, b.Name) })
	for i := range p.Tenants {
		t, d := &p.Tenants[i], p.Default
		t.Weight = max(1, t.Weight)
		t.MaxInFlight = inherit(t.MaxInFlight, d.MaxInFlight)
		t.MaxQueued = inherit(t.MaxQueued, d.MaxQueued)
		t.Agents.MaxInFlight = inherit(t.Agents.MaxInFlight, d.Agents.MaxInFlight)
		t.Agents.MaxQueued = inherit(t.Agents.MaxQueued, d.Agents.MaxQueued)
	}
	p.Operations = slices.Clone(p.Operations)
	slices.SortFunc(p.Operations, func(a, b OperationPolicy) int { return compare(a.Name, b.Name) })
	for i := range p.Operations {
		p.Operations[i] = p.Operations[i].normalize()
	}
	return p
}

func (o OperationPolicy) normalize() OperationPolicy {
	b := &o.Breaker
	if b.Failures == 0 {
		b.Failures = 5
	}
	if b.Open == 0 {
		b.Open = Duration(10 * time.Second)
	}
	if b.MaxOpen == 0 {
		b.MaxOpen = max(b.Open, Duration(5*time.Minute))
	}
	if o.WhenFull == "" {
		o.WhenFull = WhenFullReject
	}
	return o
}

// operation gives the policy of an operation by name.
func (p Policy) operation(name string) OperationPolicy {
	i, ok := slices.BinarySearchFunc(p.Operations, name, func(o OperationPolicy, n string) int { return compare(o.Name, n) })
	if ok {
		return p.Operations[i]
	}
	return OperationPolicy{Name: name}.normalize()
}

// Validate checks a normalized policy; every error wraps ErrPolicy and names
// the field.
func (p Policy) Validate() error {
	for i, r := range p.Resources {
		if r.Name == "" {
			return fmt.Errorf("%w: resource %d has no name", ErrPolicy, i)
		}
		if i > 0 && p.Resources[i-1].Name == r.Name {
			return fmt.Errorf("%w: resource %q is there twice", ErrPolicy, r.Name)
		}
		if r.Adapt != nil && (r.Concurrent == 0 || r.Adapt.Min < 1 || r.Adapt.Min > r.Concurrent) {
			return fmt.Errorf("%w: resource %q: adapt is for concurrent resources, with 1 <= min <= concurrent", ErrPolicy, r.Name)
		}
		switch {
		case r.Concurrent > 0 && r.Per == 0 && r.Amount == 0 && r.Burst == 0:
			if r.Concurrent > MaxAmount {
				return fmt.Errorf("%w: resource %q: concurrent is above %d", ErrPolicy, r.Name, MaxAmount)
			}
		case r.Concurrent == 0 && r.Per > 0 && r.Amount > 0 && r.Burst > 0:
			if r.Amount > MaxAmount || r.Burst > MaxAmount || r.Per.D() > MaxPer || r.Per.D() < time.Millisecond {
				return fmt.Errorf("%w: resource %q: amount and burst are at most %d, per is between 1ms and %s", ErrPolicy, r.Name, MaxAmount, MaxPer)
			}
		default:
			return fmt.Errorf("%w: resource %q: want either concurrent, or per and amount, all above zero", ErrPolicy, r.Name)
		}
	}
	for i, o := range p.Operations {
		if o.Name == "" || i > 0 && p.Operations[i-1].Name == o.Name {
			return fmt.Errorf("%w: operation %q has no name or is there twice", ErrPolicy, o.Name)
		}
		switch o.WhenFull {
		case WhenFullReject, WhenFullDefer, WhenFullDropOldest:
		default:
			return fmt.Errorf("%w: operation %q: when_full %q: want reject, defer or drop_oldest", ErrPolicy, o.Name, o.WhenFull)
		}
		if o.UnknownCeiling < 0 || o.UnknownCeiling > MaxUnknownCeiling {
			return fmt.Errorf("%w: operation %q: unknown_ceiling is between 1 and %d", ErrPolicy, o.Name, MaxUnknownCeiling)
		}
		if b := o.Breaker; b.Open < 0 || b.MaxOpen < b.Open || b.MaxOpen.D() > 24*time.Hour {
			return fmt.Errorf("%w: operation %q: breaker: want 0 < open <= max_open <= 24h", ErrPolicy, o.Name)
		}
	}
	if p.UnknownCeiling < 0 || p.UnknownCeiling > MaxUnknownCeiling {
		return fmt.Errorf("%w: unknown_ceiling is between 1 and %d", ErrPolicy, MaxUnknownCeiling)
	}
	q := p.Queue
	if q.Hard < 1 || q.Hard > MaxQueue || q.Soft < 1 || q.Soft > q.Hard || q.CriticalReserve < 0 || q.CriticalReserve > MaxQueue || q.MaxAge < 0 {
		return fmt.Errorf("%w: queue: want 1 <= soft <= hard <= %d, critical_reserve and max_age not negative", ErrPolicy, MaxQueue)
	}
	if err := p.Default.validate("default"); err != nil {
		return err
	}
	for i, t := range p.Tenants {
		if i > 0 && p.Tenants[i-1].Name == t.Name {
			return fmt.Errorf("%w: tenant %q is there twice", ErrPolicy, t.Name)
		}
		if err := t.validate(t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (t TenantPolicy) validate(name string) error {
	if name == "" {
		return fmt.Errorf("%w: a tenant has no name", ErrPolicy)
	}
	if t.Weight < 1 || t.Weight > MaxWeight {
		return fmt.Errorf("%w: tenant %q: weight is between 1 and %d", ErrPolicy, name, MaxWeight)
	}
	if t.MaxInFlight < 0 || t.MaxQueued < 0 || t.Agents.MaxInFlight < 0 || t.Agents.MaxQueued < 0 {
		return fmt.Errorf("%w: tenant %q: caps are not negative", ErrPolicy, name)
	}
	return nil
}

// Tenant gives the policy of a tenant by name.
func (p Policy) Tenant(name string) TenantPolicy {
	i, ok := slices.BinarySearchFunc(p.Tenants, name, func(t TenantPolicy, n string) int { return compare(t.Name, n) })
	if ok {
		return p.Tenants[i]
	}
	t := p.Default
	t.Name = name
	return t
}

// Digest names the policy: equal ones, once normalized, have the same.
func (p Policy) Digest() string {
	//workflowcheck:ignore A struct without maps has one JSON text.
	raw, _ := json.Marshal(p) // of strings and numbers: it cannot fail
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Resource finds a resource by name.
func (p Policy) Resource(name string) (Resource, bool) {
	i, ok := slices.BinarySearchFunc(p.Resources, name, func(r Resource, n string) int { return compare(r.Name, n) })
	if !ok {
		return Resource{}, false
	}
	return p.Resources[i], true
}

// CheckCost refuses a cost that names an unknown resource, is not positive, or
// can never fit.
func (p Policy) CheckCost(cost []Cost) (Reason, string) {
	for i, c := range cost {
		r, ok := p.Resource(c.Resource)
		if !ok {
			return UnknownResource, fmt.Sprintf("resource %q is not in the budget", c.Resource)
		}
		for _, d := range cost[:i] {
			if d.Resource == c.Resource {
				return UnknownResource, fmt.Sprintf("resource %q is there twice", c.Resource)
			}
		}
		limit := r.Concurrent
		if r.Per > 0 {
			limit = max(r.Amount, r.Burst)
		}
		if c.Amount < 1 || c.Amount > limit {
			return CostAboveLimit, fmt.Sprintf("a cost of %d %s can never fit: the limit is %d", c.Amount, c.Resource, limit)
		}
	}
	return "", ""
}

func inherit(own, from int) int {
	if own == 0 {
		return from
	}
	return own
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
