package activities

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// connectFor bounds the time to reach a provider, TLS included.
const connectFor = 10 * time.Second

// guardedConn carries one request. Its first write asks the guard: it lies above
// TLS, so that write is the first byte of the request and not of a handshake.
type guardedConn struct {
	net.Conn
	guard *Guard

	mu    sync.Mutex
	asked bool
	over  error // no write goes through any more
	sent  bool  // a byte may have left
	taken bool
}

// dialFunc opens a connection in place of a Network's own dialer.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// connect opens a connection, and TLS for https; without dial, to what the network
// allows. Nothing of the request leaves.
func (n Network) connect(ctx context.Context, dial dialFunc, u *url.URL, secure *tls.Config) (*guardedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if dial == nil {
		dial = n.dialer().DialContext
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if u.Scheme == "https" {
		over := tls.Client(conn, oneRequest(secure, u.Hostname()))
		if err := over.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = over
	}
	return &guardedConn{Conn: conn}, nil
}

// oneRequest is for HTTP/1.1: one request on one connection.
func oneRequest(secure *tls.Config, server string) *tls.Config {
	c := secure.Clone()
	if c.ServerName == "" {
		c.ServerName = server
	}
	c.NextProtos = []string{"http/1.1"}
	return c
}

// transport sends one request on the connection.
func (c *guardedConn) transport() *http.Transport {
	return &http.Transport{
		DialContext:            c.take,
		DialTLSContext:         c.take, // its TLS is up
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// take hands the connection to the transport, once: a transport that wanted to
// try again has nothing to try it with.
func (c *guardedConn) take(context.Context, string, string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return nil, errSent
	}
	c.taken = true
	return c, nil
}

func (c *guardedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		return 0, c.over
	}
	first := !c.asked
	if first {
		c.asked = true
		if c.over = c.guard.MaySend(); c.over != nil {
			return 0, c.over
		}
	}
	n, err := c.Conn.Write(b)
	switch {
	case n > 0:
		c.sent = true
	case first && err != nil:
		// Not a byte was taken, in TLS not one whole record: nothing left.
		c.over = err
	}
	return n, err
}

// seal closes the connection and tells whether a byte may have left. A write
// that the transport has not begun by now, never begins.
func (c *guardedConn) seal() (sent bool) {
	_ = c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over == nil {
		c.over = net.ErrClosed
	}
	return c.sent
}

// unanswered classifies a request without a status line; err may be nil.
func (c *guardedConn) unanswered(guard *Guard, err error) contract.Outcome {
	sent := c.seal()
	var o contract.Outcome
	o.Class, o.Reason = admission.Classify(admission.Answer{Sent: sent})
	if err != nil {
		o.Detail = brief(withoutURL(err))
	}
	if refusal := guard.Refusal(); refusal != nil && !sent {
		o.Reason, o.Detail = refusal.Error(), ""
	}
	return o
}
