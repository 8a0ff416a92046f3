package provider_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/provider"
)

// world is a listening provider, a caller, and one of the two witnesses.
type world struct {
	provider.Witness
	*testing.T
	server *provider.Server
	url    string
	ctx    context.Context // bounds every wait of the test
}

// both runs a test against the provider in process and over HTTP.
func both(t *testing.T, test func(w *world)) {
	t.Helper()
	for _, name := range []string{"in process", "over HTTP"} {
		t.Run(name, func(t *testing.T) {
			w := start(t, provider.Options{})
			if name == "over HTTP" {
				w.Witness = &provider.Client{URL: w.url}
			}
			test(w)
		})
	}
}

func start(t *testing.T, o provider.Options) *world {
	t.Helper()
	server := provider.New(o)
	url, err := server.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return &world{Witness: server, T: t, server: server, url: url, ctx: ctx}
}

// got is an answer, or the error instead.
type got struct {
	status int
	header http.Header
	body   string
	err    error
}

func (g got) charge(t *testing.T) (c provider.Charge) {
	t.Helper()
	require.NoError(t, g.err)
	require.NoError(t, json.Unmarshal([]byte(g.body), &c), g.body)
	return c
}

// caller opens a connection for each request: on a used one, net/http itself
// repeats a request that was reset (see TestTheTransportRepeatsKeyedRequests).
var caller = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

const euros = `{"amount":1200,"currency":"EUR"}`

// post charges with an Idempotency-Key and more headers as "Name: value".
func (w *world) post(ctx context.Context, key, body string, headers ...string) got {
	if key != "" {
		headers = append(headers, "Idempotency-Key: "+key)
	}
	return w.send(ctx, "POST", "/charges", body, headers...)
}

func (w *world) get(path string) got { return w.send(w.ctx, "GET", path, "") }

func (w *world) send(ctx context.Context, method, path, body string, headers ...string) got {
	request := must(http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body)))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	answer, err := caller.Do(request)
	if err != nil {
		return got{err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return got{answer.StatusCode, answer.Header, string(text), err}
}

// later runs a request in the background.
func (w *world) later(send func() got) <-chan got {
	answers := make(chan got, 1)
	go func() { answers <- send() }()
	return answers
}

// inject also asserts, at the end of the test, that the fault was delivered.
func (w *world) inject(f provider.Fault) {
	w.Helper()
	report, err := w.Inject(w.ctx, f)
	require.NoError(w, err)
	w.Cleanup(func() {
		faults, err := w.server.Faults(context.Background())
		require.NoError(w, err)
		for _, now := range faults {
			if now.ID == report.ID {
				require.False(w, now.Undelivered(), "undelivered: %+v", now)
			}
		}
	})
}

func (w *world) wait(key string, want provider.Counts) {
	w.Helper()
	require.NoError(w, w.WaitFor(w.ctx, key, want))
}

func (w *world) release(key string, want int) {
	w.Helper()
	n, err := w.Release(w.ctx, key)
	require.NoError(w, err)
	require.Equal(w, want, n)
}

// counted asserts the exact numbers, by the counts and by the ledger.
func (w *world) counted(key string, want provider.Counts) {
	w.Helper()
	have, err := w.Effects(w.ctx, key)
	require.NoError(w, err)
	entries, err := w.Ledger(w.ctx, key)
	require.NoError(w, err)
	require.Equal(w, have, provider.Tally(entries, key), "ledger and counts agree")
	have.First, have.Last = want.First, want.Last
	require.Equal(w, want, have)
}

// lastStatus is what the ledger says was sent last for a key.
func (w *world) lastStatus(key string) int {
	w.Helper()
	entries, err := w.Ledger(w.ctx, key)
	require.NoError(w, err)
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Event == provider.EventFinish {
			return entries[i].Status
		}
	}
	w.Fatal("no finished request")
	return 0
}
