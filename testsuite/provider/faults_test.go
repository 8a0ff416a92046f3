package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/provider"
)

func TestBeforeAndAfter(t *testing.T) {
	for kind, effects := range map[provider.Kind]int{provider.Before: 0, provider.After: 1} {
		t.Run(string(kind), func(t *testing.T) {
			both(t, func(w *world) {
				w.inject(provider.Fault{Key: "k", Kind: kind})
				require.Error(w, w.post(w.ctx, "k", euros).err)
				w.counted("k", provider.Counts{Requests: 1, Effects: effects, Finished: 1})
				require.Zero(w, w.lastStatus("k"))

				again := w.post(w.ctx, "k", euros) // healthy now: made, or replayed
				require.Equal(w, 201-effects, again.status)
				w.counted("k", provider.Counts{Requests: 2, Effects: 1, Finished: 2, Replays: effects})
			})
		})
	}
}

func TestHangIsReleased(t *testing.T) {
	for kind, effects := range map[provider.Kind]int{provider.Hang: 1, provider.HangBefore: 0, provider.Late: 0} {
		t.Run(string(kind), func(t *testing.T) {
			both(t, func(w *world) {
				w.inject(provider.Fault{Key: "k", Kind: kind})
				answer := w.later(func() got { return w.post(w.ctx, "k", euros) })
				w.wait("k", provider.Counts{Requests: 1, Effects: effects})
				w.counted("k", provider.Counts{Requests: 1, Effects: effects})
				w.release("other", 0)
				w.release("k", 1)
				require.Equal(w, http.StatusCreated, (<-answer).status)
				w.counted("k", provider.Counts{Requests: 1, Effects: 1, Finished: 1})
				w.release("k", 0)
			})
		})
	}
}

// A client that gives up: what was made stays, what was to come does not, except
// a late one.
func TestHangIsLeft(t *testing.T) {
	for kind, effects := range map[provider.Kind]int{provider.Hang: 1, provider.HangBefore: 0, provider.Slow: 0} {
		t.Run(string(kind), func(t *testing.T) {
			both(t, func(w *world) {
				f := provider.Fault{Key: "k", Kind: kind}
				if kind == provider.Slow {
					f.Delay = provider.Duration(time.Hour)
				}
				w.inject(f)
				ctx, leave := context.WithCancel(w.ctx)
				answer := w.later(func() got { return w.post(ctx, "k", euros) })
				w.wait("k", provider.Counts{Requests: 1, Effects: effects})
				leave()
				require.ErrorIs(w, (<-answer).err, context.Canceled)
				w.wait("k", provider.Counts{Finished: 1})
				w.counted("k", provider.Counts{Requests: 1, Effects: effects, Finished: 1})
				require.Zero(w, w.lastStatus("k"))
				w.release("k", 0)
			})
		})
	}
}

// The zombie: its client has gone, the rerun was faster. With a key the provider
// makes one effect of two sends, without it two.
func TestLateEffect(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		counts provider.Counts
	}{
		"keyed":   {"Idempotency-Key: k", provider.Counts{Requests: 2, Effects: 1, Replays: 1, Finished: 2}},
		"unkeyed": {"X-Request-Key: k", provider.Counts{Requests: 2, Effects: 2, Finished: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(w *world) {
				w.inject(provider.Fault{Key: "k", Kind: provider.Late})
				ctx, leave := context.WithCancel(w.ctx)
				zombie := w.later(func() got { return w.post(ctx, "", euros, c.header) })
				w.wait("k", provider.Counts{Requests: 1})
				leave()
				require.Error(w, (<-zombie).err)
				w.counted("k", provider.Counts{Requests: 1})

				require.Equal(w, http.StatusCreated, w.post(w.ctx, "", euros, c.header).status)
				w.release("k", 1)
				w.wait("k", provider.Counts{Finished: 2})
				w.counted("k", c.counts)
			})
		})
	}
}

func TestSlow(t *testing.T) {
	both(t, func(w *world) {
		const delay = 20 * time.Millisecond
		w.inject(provider.Fault{Key: "k", Kind: provider.Slow, Delay: provider.Duration(delay)})
		begun := time.Now()
		require.Equal(w, http.StatusCreated, w.post(w.ctx, "k", euros).status)
		require.GreaterOrEqual(w, time.Since(begun), delay)
		w.counted("k", provider.Counts{Requests: 1, Effects: 1, Finished: 1})

		hour := provider.Duration(time.Hour)
		w.inject(provider.Fault{Key: "early", Kind: provider.Slow, Delay: hour, Commit: true})
		w.inject(provider.Fault{Key: "end", Kind: provider.Slow, Delay: hour})
		early := w.later(func() got { return w.post(w.ctx, "early", euros) })
		end := w.later(func() got { return w.post(w.ctx, "end", euros) })
		w.wait("early", provider.Counts{Effects: 1})
		w.wait("end", provider.Counts{Requests: 1})
		w.counted("end", provider.Counts{Requests: 1})
		w.release("e*", 2)
		require.Equal(w, http.StatusCreated, (<-early).status)
		require.Equal(w, http.StatusCreated, (<-end).status)
		w.counted("e*", provider.Counts{Requests: 2, Effects: 2, Finished: 2})
	})
}

