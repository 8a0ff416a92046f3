package admission

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Kind is what many items have in common.
type Kind struct {
	Tenant    string   `json:"tenant"`
	Agent     string   `json:"agent,omitempty"`
	Operation string   `json:"operation"`
	Priority  Priority `json:"priority,omitempty"`
	Resources []string `json:"resources,omitempty"`
	LeaseFor  Duration `json:"lease_for,omitempty"`
	HoldOn    string   `json:"hold_on,omitempty"`
}

// Item is one attempt, short: ten thousand of them fit into one payload. Times
// are nanoseconds from the snapshot's own time.
type Item struct {
	Kind      int     `json:"k"`
	Task      string  `json:"t"`           // without "task/<tenant>/", if it begins so
	Whole     bool    `json:"w,omitempty"` // it does not
	Attempt   int     `json:"n,omitempty"` // zero: 1
	Seq       uint64  `json:"s"`
	Stand     string  `json:"z"`
	Arrival   int64   `json:"a,omitempty"`
	Hash      string  `json:"h,omitempty"`
	Amounts   []int64 `json:"c,omitempty"` // of the kind's resources
	Deadline  *int64  `json:"d,omitempty"`
	NotBefore *int64  `json:"b,omitempty"`
	Lease     string  `json:"l,omitempty"`
	Granted   int64   `json:"g,omitempty"`
	Charge    int64   `json:"f,omitempty"`
	After     string  `json:"after,omitempty"` // standby: the lease whose place it takes
	Over      *int64  `json:"over,omitempty"`  // leased, standby: when its end is near
	Ends      *int64  `json:"ends,omitempty"`
	Handed    bool    `json:"handed,omitempty"`
	Ticket    string  `json:"i,omitempty"`
	StartBy   *int64  `json:"y,omitempty"`
	Confirmed bool    `json:"o,omitempty"`
	Grace     bool    `json:"e,omitempty"`
	Hold      bool    `json:"j,omitempty"`
	Due       *int64  `json:"u,omitempty"`
	Deliver   *int64  `json:"r,omitempty"`
	Tries     int     `json:"q,omitempty"`
	Again     bool    `json:"v,omitempty"`
	// Ended ones only.
	Refuse Reason   `json:"x,omitempty"`
	Detail string   `json:"m,omitempty"`
	Retry  Duration `json:"p,omitempty"`
}

// Stands in a snapshot.
const (
	rowDelayed = "d"
	rowQueued  = "q"
	rowStandby = "s"
	rowLeased  = "l"
	rowEnded   = "e"
)

// fingerprint is what a budget keeps of a payload hash: 128 bits, enough to
// tell payloads of one key apart.
func fingerprint(hash string) string {
	raw, err := hex.DecodeString(strings.TrimPrefix(hash, "sha256:"))
	if err != nil || len(raw) != sha256.Size {
		if len(hash) <= 24 {
			return hash
		}
		sum := sha256.Sum256([]byte(hash))
		raw = sum[:]
	}
	return base64.RawURLEncoding.EncodeToString(raw[:16])
}

// kinds numbers what items have in common.
type kinds struct {
	list   []Kind
	number map[string]int
}

func newKinds() *kinds { return &kinds{number: map[string]int{}} }

func (k *kinds) of(r Request) int {
	key := make([]byte, 0, 128)
	for _, s := range []string{r.Tenant, r.Agent, r.Operation, r.Priority.String(), r.LeaseFor.String(), r.HoldOn} {
		key = append(append(key, s...), 0)
	}
	for _, c := range r.Cost {
		key = append(append(key, c.Resource...), 0)
	}
	if n, ok := k.number[string(key)]; ok {
		return n
	}
	kind := Kind{Tenant: r.Tenant, Agent: r.Agent, Operation: r.Operation, Priority: r.Priority, LeaseFor: r.LeaseFor, HoldOn: r.HoldOn}
	for _, c := range r.Cost {
		kind.Resources = append(kind.Resources, c.Resource)
	}
	n := len(k.list)
	k.number[string(key)] = n
	k.list = append(k.list, kind)
	return n
}

func (k *kinds) item(it *item, now time.Time) Item {
	r := it.req
	rec := Item{Kind: k.of(r), Attempt: r.Attempt, Seq: it.seq, Stand: it.stand.row(), Arrival: int64(it.arrival.Sub(now)), Hash: r.Hash,
		Deadline: since(r.Deadline, now), NotBefore: since(r.NotBefore, now), Charge: it.charge, Ticket: it.ticket,
		Confirmed: it.confirmed, Grace: it.grace, Hold: r.Hold, Tries: it.tries, Again: it.again, Refuse: it.refuse, Detail: it.detail, Retry: it.retry}
	if rec.Attempt == 1 {
		rec.Attempt = 0
	}
	var ok bool
	if rec.Task, ok = strings.CutPrefix(r.Task, "task/"+r.Tenant+"/"); !ok {
		rec.Task, rec.Whole = r.Task, true
	}
	for _, c := range r.Cost {
		rec.Amounts = append(rec.Amounts, c.Amount)
	}
	switch it.stand {
	case leased:
		rec.Lease, rec.Granted = it.lease.ID, int64(it.granted.Sub(now))
	case queued:
		rec.Lease = it.announced
	case standby:
		rec.Lease, rec.Granted, rec.After = it.lease.ID, int64(it.lease.Granted.Sub(now)), it.lease.After
	}
	if it.promised() && !it.ends.IsZero() {
		rec.Ends, rec.Handed = since(&it.ends, now), it.handed
		if it.endingAt > 0 {
			rec.Over = since(&it.over, now)
		}
	}
	if !it.startBy.IsZero() {
		rec.StartBy = since(&it.startBy, now)
	}
	if due := it.due; !due.IsZero() {
		rec.Due = since(&due, now)
	} else if it.stand == leased || !it.confirmed || r.Hold {
		rec.Due = since(&now, now) // an inspection was under way
	}
	if it.deliver {
		rec.Deliver = since(&it.deliverAt, now)
	}
	return rec
}

