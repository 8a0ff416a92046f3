package activities

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// loopback is the network of tests: the providers are on this machine.
var loopback = Network{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}

func local() *HTTP { return &HTTP{Network: loopback} }

func httpOperation(url string) contract.Operation {
	return contract.Operation{Name: "charge", Type: HTTPType, Timeout: contract.Duration(testTimeout), Heartbeat: contract.Duration(testHeartbeat),
		Request: &contract.HTTPRequest{Method: http.MethodPost, URL: url, IdempotencyHeader: "Idempotency-Key", Reference: "body.id"}}
}

func openGuard() *Guard { return &Guard{now: time.Now, sendBy: time.Now().Add(time.Hour)} }

// send prepares and makes one effect. within bounds the effect.
func send(t *testing.T, h *HTTP, in contract.EffectInput, guard *Guard, within time.Duration) contract.Outcome {
	t.Helper()
	prepared, err := h.Prepare(t.Context(), in)
	require.NoError(t, err)
	defer func() { require.NoError(t, prepared.(io.Closer).Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return prepared.Effect(ctx, guard)
}

func charge(url string, change ...func(r *contract.HTTPRequest)) contract.EffectInput {
	op := httpOperation(url)
	for _, c := range change {
		c(op.Request)
	}
	return testInput(op, `{"amount":1200}`)
}

// raw is a provider below HTTP. Each connection is read as one request, counted,
// and then handed to answer with what was read.
type raw struct {
	net.Listener
	conns, requests, bytes atomic.Int64
	served                 sync.WaitGroup
}

func newRaw(t *testing.T, answer func(c *net.TCPConn, r *http.Request)) *raw {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &raw{Listener: l}
	s.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.served.Go(func() {
				defer func() { _ = c.Close() }()
				r, err := http.ReadRequest(bufio.NewReader(counting{c, &s.bytes}))
				if err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					s.requests.Add(1)
					answer(c.(*net.TCPConn), r)
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); s.served.Wait() })
	return s
}

func (s *raw) url() string { return "http://" + s.Addr().String() + "/charges" }

type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// quietTLS does not log the handshakes that are meant to fail.
func quietTLS(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	return s
}

func TestNotReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	untrusted := quietTLS(nil)
	defer untrusted.Close()
	noTLS := newRaw(t, func(*net.TCPConn, *http.Request) {})
	for name, url := range map[string]string{
		"refused":       "http://" + closed.Addr().String(),
		"not trusted":   untrusted.URL,
		"no TLS at all": "https://" + noTLS.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := local().Prepare(t.Context(), charge(url))
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, admission.NotDispatched, refusal.Class)
			require.Equal(t, "connection_failed", refusal.Reason)
		})
	}
}

// Whatever becomes of the connection: one connection, one request.
func TestBrokenExchanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(c *net.TCPConn, r *http.Request)
		reason string
		status int
	}{
		{"reset after the request", func(c *net.TCPConn, _ *http.Request) { _ = c.SetLinger(0) }, "no_answer", 0},
		{"closed after the request", func(*net.TCPConn, *http.Request) {}, "no_answer", 0},
		{"hangs", func(c *net.TCPConn, _ *http.Request) { _, _ = io.Copy(io.Discard, c) }, "no_answer", 0},
		{"not HTTP", func(c *net.TCPConn, _ *http.Request) { _, _ = io.WriteString(c, "hello\r\n\r\n") }, "no_answer", 0},
		{"endless header", func(c *net.TCPConn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := range 10_000 {
				if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("x", 100)); err != nil {
					return
				}
			}
		}, "no_answer", 0},
		{"reset in the body", func(c *net.TCPConn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\"")
		}, "unexpected_answer", 200},
		{"another protocol", func(c *net.TCPConn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, "unexpected_answer", 101},
		{"slow drip", func(c *net.TCPConn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(c, "1\r\n \r\n"); err != nil {
					return
				}
			}
		}, "unexpected_answer", 200},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			t.Run(c.name+"/"+method, func(t *testing.T) {
				s := newRaw(t, c.answer)
				o := send(t, local(), charge(s.url(), func(r *contract.HTTPRequest) { r.Method = method }), openGuard(), 300*time.Millisecond)
				require.Equal(t, admission.Unknown, o.Class, o.Detail)
				require.Equal(t, c.reason, o.Reason)
				require.Equal(t, c.status, o.Status)
				require.NotEmpty(t, o.Detail)
				require.EqualValues(t, 1, s.conns.Load(), "connections")
				require.EqualValues(t, 1, s.requests.Load(), "requests")
			})
		}
	}
}