func TestStatus(t *testing.T) {
	both(t, func(w *world) {
		for _, status := range []int{400, 401, 402, 403, 422, 429, 500, 503} {
			w.inject(provider.Fault{Key: "k", Kind: provider.Status, Status: status, RetryAfter: "1e12"})
			refused := w.post(w.ctx, "k", euros)
			require.Equal(w, status, refused.status)
			require.Equal(w, "1e12", refused.header.Get("Retry-After"))
			require.Equal(w, "application/problem+json", refused.header.Get("Content-Type"))
			require.Equal(w, status, w.lastStatus("k"))
		}
		w.counted("k", provider.Counts{Requests: 8, Finished: 8})

		w.inject(provider.Fault{Key: "k", Kind: provider.Status, Status: 500, Commit: true})
		lied := w.post(w.ctx, "k", euros)
		require.Equal(w, 500, lied.status)
		require.Empty(w, lied.header.Get("Retry-After"))
		w.counted("k", provider.Counts{Requests: 9, Effects: 1, Finished: 9})
	})
}

func TestGarbage(t *testing.T) {
	both(t, func(w *world) {
		w.inject(provider.Fault{Key: "k", Kind: provider.Garbage})
		answer := w.post(w.ctx, "k", euros)
		require.NoError(w, answer.err)
		require.Equal(w, http.StatusCreated, answer.status)
		require.NotEmpty(w, answer.body)
		require.NotContains(w, answer.body, "}")
		w.counted("k", provider.Counts{Requests: 1, Effects: 1, Finished: 1})
	})
}

func TestDrip(t *testing.T) {
	both(t, func(w *world) {
		w.inject(provider.Fault{Key: "k", Kind: provider.Drip, Times: 2})
		request := must(http.NewRequestWithContext(w.ctx, "POST", w.url+"/charges?key=k", strings.NewReader(euros)))
		answer := must(caller.Do(request)) // returns with the head alone
		defer answer.Body.Close()
		require.Equal(w, http.StatusCreated, answer.StatusCode)
		first := make([]byte, 10)
		require.Equal(w, 1, must(answer.Body.Read(first)))
		w.counted("k", provider.Counts{Requests: 1, Effects: 1})
		w.release("k", 1)
		require.JSONEq(w, `{"id":"ch_1","key":"k","state":"captured","amount":1200}`, "{"+string(must(io.ReadAll(answer.Body))))
		w.counted("k", provider.Counts{Requests: 1, Effects: 1, Finished: 1})

		left := must(caller.Do(must(http.NewRequestWithContext(w.ctx, "POST", w.url+"/charges?key=k", strings.NewReader(euros)))))
		require.NoError(w, left.Body.Close())
		w.wait("k", provider.Counts{Finished: 2})
		require.Zero(w, w.lastStatus("k"))

		w.inject(provider.Fault{Key: "paced", Kind: provider.Drip, Delay: provider.Duration(8 * time.Millisecond)})
		require.Equal(w, "paced", w.post(w.ctx, "paced", euros).charge(t).Key)
	})
}

func TestOtherEndpoints(t *testing.T) {
	both(t, func(w *world) {
		require.Equal(w, http.StatusCreated, w.post(w.ctx, "k", euros).status)
		for endpoint, path := range map[provider.Endpoint]string{
			provider.OnLookup: "/charges?key=k", provider.OnList: "/charges", provider.OnRead: "/read?key=k",
		} {
			w.inject(provider.Fault{Key: "*", On: endpoint, Kind: provider.Status, Status: 403})
			w.inject(provider.Fault{Key: "*", On: endpoint, Kind: provider.Before})
			w.inject(provider.Fault{Key: "*", On: endpoint, Kind: provider.Hang})
			require.Equal(w, 403, w.get(path).status)
			require.Error(w, w.get(path).err)
			ctx, leave := context.WithCancel(w.ctx)
			hanging := w.later(func() got { return w.send(ctx, "GET", path, "") })
			require.Eventually(w, func() bool { // the third of the three
				faults, err := w.Faults(w.ctx)
				return err == nil && !faults[len(faults)-1].Undelivered()
			}, 10*time.Second, time.Millisecond)
			leave()
			require.Error(w, (<-hanging).err)
			require.Equal(w, http.StatusOK, w.get(path).status)
		}
		w.counted("k", provider.Counts{Requests: 1, Effects: 1, Finished: 1, Lookups: 4, Reads: 4})
		w.counted("*", provider.Counts{Requests: 1, Effects: 1, Finished: 1, Lookups: 8, Reads: 4})
	})
}

