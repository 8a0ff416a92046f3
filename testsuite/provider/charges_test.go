package provider_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/provider"
)

func TestReplayAndMismatch(t *testing.T) {
	both(t, func(w *world) {
		first := w.post(w.ctx, "k", euros)
		require.Equal(w, http.StatusCreated, first.status)
		require.JSONEq(w, `{"id":"ch_1","key":"k","state":"captured","amount":1200}`, first.body)
		require.Empty(w, first.header.Get("Idempotent-Replayed"))

		again := w.post(w.ctx, `"k"`, euros) // quoted, as the draft has it
		require.Equal(w, http.StatusOK, again.status)
		require.Equal(w, "true", again.header.Get("Idempotent-Replayed"))
		require.Equal(w, first.body, again.body)

		require.Equal(w, http.StatusUnprocessableEntity, w.post(w.ctx, "k", `{"amount":1201}`).status)
		w.counted("k", provider.Counts{Requests: 3, Effects: 1, Replays: 1, Finished: 3})
	})
}

func TestKeyInFlight(t *testing.T) {
	both(t, func(w *world) {
		w.inject(provider.Fault{Key: "k", Kind: provider.HangBefore})
		first := w.later(func() got { return w.post(w.ctx, "k", euros) })
		w.wait("k", provider.Counts{Requests: 1})
		require.Equal(w, http.StatusConflict, w.post(w.ctx, "k", euros).status)
		require.Equal(w, http.StatusUnprocessableEntity, w.post(w.ctx, "k", `{}`).status)
		w.release("k", 1)
		require.Equal(w, http.StatusCreated, (<-first).status)
		require.Equal(w, http.StatusOK, w.post(w.ctx, "k", euros).status)
		w.counted("k", provider.Counts{Requests: 4, Effects: 1, Replays: 1, Finished: 4})

		// Once the effect is made the key is settled, even if the answer hangs.
		w.inject(provider.Fault{Key: "h", Kind: provider.Hang})
		hanging := w.later(func() got { return w.post(w.ctx, "h", euros) })
		w.wait("h", provider.Counts{Effects: 1})
		require.Equal(w, http.StatusOK, w.post(w.ctx, "h", euros).status)
		w.release("h", 1)
		require.Equal(w, http.StatusCreated, (<-hanging).status)
	})
}

func TestOneEffectOfManyAtOnce(t *testing.T) {
	w := start(t, provider.Options{})
	const n = 32
	answers := make(chan got, n)
	for range n {
		go func() { answers <- w.post(w.ctx, "k", euros) }()
	}
	seen := map[int]int{}
	for range n {
		seen[(<-answers).status]++
	}
	require.Equal(t, 1, seen[201])
	require.Equal(t, n-1, seen[200]+seen[409], seen)
	w.counted("k", provider.Counts{Requests: n, Effects: 1, Replays: seen[200], Finished: n})
}

func TestKeyModes(t *testing.T) {
	both(t, func(w *world) {
		require.NoError(w, w.Configure(w.ctx, provider.Behaviour{Keys: provider.KeysIgnored}))
		for _, id := range []string{"ch_1", "ch_2"} {
			require.Equal(w, id, w.post(w.ctx, "k", euros).charge(t).ID)
		}
		require.NoError(w, w.Configure(w.ctx, provider.Behaviour{Keys: provider.KeysRequired}))
		require.Equal(w, http.StatusBadRequest, w.post(w.ctx, "", euros).status)
		require.Equal(w, http.StatusCreated, w.post(w.ctx, "k", euros).status)
		require.Equal(w, http.StatusOK, w.post(w.ctx, "k", euros).status)
		w.counted("k", provider.Counts{Requests: 4, Effects: 3, Replays: 1, Finished: 4})
		w.counted("", provider.Counts{Requests: 5, Effects: 3, Replays: 1, Finished: 5})

		require.Error(w, w.Configure(w.ctx, provider.Behaviour{Keys: "sometimes"}))
		require.Error(w, w.Configure(w.ctx, provider.Behaviour{LookupLag: -1}))
	})
}

func TestWindowCloses(t *testing.T) {
	both(t, func(w *world) {
		require.NoError(w, w.Configure(w.ctx, provider.Behaviour{KeyWindow: provider.Duration(time.Hour)}))
		require.Equal(w, http.StatusCreated, w.post(w.ctx, "k", euros).status)
		require.Equal(w, http.StatusOK, w.post(w.ctx, "k", euros).status)
		require.NoError(w, w.Configure(w.ctx, provider.Behaviour{KeyWindow: 1}))
		require.Equal(w, http.StatusCreated, w.post(w.ctx, "k", euros).status)
		w.counted("k", provider.Counts{Requests: 3, Effects: 2, Replays: 1, Finished: 3})
	})
}

