package provider

import (
	"context"
	"strings"
	"time"
)

// Witness is what a test may ask of a provider and do to it. Server implements
// it in process, Client over HTTP. Every method returns an error because a
// witness that cannot be reached has not seen "nothing".
//
// A key in these methods is a pattern: "inv-42" is that key, "run7-*" every key
// that starts with "run7-", "*" or "" every request, also those without a key.
// A key that itself ends in an asterisk can only be reached as a prefix.
type Witness interface {
	// Configure replaces the behaviour. Requests that arrived before keep the
	// key claims they made.
	Configure(ctx context.Context, b Behaviour) error

	// Inject adds a fault behind those already there for the same pattern. An
	// impossible fault is refused.
	Inject(ctx context.Context, f Fault) (FaultReport, error)

	// Faults lists every injected fault in order, with its delivered count.
	Faults(ctx context.Context) ([]FaultReport, error)

	// ClearFaults removes all faults and returns the list as it was. A request
	// that already took one still plays it.
	ClearFaults(ctx context.Context) ([]FaultReport, error)

	// Release lets the requests go on that a fault holds at this moment, and
	// returns how many. A request can be released as soon as it is counted, so
	// wait for the count first.
	Release(ctx context.Context, key string) (int, error)

	// Effects returns the counts of a key: what the provider saw, so far.
	Effects(ctx context.Context, key string) (Counts, error)

	// WaitFor returns once every number of want is reached (zeroes and times
	// are not waited for), or an error that wraps that of ctx and names what is
	// missing.
	WaitFor(ctx context.Context, key string, want Counts) error

	// Ledger returns the entries of a key, oldest first. If entries were dropped
	// to stay within Options.LedgerLimit, the rest comes with ErrDropped.
	Ledger(ctx context.Context, key string) ([]Entry, error)

	// Concurrency returns how many charge requests are and were in hand at once.
	Concurrency(ctx context.Context) (Concurrency, error)

	// Reset forgets charges, keys, counts, ledger and maxima; faults and
	// behaviour stay. A request in hand is counted from here on: it may finish,
	// or make its effect, without having arrived.
	Reset(ctx context.Context) error
}

var (
	_ Witness = (*Server)(nil)
	_ Witness = (*Client)(nil)
)

// Duration is a time.Duration that JSON writes as text: "1.5s". Zero is "0s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// pattern addresses keys; see Witness.
type pattern string

func (p pattern) matches(key string) bool {
	if prefix, ok := strings.CutSuffix(string(p), "*"); ok {
		return strings.HasPrefix(key, prefix)
	}
	return p == "" || string(p) == key
}

// exact is true if the pattern addresses one key.
func (p pattern) exact() bool { return p != "" && !strings.HasSuffix(string(p), "*") }

// rank orders patterns by how narrowly they address: one key before any prefix,
// a longer prefix before a shorter one.
func (p pattern) rank() int {
	if p.exact() {
		return 1 << 20
	}
	return len(p)
}