// net/http repeats a request on its own when a reused connection dies and the
// request looks idempotent. The control shows that this provider provokes it.
func TestNoHiddenRepetition(t *testing.T) {
	provider := func() *raw {
		return newRaw(t, func(c *net.TCPConn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") // and keep the connection, it says
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				_, _ = io.Copy(io.Discard, r.Body) // a second effect, and gone
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		s := provider()
		client := &http.Client{Transport: &http.Transport{}}
		for range 2 {
			r, err := http.NewRequest(http.MethodPost, s.url(), strings.NewReader("{}"))
			require.NoError(t, err)
			r.Header.Set("Idempotency-Key", "k")
			response, err := client.Do(r)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, response.Body)
			require.NoError(t, response.Body.Close())
		}
		client.CloseIdleConnections()
		require.EqualValues(t, 2, s.conns.Load(), "the second request went out twice: on both connections")
	})
	t.Run("ours", func(t *testing.T) {
		s, h := provider(), local()
		for range 2 {
			require.Equal(t, admission.Succeeded, send(t, h, charge(s.url()), openGuard(), time.Second).Class)
		}
		require.EqualValues(t, 2, s.conns.Load())
		require.EqualValues(t, 2, s.requests.Load())
	})
	t.Run("a second connection is never made", func(t *testing.T) {
		conn := &guardedConn{}
		_, err := conn.take(t.Context(), "", "")
		require.NoError(t, err)
		_, err = conn.take(t.Context(), "", "")
		require.ErrorIs(t, err, errSent)
	})
}

func TestGuardHoldsTheFirstByte(t *testing.T) {
	late := func() *Guard { return &Guard{now: time.Now, sendBy: time.Now().Add(-time.Millisecond)} }
	fenced := func() *Guard {
		g := openGuard()
		g.close(errFenced)
		return g
	}
	spent := func() *Guard {
		g := openGuard()
		if g.MaySend() != nil {
			t.Fatal("refused the first time")
		}
		return g
	}
	for _, c := range []struct {
		name, reason string
		guard        func() *Guard
	}{{"late", "send_by_passed", late}, {"fenced", "fenced", fenced}, {"spent", "connection_failed", spent}} {
		t.Run(c.name, func(t *testing.T) {
			s := newRaw(t, func(*net.TCPConn, *http.Request) {})
			o := send(t, local(), charge(s.url()), c.guard(), time.Second)
			require.Equal(t, admission.NotDispatched, o.Class)
			require.Equal(t, c.reason, o.Reason)
			_ = s.Close()
			s.served.Wait()
			require.Zero(t, s.bytes.Load(), "bytes at the provider")
		})
		t.Run(c.name+" over TLS", func(t *testing.T) {
			var requests atomic.Int64
			s := quietTLS(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
			h := &HTTP{Network: loopback, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}
			o := send(t, h, charge(s.URL), c.guard(), time.Second)
			require.Equal(t, admission.NotDispatched, o.Class)
			s.Close()
			require.Zero(t, requests.Load())
		})
	}
}

// A write that the transport has not begun when the exchange is over never
// begins: "nothing was sent" stays true.
func TestSealedConnection(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	c := &guardedConn{Conn: ours, guard: openGuard()}
	require.False(t, c.seal())
	_, err := c.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, c.guard.MaySend(), "the guard was not even asked")
}

// A first write of which the connection took nothing has sent nothing; one that
// was taken in part has.
func TestFirstWriteFails(t *testing.T) {
	for _, taken := range []int{0, 1} {
		c := &guardedConn{Conn: failing{taken}, guard: openGuard()}
		_, err := c.Write([]byte("xyz"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, taken > 0, c.seal())
	}
}

type failing struct{ taken int }

func (f failing) Write([]byte) (int, error) { return f.taken, net.ErrClosed }
func (failing) Close() error                { return nil }
func (failing) Read([]byte) (int, error)    { return 0, net.ErrClosed }
func (failing) LocalAddr() net.Addr         { return nil }
func (failing) RemoteAddr() net.Addr        { return nil }
func (failing) SetDeadline(time.Time) error { return nil }

func (failing) SetReadDeadline(time.Time) error  { return nil }
func (failing) SetWriteDeadline(time.Time) error { return nil }
