// Package provider is a small third party over HTTP that can misbehave on
// command. Its contract with a test is that it is an independent witness: what
// it counted is what happened, whoever tells another story.
//
//   - An effect is a charge made by POST /charges, or an answer of the model (POST
//     /v1/chat/completions or /v1/messages). It is counted at the instant it is
//     made, before any answer leaves, and never uncounted.
//   - A request is counted when its last byte has arrived, before any fault acts
//     on it; a replay, a refusal and a fault are requests, not effects.
//   - Every request, effect and end of a request is one [Entry] of an append-only
//     ledger; [Tally] of the ledger equals the counts.
//   - An answer is visible to its client only after it was counted as finished,
//     except the first bytes of a [Drip].
//   - A fault is delivered or still listed as undelivered; it is never lost.
//   - Waiting is on counts ([Witness.WaitFor]), never on time.
//
// The key that everything is counted under is the Idempotency-Key header, else
// the X-Request-Key header, else the query parameter or body field "key". Only
// the header Idempotency-Key deduplicates: the other two name the business key
// of a caller whose provider has no keys. Calls of the model are counted under
// the header X-Client-Request-Id, which deduplicates nothing.
//
// All state is in memory and grows with the number of keys (about half a
// kilobyte each); only the ledger is bounded. The package serves tests and the
// drill, never production code, and its control endpoints ask for no credential.
package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// KeyMode says what the provider does with the Idempotency-Key header.
type KeyMode string

const (
	KeysHonoured KeyMode = "honoured" // the default: one key, one effect
	KeysIgnored  KeyMode = "ignored"  // every POST is an effect
	KeysRequired KeyMode = "required" // as honoured, and a POST without a key is refused with 400
)

// Behaviour is what the provider does when no fault is on. The zero value
// honours keys for ever, and finds an effect as soon as it was made.
type Behaviour struct {
	Keys        KeyMode  `json:"keys,omitempty"`         // empty: honoured
	CacheErrors bool     `json:"cache_errors,omitempty"` // a Status fault is saved under its key and replayed, as some providers do
	KeyWindow   Duration `json:"key_window,omitzero"`    // a key is forgotten this long after its first answer; 0: never
	LookupLag   Duration `json:"lookup_lag,omitzero"`    // look-ups and lists find an effect only this long after it was made
}

// Validate refuses an unknown key mode and negative durations.
func (b Behaviour) Validate() error {
	switch b.Keys {
	case "", KeysHonoured, KeysIgnored, KeysRequired:
	default:
		return fmt.Errorf("behaviour: unknown keys mode %q", b.Keys)
	}
	if b.KeyWindow < 0 || b.LookupLag < 0 {
		return fmt.Errorf("behaviour: negative duration (key_window %v, lookup_lag %v)", b.KeyWindow, b.LookupLag)
	}
	return nil
}

// Options of a provider. The zero value is a healthy provider without a ledger file.
type Options struct {
	Behaviour Behaviour

	// Ledger, if set, receives every entry as one Write of one JSON line before
	// the answer leaves, so that the counts of a killed provider can be read
	// with ReadLedger. The first failed write is reported by Close.
	Ledger io.Writer

	// LedgerLimit bounds the entries kept in memory (a charge makes three of
	// about 220 bytes). Zero means 1,000,000. Past it the oldest are dropped, in
	// blocks, and Witness.Ledger says so; the counts stay exact.
	LedgerLimit int
}

// Server is the provider. It is a Witness and an http.Handler, safe for
// concurrent use; New makes one.
type Server struct {
	routes   *http.ServeMux
	http     *http.Server
	done     chan struct{}  // closed by Close: whatever hangs ends
	handlers sync.WaitGroup // requests and listeners

	mu        sync.Mutex // guards what follows; held for microseconds
	closed    bool
	behaviour Behaviour
	requests  int64           // the last request's number
	parked    map[*visit]bool // requests that Release can let go
	book      book            // the charges and the keys
	faults    faultList       // what to do wrong
	counts    counter         // what was counted, and who waits for it
	gauge     gauge           // how many at the same time
	ledger    ledger          // what was seen
}

// New returns a provider that listens nowhere yet: mount it as a handler or
// call Listen. It does not validate o.
func New(o Options) *Server {
	s := &Server{
		done:      make(chan struct{}),
		behaviour: o.Behaviour,
		parked:    map[*visit]bool{},
		book:      newBook(),
		counts:    newCounter(),
		gauge:     newGauge(),
		ledger:    newLedger(o.LedgerLimit, o.Ledger),
	}
	s.routes = s.newRoutes()
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are the purpose here
	}
	return s
}

// Serve runs a provider on addr until ctx is done, and calls ready with its URL
// once connections are accepted. It is all that a command needs. It returns nil
// after a clean stop.
func Serve(ctx context.Context, addr string, o Options, ready func(url string)) error {
	if err := o.Behaviour.Validate(); err != nil {
		return err
	}
	s := New(o)
	url, err := s.Listen(addr)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if ready != nil {
		ready(url)
	}
	<-ctx.Done()
	return s.Close()
}

// Listen serves on addr ("127.0.0.1:0" for any free port) in the background
// until Close, and returns the URL to reach it. It may be called again for
// another address.
func (s *Server) Listen(addr string) (string, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("provider: listen on %s: %w", addr, err)
	}
	if !s.enter() {
		return "", errors.Join(ErrClosed, listener.Close())
	}
	go func() {
		defer s.handlers.Done()
		_ = s.http.Serve(listener) // always ends with ErrServerClosed or a dead listener
	}()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", fmt.Errorf("provider: address of %s: %w", addr, err)
	}
	if net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// Close ends hanging requests without an answer, closes the listeners and
// their connections, and returns when every handler has returned. Counts and
// ledger can still be read. The error is the first failed write to Options.Ledger.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	_ = s.http.Close()
	s.handlers.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.err
}

// ErrClosed is the answer of a provider after Close.
var ErrClosed = errors.New("provider: closed")

// enter counts one more handler, unless the provider is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.handlers.Add(1)
	return true
}

// ServeHTTP implements http.Handler. A closed provider answers 503.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		problem(http.StatusServiceUnavailable, ErrClosed.Error()).send(w)
		return
	}
	defer s.handlers.Done()
	s.routes.ServeHTTP(w, r)
}

func (s *Server) newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", s.postCharge)
	mux.HandleFunc("GET /charges", s.getCharges)
	mux.HandleFunc("POST /charges/cancel", s.postCancel)
	mux.HandleFunc("GET /read", s.getRead)
	// The same under the names of the samples.
	mux.HandleFunc("POST /messages", s.postCharge)
	mux.HandleFunc("POST /deployments", s.postCharge)
	mux.HandleFunc("GET /deployments", s.getCharges)
	mux.HandleFunc("POST /v1/chat/completions", s.postModel(chatCompletions))
	mux.HandleFunc("POST /v1/messages", s.postModel(messages))
	s.routeSite(mux)
	s.routeAdmin(mux)
	return mux
}