func since(t *time.Time, now time.Time) *int64 {
	if t == nil {
		return nil
	}
	d := int64(t.Sub(now))
	return &d
}

func (s stand) row() string {
	return [...]string{rowDelayed, rowQueued, rowStandby, rowLeased, rowEnded}[s]
}

// restoreItem puts one attempt back. It refuses what no State can have written.
func (s *State) restoreItem(rec Item, kind Kind) error {
	at := func(d *int64) *time.Time {
		if d == nil {
			return nil
		}
		t := s.now.Add(time.Duration(*d))
		return &t
	}
	r := Request{Task: rec.Task, Attempt: max(rec.Attempt, 1), Tenant: kind.Tenant, Agent: kind.Agent, Operation: kind.Operation,
		Priority: kind.Priority, Hash: rec.Hash, LeaseFor: kind.LeaseFor, Hold: rec.Hold, HoldOn: kind.HoldOn, Deadline: at(rec.Deadline), NotBefore: at(rec.NotBefore)}
	if !rec.Whole {
		r.Task = "task/" + kind.Tenant + "/" + rec.Task
	}
	if len(rec.Amounts) != len(kind.Resources) {
		return fmt.Errorf("snapshot: %q has %d amounts of %d resources", r.Task, len(rec.Amounts), len(kind.Resources))
	}
	for i, a := range rec.Amounts {
		r.Cost = append(r.Cost, Cost{kind.Resources[i], a})
	}
	if r.Priority < Low || r.Priority > Critical {
		return fmt.Errorf("snapshot: %q has priority %d", r.Task, r.Priority)
	}
	t := s.tenant(r.Tenant)
	it := &item{req: r, seq: rec.Seq, arrival: s.now.Add(time.Duration(rec.Arrival)), charge: rec.Charge, ticket: rec.Ticket,
		confirmed: rec.Confirmed, grace: rec.Grace, refuse: rec.Refuse, detail: rec.Detail, retry: rec.Retry, tries: rec.Tries,
		again: rec.Again, tenant: t, agent: t.agent(r.Agent), class: s.classFor(r.Operation, r.Cost, rec.Again)}
	if s.items[it.key()] != nil {
		return fmt.Errorf("snapshot: attempt %d of %q is there twice", r.Attempt, r.Task)
	}
	if by := at(rec.StartBy); by != nil {
		it.startBy = *by
	}
	switch rec.Stand {
	case rowDelayed, rowQueued:
		it.stand = queued
		if rec.Stand == rowDelayed {
			it.stand = delayed
		} else {
			it.announced = rec.Lease
		}
		own := it.agent.virtual // it does not come back from idleness: it was here
		s.insert(it)
		it.agent.virtual = own
	case rowLeased:
		it.stand, it.granted = leased, s.now.Add(time.Duration(rec.Granted))
		it.lease = Lease{ID: rec.Lease, Granted: it.granted}
		s.keep(it)
		s.occupy(it)
	case rowStandby:
		it.stand = standby
		it.lease = Lease{ID: rec.Lease, Granted: s.now.Add(time.Duration(rec.Granted)), After: rec.After}
		s.keep(it) // Restore ties it to the one ahead
	case rowEnded:
		it.stand = ended
		s.keep(it)
	default:
		return fmt.Errorf("snapshot: %q stands %q", r.Task, rec.Stand)
	}
	if ends := at(rec.Ends); ends != nil {
		it.ends, it.handed = *ends, rec.Handed
	}
	if over := at(rec.Over); over != nil {
		it.over = *over
		s.endings.fix(it)
	}
	if it.promised() && it.class.gate.Frozen != nil {
		s.stop(it, s.now) // once more does no harm
	}
	if due := at(rec.Due); due != nil {
		s.audit(it, *due)
	}
	if deliver := at(rec.Deliver); deliver != nil {
		s.send(it, *deliver)
	}
	return nil
}

// occupy counts a lease that is there already. What it took of interval
// resources is in their levels.
func (s *State) occupy(it *item) {
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Per == 0 {
			s.resources[i].take(c.Amount)
		}
	}
	it.tenant.inFlight++
	it.agent.inFlight++
	s.inFlight++
	s.expose(it)
}
