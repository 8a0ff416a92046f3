package provider

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Event is what an entry records.
type Event string

const (
	EventRequest Event = "request" // a request has arrived
	EventEffect  Event = "effect"  // it made its effect
	EventFinish  Event = "finish"  // it ended; Status is what was sent
	EventReset   Event = "reset"   // everything before is forgotten; in a file only
)

// Entry is one line of the ledger. Entries are never changed; Seq counts them
// without gaps from 1 (from the start of the process, also over a Reset).
type Entry struct {
	Seq         int64     `json:"seq"`
	Time        time.Time `json:"time"`
	Event       Event     `json:"event"`
	Request     int64     `json:"request,omitempty"` // joins the entries of one request
	On          Endpoint  `json:"on,omitempty"`
	Key         string    `json:"key,omitempty"`
	Tenant      string    `json:"tenant,omitempty"`
	Method      string    `json:"method,omitempty"`
	Path        string    `json:"path,omitempty"`
	Remote      string    `json:"remote,omitempty"`       // address of the client's connection
	PayloadHash string    `json:"payload_hash,omitempty"` // "sha256:" and the hex hash of the body's bytes; charges only
	Fault       Kind      `json:"fault,omitempty"`        // applied to this request
	FaultID     string    `json:"fault_id,omitempty"`
	Effect      string    `json:"effect,omitempty"`   // effect: the charge's id
	Tokens      int       `json:"tokens,omitempty"`   // effect: those that the model used
	Started     time.Time `json:"started,omitzero"`   // finish: when the request arrived
	Status      int       `json:"status,omitempty"`   // finish: 0 if the connection was broken or the client had left
	Replayed    bool      `json:"replayed,omitempty"` // finish: answered with the first answer again
}

func (v *visit) entry(event Event, at time.Time) Entry {
	e := Entry{
		Time: at, Event: event, Request: v.id, On: v.on, Key: v.key, Tenant: v.tenant,
		Method: v.method, Path: v.path, Remote: v.remote, PayloadHash: v.hash,
	}
	if v.fault != nil {
		e.Fault, e.FaultID = v.fault.Kind, v.fault.ID
	}
	return e
}

// Tally counts what the entries say about a key (a pattern, see Witness). It is
// the meaning of Counts, and the way to read those of a killed provider.
func Tally(entries []Entry, key string) Counts {
	var sum Counts
	for _, e := range entries {
		switch {
		case e.Event == EventReset:
			sum = Counts{}
		case !pattern(key).matches(e.Key):
		case e.Event == EventRequest:
			sum = sum.plus((&visit{on: e.On}).arrival())
		case e.Event == EventEffect:
			sum = sum.plus(Counts{Effects: 1, First: e.Time, Last: e.Time})
		case e.Event == EventFinish && e.On.effectful():
			sum.Finished++
			if e.Replayed {
				sum.Replays++
			}
		}
	}
	return sum
}

// ReadLedger reads what Options.Ledger received. A last line that was cut by the
// end of the process is left out; any other broken line is an error.
func ReadLedger(r io.Reader) ([]Entry, error) {
	var entries []Entry
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read ledger after %d entries: %w", len(entries), err)
		}
		var e Entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, fmt.Errorf("read ledger: line %d: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
}

// ErrDropped says that the oldest entries of a ledger are gone.
var ErrDropped = errors.New("provider: oldest ledger entries dropped")

const (
	ledgerBlock        = 4096
	defaultLedgerLimit = 1_000_000
)

// ledger keeps entries in blocks, so that growing never copies and what was
// handed out is never written again. The server's lock guards it.
type ledger struct {
	seq     int64
	limit   int
	size    int
	blocks  [][]Entry
	dropped int
	file    io.Writer
	err     error // the first failed write
}

func newLedger(limit int, file io.Writer) ledger {
	if limit <= 0 {
		limit = defaultLedgerLimit
	}
	return ledger{limit: limit, file: file}
}

func (l *ledger) add(e Entry) {
	e = l.write(e)
	last := len(l.blocks) - 1
	if last < 0 || len(l.blocks[last]) == cap(l.blocks[last]) {
		l.blocks = append(l.blocks, make([]Entry, 0, min(ledgerBlock, l.limit)))
		last++
	}
	l.blocks[last] = append(l.blocks[last], e)
	if l.size++; l.size > l.limit {
		l.dropped += len(l.blocks[0])
		l.size -= len(l.blocks[0])
		l.blocks[0] = nil
		l.blocks = l.blocks[1:]
	}
}

// write numbers the entry and sends it to the file.
func (l *ledger) write(e Entry) Entry {
	l.seq++
	e.Seq, e.Time = l.seq, e.Time.UTC()
	if l.file == nil || l.err != nil {
		return e
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		l.err = fmt.Errorf("provider: ledger file: entry %d: %w", e.Seq, err)
	}
	return e
}

func (l *ledger) reset() {
	l.write(Entry{Event: EventReset, Time: time.Now()})
	l.blocks, l.size, l.dropped = nil, 0, 0
}

// entries is a snapshot of a key's entries; it holds the lock only to note where
// the blocks end.
func (s *Server) entries(key string) (entries []Entry, dropped int) {
	s.mu.Lock()
	blocks := make([][]Entry, len(s.ledger.blocks))
	copy(blocks, s.ledger.blocks)
	dropped = s.ledger.dropped
	s.mu.Unlock()
	for _, block := range blocks {
		for _, e := range block {
			if pattern(key).matches(e.Key) {
				entries = append(entries, e)
			}
		}
	}
	return entries, dropped
}

// Ledger implements Witness.
func (s *Server) Ledger(_ context.Context, key string) ([]Entry, error) {
	entries, dropped := s.entries(key)
	return entries, droppedError(dropped)
}

func droppedError(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d", ErrDropped, n)
}