func TestNarrowestFaultFirst(t *testing.T) {
	both(t, func(w *world) {
		status := func(key string, times, status int) {
			w.inject(provider.Fault{Key: key, Kind: provider.Status, Times: times, Status: status})
		}
		status("*", -1, 500)
		status("inv-*", 1, 501)
		status("inv-1", 2, 502)
		status("inv-1", 1, 503)
		for _, want := range []int{502, 502, 503, 501, 500, 500} {
			require.Equal(w, want, w.post(w.ctx, "inv-1", euros).status)
		}
		require.Equal(w, 500, w.post(w.ctx, "", euros).status)

		before, err := w.ClearFaults(w.ctx)
		require.NoError(w, err)
		require.Len(w, before, 4)
		require.Equal(w, 3, before[0].Delivered)
		require.Equal(w, http.StatusCreated, w.post(w.ctx, "inv-1", euros).status)
	})
}

func TestUndelivered(t *testing.T) {
	both(t, func(w *world) {
		report, err := w.Inject(w.ctx, provider.Fault{Key: "k", Kind: provider.Before, Times: 2})
		require.NoError(w, err)
		require.Equal(w, provider.FaultReport{ID: "fault_1", Fault: provider.Fault{Key: "k", Kind: provider.Before, On: provider.OnCharge, Times: 2}}, report)
		for range 2 {
			faults, err := w.Faults(w.ctx)
			require.NoError(w, err)
			require.True(w, faults[0].Undelivered())
			require.Error(w, w.post(w.ctx, "k", euros).err)
		}
		faults, err := w.Faults(w.ctx)
		require.NoError(w, err)
		require.False(w, faults[0].Undelivered())
		require.Equal(w, 2, faults[0].Delivered)

		require.True(w, provider.FaultReport{Fault: provider.Fault{Times: -1}}.Undelivered())
	})
}

func TestImpossibleFaults(t *testing.T) {
	both(t, func(w *world) {
		for want, f := range map[string]provider.Fault{
			"no key":           {Kind: provider.Before},
			"unknown kind":     {Key: "k", Kind: "explode"},
			"unknown endpoint": {Key: "k", Kind: provider.Before, On: "refund"},
			"times -2":         {Key: "k", Kind: provider.Before, Times: -2},
			"slow with delay":  {Key: "k", Kind: provider.Slow},
			"knows no delay":   {Key: "k", Kind: provider.Hang, Delay: 1},
			"status 0":         {Key: "k", Kind: provider.Status},
			"knows no status":  {Key: "k", Kind: provider.After, Status: 500},
			"knows no commit":  {Key: "k", Kind: provider.Before, Commit: true},
			"no key\n":         {Key: "k", Kind: provider.Before, On: provider.OnList},
		} {
			_, err := w.Inject(w.ctx, f)
			require.ErrorContains(w, err, strings.TrimSpace(want))
		}
		require.Equal(w, 400, w.send(w.ctx, "POST", "/admin/faults", `{"key":"k","kind":"before","tiems":3}`).status)
		require.Equal(w, 400, w.send(w.ctx, "POST", "/admin/faults", `{"key":"k","kind":"before"} {}`).status)
	})
}

// A trap for every client of a provider: net/http takes a request with an
// Idempotency-Key for safe to repeat, and does so when a used connection breaks.
// One request of the caller, two on the wire; without GetBody it cannot.
func TestTheTransportRepeatsKeyedRequests(t *testing.T) {
	for name, c := range map[string]struct {
		forget   bool
		requests int
	}{"as it is": {false, 3}, "without GetBody": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			w := start(t, provider.Options{})
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			send := func() error {
				request := must(http.NewRequestWithContext(w.ctx, "POST", w.url+"/charges", strings.NewReader(euros)))
				request.Header.Set("Idempotency-Key", "k")
				if c.forget {
					request.GetBody = nil
				}
				answer, err := client.Do(request)
				if err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
					err = errors.Join(err, answer.Body.Close())
				}
				return err
			}
			require.NoError(t, send())
			w.inject(provider.Fault{Key: "k", Kind: provider.After})
			require.Equal(t, c.forget, send() != nil)
			have, err := w.Effects(w.ctx, "k")
			require.NoError(t, err)
			require.Equal(t, c.requests, have.Requests)
		})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
