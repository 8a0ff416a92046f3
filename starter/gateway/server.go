package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

const (
	headerLimit = 16 << 10
	// bodyTimeout bounds the reading of one request.
	bodyTimeout = 15 * time.Second
	// answerTimeout bounds one answer: the longest long poll, and what an answer
	// takes otherwise.
	answerTimeout = maxWait + 3*readTimeout
	idleTimeout   = 2 * time.Minute
	// drainTimeout is what open requests get when the server stops.
	drainTimeout = 5 * time.Second
)

// Serve answers on a listener until the context ends, then lets open requests
// finish for a few seconds. Long polls are cut short by the end of ctx.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *zap.Logger) error {
	polls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerLimit,
		ErrorLog:          zap.NewStdLog(log),
		BaseContext:       func(net.Listener) context.Context { return polls },
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		cut()
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		stopped <- server.Shutdown(deadline)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP on %s: %w", listener.Addr(), err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stopping the HTTP server: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// serve makes a handler of ours one of net/http's, for those who may call it.
func (g *Gateway) serve(n needs, h handler) http.Handler {
	h = g.authorize(n, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			g.fail(w, r, err)
		}
	})
}

// guard is around every route: no browser of another site, no crash, no caching
// and no guessing of content types.
func (g *Gateway) guard(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		seen := &recorder{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				g.log.Error("handler panicked", zap.String("method", r.Method), zap.String("route", r.Pattern), zap.Any("panic", p), zap.Stack("stack"))
				if seen.status == 0 {
					g.fail(seen, r, refuse("internal", "the gateway could not answer; the log has the cause"))
				}
			}
			g.counters.answered(r, seen.status, time.Since(begun))
			if line := g.log.Check(zap.DebugLevel, "request"); line != nil {
				line.Write(zap.String("method", r.Method), zap.String("route", r.Pattern),
					zap.Int("status", seen.status), zap.Duration("took", time.Since(begun)))
			}
		}()
		harden(w.Header(), r.TLS != nil)
		if err := foreign.Check(r); err != nil {
			g.fail(seen, r, refuse("cross_origin", "a browser sent this request for another site").because(err))
			return
		}
		next.ServeHTTP(seen, r)
	})
}

// harden says of an answer that it is data for the one who asked: it is not
// stored, framed, run, or read by a page of another site.
func harden(h http.Header, secure bool) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	if secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
