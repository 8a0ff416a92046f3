package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/contract"
)

// gateway answers one try after the other: a status and its Retry-After; 0 breaks
// the connection.
type gateway struct {
	*httptest.Server
	seen []string // key and body of each try
}

type turn struct {
	status, after int
	next          string
}

func newGateway(t *testing.T, turns ...turn) *gateway {
	g := &gateway{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g.seen = append(g.seen, r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Authorization")+" "+string(body))
		now := turns[min(len(g.seen), len(turns))-1]
		switch {
		case now.status == 0:
			panic(http.ErrAbortHandler)
		case now.status/100 == 2:
			w.WriteHeader(now.status)
			_ = json.NewEncoder(w).Encode(contract.TaskView{Task: "task/acme/inv-42", Phase: contract.PhaseAccepted})
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(now.status)
		_ = json.NewEncoder(w).Encode(contract.Problem{Status: now.status, Reason: "r", Title: "T", RetryAfter: now.after, NextAction: now.next})
	}))
	t.Cleanup(g.Close)
	return g
}

// waits are the pauses that a client made, without making them.
func patient(g *gateway, tries int) (*Client, *[]time.Duration) {
	var waits []time.Duration
	return &Client{URL: g.URL, APIKey: "hgk_a", Retry: Retry{Tries: tries, Pause: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}}}, &waits
}

func TestSubmitKeepsItsKey(t *testing.T) {
	g := newGateway(t, turn{0, 0, ""}, turn{429, 7, contract.NextRetryLater}, turn{503, 0, contract.NextRetryLater}, turn{500, 1, contract.NextRetryLater}, turn{202, 0, ""})
	c, waits := patient(g, 0)
	view, err := c.Submit(t.Context(), `a "b"\`, contract.SubmitRequest{Tenant: "acme", Operation: "charge_card", Payload: []byte(`{"amount": 1}`)})
	require.NoError(t, err)
	assert.Equal(t, "task/acme/inv-42", view.Task)
	require.Len(t, g.seen, 5)
	for _, try := range g.seen {
		assert.Equal(t, g.seen[0], try, "each try is the same")
	}
	assert.Contains(t, g.seen[0], `"a \"b\"\\" Bearer hgk_a {"tenant":"acme"`)
	require.Len(t, *waits, 4)
	for i, bounds := range [][2]time.Duration{{250, 500}, {7000, 8400}, {1000, 2000}, {1000, 1200}} {
		assert.GreaterOrEqual(t, (*waits)[i], bounds[0]*time.Millisecond, i)
		assert.LessOrEqual(t, (*waits)[i], bounds[1]*time.Millisecond+1, i)
	}
}

func TestRefusalsForGood(t *testing.T) {
	for _, next := range []string{contract.NextDoNotRetry, contract.NextAskHuman, contract.NextWait} {
		g := newGateway(t, turn{503, 9, next})
		c, waits := patient(g, 0)
		_, err := c.Submit(t.Context(), "k", contract.SubmitRequest{})
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, next, refusal.NextAction)
		assert.Empty(t, *waits)
	}
	c := &Client{URL: "localhost:7280"}
	_, err := c.Task(t.Context(), "acme", "k")
	require.ErrorContains(t, err, "is not a URL")
	_, err = c.Submit(t.Context(), "", contract.SubmitRequest{})
	require.ErrorContains(t, err, "the request key is empty")
}

func TestGivingUp(t *testing.T) {
	g := newGateway(t, turn{429, 1, contract.NextRetryLater})
	c, waits := patient(g, 3)
	_, err := c.Submit(t.Context(), "k", contract.SubmitRequest{})
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	assert.Len(t, g.seen, 3)
	assert.Len(t, *waits, 2)

	ctx, cancel := context.WithCancel(t.Context())
	real := &Client{URL: g.URL, Retry: Retry{Pause: func(ctx context.Context, d time.Duration) error { cancel(); return pause(ctx, d) }}}
	_, err = real.Submit(ctx, "k", contract.SubmitRequest{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorAs(t, err, &refusal, "why it had to wait is told too")
	assert.Len(t, g.seen, 4)
}

func TestNotAGateway(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, err := (&Client{URL: s.URL}).Task(t.Context(), "acme", "k")
	require.ErrorContains(t, err, "not like a Headgate gateway")
}
