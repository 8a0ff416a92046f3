package provider_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/testsuite/provider"
)

func TestCloseEndsWhateverHangs(t *testing.T) {
	w := start(t, provider.Options{})
	kinds := []provider.Kind{provider.Hang, provider.HangBefore, provider.Late, provider.Drip, provider.Slow}
	answers := make(chan got, len(kinds)+1)
	for i, kind := range kinds {
		f := provider.Fault{Key: fmt.Sprint(i), Kind: kind}
		if kind == provider.Slow {
			f.Delay = provider.Duration(time.Hour)
		}
		w.inject(f)
		go func() { answers <- w.post(w.ctx, f.Key, euros) }()
	}
	w.wait("*", provider.Counts{Requests: len(kinds), Effects: 2})
	require.Eventually(t, func() bool { // all of them hang, none is only on its way
		faults, err := w.Faults(w.ctx)
		delivered := 0
		for _, f := range faults {
			delivered += f.Delivered
		}
		return err == nil && delivered == len(kinds)
	}, 10*time.Second, time.Millisecond)
	go func() { answers <- w.get("/admin/wait?key=never&requests=1") }()

	require.NoError(t, w.server.Close())
	for range len(kinds) + 1 {
		answer := <-answers
		require.True(t, answer.err != nil || answer.status == http.StatusServiceUnavailable, "%+v", answer)
	}
	w.counted("*", provider.Counts{Requests: len(kinds), Effects: 2, Finished: len(kinds)})
	require.NoError(t, w.server.Close(), "twice is once")
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		text := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(text, "provider.(*Server).")
	}, 10*time.Second, time.Millisecond, "no goroutine of the provider is left")
}

// Mounted in somebody else's server, and without a connection to break.
func TestAsHandler(t *testing.T) {
	server := provider.New(provider.Options{})
	front := httptest.NewServer(server)
	defer front.Close()
	answer, err := http.Post(front.URL+"/charges?key=k", "application/json", strings.NewReader(euros))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusCreated, answer.StatusCode)

	_, err = server.Inject(t.Context(), provider.Fault{Key: "*", Kind: provider.After})
	require.NoError(t, err)
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/charges?key=k", strings.NewReader(euros)))
	})
	have, err := server.Effects(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, 2, have.Effects)

	require.NoError(t, server.Close())
	closed := httptest.NewRecorder()
	server.ServeHTTP(closed, httptest.NewRequest("GET", "/read", nil))
	require.Equal(t, http.StatusServiceUnavailable, closed.Code)
}

func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	urls, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- provider.Serve(ctx, "127.0.0.1:0", provider.Options{}, func(url string) { urls <- url })
	}()
	client := &provider.Client{URL: <-urls}
	require.NoError(t, client.Reset(ctx))
	stop()
	require.NoError(t, <-ended)

	require.Error(t, provider.Serve(t.Context(), "127.0.0.1:none", provider.Options{}, nil))
	require.Error(t, provider.Serve(t.Context(), "127.0.0.1:0", provider.Options{Behaviour: provider.Behaviour{Keys: "?"}}, nil))
}
