package activities

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

// pipes is a listener whose connections live in memory, so that they take part
// in the time of a test.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	open  sync.WaitGroup // ends of connections
}

// end is one end of a connection; TLS closes it some time after it is closed.
type end struct {
	net.Conn
	closed func()
}

func (e *end) Close() error {
	defer e.closed()
	return e.Conn.Close()
}

// SetWriteDeadline is called by TLS before it says goodbye. A pipe has no buffer
// for that, and both ends would wait with their locks held.
func (e *end) SetWriteDeadline(time.Time) error { return e.Conn.SetWriteDeadline(time.Now()) }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.open.Add(2)
	select {
	case p.conns <- &end{theirs, sync.OnceFunc(p.open.Done)}:
		return &end{ours, sync.OnceFunc(p.open.Done)}, nil
	case <-ctx.Done():
		p.open.Add(-2)
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func httpOperation(url string) contract.Operation {
	return contract.Operation{Name: "charge", Type: HTTPType, Timeout: contract.Duration(testTimeout), Heartbeat: contract.Duration(testHeartbeat),
		Request: &contract.HTTPRequest{Method: http.MethodPost, URL: url, IdempotencyHeader: "Idempotency-Key", Reference: "body.id"}}
}

func httpWorld(t *testing.T) *world { return worldOver(t, "http", nil) }

// httpsWorld takes the certificate for example.com of a test server.
func httpsWorld(cert *httptest.Server) func(t *testing.T) *world {
	return func(t *testing.T) *world { return worldOver(t, "https", cert) }
}

func worldOver(t *testing.T, scheme string, cert *httptest.Server) *world {
	w := newWorld(httpOperation(scheme+"://example.com/charges"), `{"amount":1200}`)
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	provider := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"amount":1200}` || r.Header.Get("Idempotency-Key") != w.input.ProviderKey {
			t.Errorf("got body %s and key %s", body, r.Header.Get("Idempotency-Key"))
		}
		if w.act(r.Context()) == nil {
			_, _ = fmt.Fprint(rw, `{"id":"ch_1"}`)
		}
	})}
	h := &HTTP{Dial: listener.dial}
	w.kind = h
	if cert != nil {
		h.TLS = cert.Client().Transport.(*http.Transport).TLSClientConfig
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if cert != nil {
			_ = provider.Serve(tls.NewListener(listener, cert.TLS))
			return
		}
		_ = provider.Serve(listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, provider.Close())
		<-served
		listener.open.Wait()
	})
	return w
}
