package admission

import (
	"fmt"
	"time"
)

// Snapshot is a State as data. Restore gives back a State that behaves the
// same, but for decisions and inspections that were under way: they are handed
// out again.
type Snapshot struct {
	Policy     Policy          `json:"policy"`
	Now        time.Time       `json:"now"`
	Epoch      string          `json:"epoch"`
	Seq        uint64          `json:"seq"`
	Virtual    int64           `json:"virtual"`
	Levels     []Level         `json:"levels,omitempty"`
	Tenants    []TenantRecord  `json:"tenants,omitempty"`
	Kinds      []Kind          `json:"kinds,omitempty"`
	Items      []Item          `json:"items,omitempty"`
	Operations []operationStat `json:"operations,omitempty"`
	Gates      []gate          `json:"gates,omitempty"`
	Drain      drain           `json:"drain"`
	Handover   handover        `json:"handover,omitzero"`
	Doubts     []DoubtRecord   `json:"doubts,omitempty"`
}

// Level is what is remembered of a resource beyond its leases.
type Level struct {
	Resource string    `json:"resource"`
	Level    int64     `json:"level,omitempty"`
	At       time.Time `json:"at,omitzero"`
	Limit    int64     `json:"limit,omitempty"` // adaptive ones: below the declared one
	Credit   int64     `json:"credit,omitempty"`
	Shrunk   time.Time `json:"shrunk,omitzero"`
	Held     time.Time `json:"held,omitzero"`
}

// TenantRecord is what is remembered of a tenant beyond its policy.
type TenantRecord struct {
	Name    string        `json:"name"`
	Virtual int64         `json:"virtual,omitempty"`
	Served  int64         `json:"served,omitempty"`
	Retries retryBudget   `json:"retries,omitzero"`
	Pause   *Pause        `json:"pause,omitempty"`
	Agents  []AgentRecord `json:"agents,omitempty"`
}

// AgentRecord is what is remembered of an agent.
type AgentRecord struct {
	Name    string `json:"name"`
	Virtual int64  `json:"virtual,omitempty"`
}

// Snapshot writes the state down. Tenants that hold nothing and have no credit
// or debt worth remembering are left out.
func (s *State) Snapshot() Snapshot {
	out := Snapshot{Policy: s.policy, Now: s.now, Epoch: s.epoch, Seq: s.seq, Virtual: s.virtual,
		Operations: s.operations, Drain: s.drain, Handover: s.handover, Doubts: s.writeDoubts()}
	for _, r := range s.resources {
		switch {
		case r.Per > 0:
			out.Levels = append(out.Levels, Level{Resource: r.Name, Level: r.level, At: r.at})
		case r.limit != r.Concurrent || !r.held.IsZero() || !r.shrunk.IsZero():
			out.Levels = append(out.Levels, Level{Resource: r.Name, Limit: r.limit, Credit: r.credit, Shrunk: r.shrunk, Held: r.held})
		}
	}
	for _, g := range s.gates {
		if *g != (gate{Name: g.Name}) {
			out.Gates = append(out.Gates, *g)
		}
	}
	floor := s.floor()
	for _, t := range s.tenants {
		rec := TenantRecord{Name: t.Name, Virtual: t.virtual, Served: t.served, Retries: t.retries, Pause: t.pause}
		for _, a := range t.agents {
			if a.queued+a.inFlight+a.claims > 0 || a.virtual > t.served {
				rec.Agents = append(rec.Agents, AgentRecord{a.name, a.virtual})
			}
		}
		if len(rec.Agents) == 0 && t.pause == nil && t.virtual <= floor && t.retries.Spent == 0 {
			continue
		}
		out.Tenants = append(out.Tenants, rec)
	}
	k := newKinds()
	for _, it := range s.ordered() {
		out.Items = append(out.Items, k.item(it, s.now))
	}
	out.Kinds = k.list
	return out
}

// Restore is the inverse of Snapshot. It refuses a snapshot that no State can
// have written.
func Restore(snap Snapshot) (*State, error) {
	s, err := New(snap.Policy, snap.Epoch, snap.Now)
	if err != nil {
		return nil, err
	}
	s.seq, s.virtual, s.operations, s.drain, s.handover = snap.Seq, snap.Virtual, snap.Operations, snap.Drain, snap.Handover
	for _, l := range snap.Levels {
		i, ok := s.indexOf[l.Resource]
		if !ok {
			continue
		}
		r := &s.resources[i]
		if r.Per > 0 && !l.At.IsZero() {
			r.level, r.at = min(l.Level, r.Burst), l.At
		}
		if r.Adapt != nil && l.Limit > 0 {
			r.limit, r.credit, r.shrunk, r.held = min(max(l.Limit, r.Adapt.Min), r.Concurrent), l.Credit, l.Shrunk, l.Held
		}
	}
	for _, g := range snap.Gates {
		*s.gate(g.Name) = g
	}
	for _, rec := range snap.Tenants {
		t := s.tenant(rec.Name)
		t.virtual, t.served, t.retries = rec.Virtual, rec.Served, rec.Retries
		if rec.Pause != nil {
			s.setPause(t, rec.Pause)
		}
		for _, a := range rec.Agents {
			t.agent(a.Name).virtual = a.Virtual
		}
	}
	if err := s.restoreDoubts(snap.Doubts); err != nil {
		return nil, err
	}
	for _, rec := range snap.Items {
		if rec.Kind < 0 || rec.Kind >= len(snap.Kinds) {
			return nil, fmt.Errorf("snapshot: item %d has kind %d of %d", rec.Seq, rec.Kind, len(snap.Kinds))
		}
		if err := s.restoreItem(rec, snap.Kinds[rec.Kind]); err != nil {
			return nil, err
		}
	}
	if err := s.restoreSuccessors(); err != nil {
		return nil, err
	}
	for _, t := range s.tenants {
		virtual := s.virtual
		s.virtual = t.virtual // it does not come back from idleness: it was here
		s.refresh(t)
		s.virtual = virtual
	}
	return s, nil
}

func (s *State) restoreSuccessors() error {
	held := map[string]*item{} // looked up only
	for it := s.eldest; it != nil; it = it.younger {
		if it.promised() {
			held[it.lease.ID] = it
		}
	}
	for it := s.eldest; it != nil; it = it.younger {
		if it.stand != standby {
			continue
		}
		ahead := held[it.lease.After]
		if ahead == nil || ahead.successor != nil {
			return fmt.Errorf("snapshot: %q stands by for lease %q, which is not free to follow", it.req.Task, it.lease.After)
		}
		s.follow(it, ahead)
		s.expose(it)
	}
	s.recheck = true
	return nil
}
