package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/provider"
)

func TestWaitFor(t *testing.T) {
	both(t, func(w *world) {
		w.wait("k", provider.Counts{}) // nothing to wait for
		waits := make(chan error, 3)
		for _, key := range []string{"run-1", "run-*", "*"} {
			go func() { waits <- w.WaitFor(w.ctx, key, provider.Counts{Requests: 2, Effects: 1, Reads: 1}) }()
		}
		w.post(w.ctx, "run-1", euros)
		w.post(w.ctx, "run-1", euros)
		w.get("/read?key=run-1")
		for range 3 {
			require.NoError(w, <-waits)
		}

		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Millisecond)
		defer cancel()
		err := w.WaitFor(ctx, "run-1", provider.Counts{Effects: 2})
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.ErrorContains(w, err, "want {requests 0, effects 2")
		require.ErrorContains(w, err, "have {requests 2, effects 1")
	})
}

func TestLongPoll(t *testing.T) {
	w := start(t, provider.Options{})
	require.Equal(t, 504, w.get("/admin/wait?key=k&requests=1&timeout=1ms").status)
	require.Equal(t, 400, w.get("/admin/wait?key=k&requests=many").status)
	require.Equal(t, 400, w.get("/admin/wait?key=k&timeout=long").status)
	w.post(w.ctx, "k", euros)
	reached := w.get("/admin/wait?key=k&requests=1&effects=1")
	require.Equal(t, 200, reached.status)
	require.Contains(t, reached.body, `"requests":1,"effects":1,"replays":0,"finished":1,"lookups":0,"reads":0,"first":"20`)
}

func TestConcurrency(t *testing.T) {
	both(t, func(w *world) {
		w.inject(provider.Fault{Key: "*", Kind: provider.Hang, Times: -1})
		answers := make(chan got, 5)
		for i := range 5 {
			go func() {
				key := fmt.Sprintf("k-%d", i)
				if i < 3 {
					answers <- w.post(w.ctx, key, euros, "X-Tenant: acme")
				} else {
					answers <- w.post(w.ctx, key, `{"tenant":"beta"}`)
				}
			}()
		}
		w.wait("*", provider.Counts{Effects: 5})
		now, err := w.Concurrency(w.ctx)
		require.NoError(w, err)
		require.Equal(w, provider.Concurrency{
			Gauge:   provider.Gauge{Now: 5, Max: 5},
			Tenants: map[string]provider.Gauge{"acme": {Now: 3, Max: 3}, "beta": {Now: 2, Max: 2}},
		}, now)
		w.release("k-0", 1)
		<-answers
		require.NoError(w, w.Reset(w.ctx))
		w.release("*", 4)
		for range 4 {
			<-answers
		}
		now, err = w.Concurrency(w.ctx)
		require.NoError(w, err)
		require.Equal(w, provider.Gauge{Now: 0, Max: 4}, now.Gauge, "the maximum starts again from what is in hand")
	})
}

func TestLedger(t *testing.T) {
	both(t, func(w *world) {
		w.inject(provider.Fault{Key: "k", Kind: provider.After})
		w.post(w.ctx, "k", euros, "X-Tenant: acme")
		w.post(w.ctx, "other", euros)
		entries, err := w.Ledger(w.ctx, "k")
		require.NoError(w, err)
		require.Len(w, entries, 3)
		for i, event := range []provider.Event{provider.EventRequest, provider.EventEffect, provider.EventFinish} {
			e := entries[i]
			require.Equal(w, event, e.Event)
			require.Equal(w, int64(i+1), e.Seq)
			require.Equal(w, entries[0].Request, e.Request)
			require.Equal(w, []string{"k", "acme", "POST", "/charges"}, []string{e.Key, e.Tenant, e.Method, e.Path})
			require.Equal(w, provider.After, e.Fault)
			require.Equal(w, "fault_1", e.FaultID)
			require.Equal(w, "sha256:cc4d9f720c2753fb36eb4c6fc4d5b44d9ea4845d71cf1fbfe2cd4da669f98555", e.PayloadHash)
			require.True(w, strings.HasPrefix(e.Remote, "127.0.0.1:"), e.Remote)
		}
		require.Equal(w, "ch_1", entries[1].Effect)
		require.True(w, entries[2].Started.Equal(entries[0].Time))
		require.False(w, entries[2].Time.Before(entries[1].Time))

		require.NoError(w, w.Reset(w.ctx))
		w.counted("*", provider.Counts{})
		require.Equal(w, "ch_3", w.post(w.ctx, "k", euros).charge(t).ID, "the key is forgotten, ids go on")
		w.counted("k", provider.Counts{Requests: 1, Effects: 1, Finished: 1})
	})
}

// What a killed provider leaves behind says the same as the provider did.
func TestLedgerFile(t *testing.T) {
	var file bytes.Buffer // written under the provider's lock, read when it is idle
	w := start(t, provider.Options{Ledger: &file})
	w.post(w.ctx, "before", euros)
	require.NoError(t, w.Reset(w.ctx))
	w.inject(provider.Fault{Key: "k", Kind: provider.After})
	w.post(w.ctx, "k", euros)
	w.post(w.ctx, "k", euros)
	w.get("/charges?key=k")

	file.WriteString(`{"seq":99,"event":"eff`) // killed in mid-line
	entries, err := provider.ReadLedger(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	have, err := w.Effects(w.ctx, "*")
	require.NoError(t, err)
	require.Equal(t, have, provider.Tally(entries, "*"))
	require.Equal(t, 1, have.Effects)

	_, err = provider.ReadLedger(strings.NewReader("{}\nnonsense\n{}\n"))
	require.ErrorContains(t, err, "line 2")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestLedgerFileFails(t *testing.T) {
	server := provider.New(provider.Options{Ledger: fullDisk{}})
	require.NoError(t, server.Reset(t.Context()))
	require.ErrorContains(t, server.Close(), "disk full")
}

func TestLedgerLimit(t *testing.T) {
	w := start(t, provider.Options{LedgerLimit: 6})
	for i := range 3 {
		w.post(w.ctx, fmt.Sprint(i), euros)
	}
	for _, witness := range []provider.Witness{w.server, &provider.Client{URL: w.url}} {
		entries, err := witness.Ledger(w.ctx, "*")
		require.ErrorIs(t, err, provider.ErrDropped)
		require.Len(t, entries, 3)
		require.Equal(t, int64(9), entries[2].Seq)
		have, err := witness.Effects(w.ctx, "*")
		require.NoError(t, err)
		require.Equal(t, 3, have.Effects)
	}
}

// A witness that cannot be asked has not seen nothing.
func TestDeadProvider(t *testing.T) {
	w := start(t, provider.Options{})
	client := &provider.Client{URL: w.url}
	require.NoError(t, w.server.Close())
	_, err := client.Effects(w.ctx, "k")
	require.Error(t, err)
	require.Error(t, client.WaitFor(w.ctx, "k", provider.Counts{Effects: 1}))
	require.ErrorIs(t, w.server.WaitFor(w.ctx, "k", provider.Counts{Effects: 1}), provider.ErrClosed)
	_, err = w.server.Listen("127.0.0.1:0")
	require.ErrorIs(t, err, provider.ErrClosed)
	require.Error(t, (&provider.Client{URL: "http://127.0.0.1:0", HTTP: http.DefaultClient}).Reset(w.ctx))
}
