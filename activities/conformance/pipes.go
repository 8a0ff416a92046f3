package conformance

import (
	"context"
	"net"
	"sync"
	"time"
)

// Pipes is a listener whose connections live in memory, so that they take part
// in the time of a test. NewPipes makes one; Dial is the other side.
type Pipes struct {
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

// NewPipes makes a listener. It is closed with the server that serves it.
func NewPipes() *Pipes {
	return &Pipes{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Wait returns once both ends of every connection are closed.
func (p *Pipes) Wait() { p.open.Wait() }

// Dial connects to the listener, whatever the address.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
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

func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *Pipes) Close() error   { close(p.done); return nil }
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{} }