func TestErrorsUnderAKey(t *testing.T) {
	for name, cached := range map[string]bool{"forgotten": false, "cached": true} {
		t.Run(name, func(t *testing.T) {
			both(t, func(w *world) {
				require.NoError(w, w.Configure(w.ctx, provider.Behaviour{CacheErrors: cached}))
				w.inject(provider.Fault{Key: "k", Kind: provider.Status, Status: 500})
				require.Equal(w, 500, w.post(w.ctx, "k", euros).status)
				again := w.post(w.ctx, "k", euros)
				if !cached {
					require.Equal(w, http.StatusCreated, again.status)
					w.counted("k", provider.Counts{Requests: 2, Effects: 1, Finished: 2})
					return
				}
				require.Equal(w, 500, again.status)
				require.Equal(w, "true", again.header.Get("Idempotent-Replayed"))
				w.counted("k", provider.Counts{Requests: 2, Replays: 1, Finished: 2})
			})
		})
	}
}

// Only Idempotency-Key deduplicates; the others say what to count under.
func TestWhereTheKeyIs(t *testing.T) {
	both(t, func(w *world) {
		body := `{"amount":1,"key":"in-body","tenant":"acme"}`
		for want, send := range map[string]func() got{
			"in-idempotency": func() got { return w.post(w.ctx, "in-idempotency", body, "X-Request-Key: in-header") },
			"in-header":      func() got { return w.send(w.ctx, "POST", "/charges?key=in-query", body, "X-Request-Key: in-header") },
			"in-query":       func() got { return w.send(w.ctx, "POST", "/charges?key=in-query", body) },
			"in-body":        func() got { return w.send(w.ctx, "POST", "/charges", body) },
		} {
			require.Equal(w, want, send().charge(t).Key)
			send()
			effects := 2
			if want == "in-idempotency" {
				effects = 1
			}
			w.counted(want, provider.Counts{Requests: 2, Effects: effects, Replays: 2 - effects, Finished: 2})
		}
		require.Equal(w, "7", w.post(w.ctx, "", `{"key":7}`).charge(t).Key)
		require.Empty(w, w.post(w.ctx, "", `{}`).charge(t).Key)
	})
}

func TestMalformed(t *testing.T) {
	both(t, func(w *world) {
		w.inject(provider.Fault{Key: "*", Kind: provider.Status, Status: 500})
		for body, want := range map[string]int{
			"": 400, "[1]": 400, "null": 400, `{"a":`: 400,
			`{"a":"` + strings.Repeat("x", 1<<20) + `"}`: 413,
		} {
			require.Equal(w, want, w.post(w.ctx, "k", body).status)
		}
		require.Equal(w, 400, w.post(w.ctx, strings.Repeat("k", 256), euros).status)
		w.counted("k", provider.Counts{Requests: 5, Finished: 5})
		require.Equal(w, 500, w.post(w.ctx, "k", euros).status, "the fault waits for a good request")
	})
}

func TestLookup(t *testing.T) {
	both(t, func(w *world) {
		require.Equal(w, http.StatusNotFound, w.get("/charges?key=k").status)
		for range 2 {
			w.post(w.ctx, "", euros, "X-Request-Key: k")
		}
		found := w.get("/charges?key=k")
		require.Equal(w, http.StatusOK, found.status)
		require.JSONEq(w, `{"id":"ch_1","key":"k","state":"captured","amount":1200,"count":2}`, found.body)

		// The same effects, seen by a provider whose look-ups lag.
		require.NoError(w, w.Configure(w.ctx, provider.Behaviour{LookupLag: provider.Duration(time.Hour)}))
		require.Equal(w, http.StatusNotFound, w.get("/charges?key=k").status)
		require.JSONEq(w, `{"charges":[]}`, w.get("/charges").body)
		require.NoError(w, w.Configure(w.ctx, provider.Behaviour{LookupLag: 1}))
		require.Equal(w, http.StatusOK, w.get("/charges?key=k").status)
		w.counted("k", provider.Counts{Requests: 2, Effects: 2, Finished: 2, Lookups: 4})
	})
}

func TestList(t *testing.T) {
	both(t, func(w *world) {
		for _, key := range []string{"a-1", "b-1", "a-2", "a-3"} {
			w.post(w.ctx, key, euros)
		}
		list := func(query string) (keys []string, next string) {
			var page struct {
				Charges []provider.Charge
				Next    string
			}
			answer := w.get("/charges" + query)
			require.Equal(w, http.StatusOK, answer.status)
			require.NoError(w, json.Unmarshal([]byte(answer.body), &page))
			for _, c := range page.Charges {
				keys = append(keys, c.Key)
			}
			return keys, page.Next
		}
		keys, next := list("")
		require.Equal(w, []string{"a-1", "b-1", "a-2", "a-3"}, keys)
		require.Empty(w, next)
		keys, next = list("?prefix=a-&limit=2")
		require.Equal(w, []string{"a-1", "a-2"}, keys)
		keys, last := list("?prefix=a-&limit=2&after=" + next)
		require.Equal(w, []string{"a-3"}, keys)
		require.Empty(w, last)
		require.Equal(w, 400, w.get("/charges?limit=0").status)
		require.Equal(w, 400, w.get("/charges?after=x").status)
	})
}
