// Package proxy stands between one process under test and the Temporal frontend
// and holds chosen calls, so that a crash can be placed exactly before or after a
// durable step without a hook in production code.
//
// It passes every unary call of every service as bytes: deadlines, cancellation,
// metadata, error details and sizes go through unchanged, and only the calls that
// an armed point names are decoded. The public API has no streaming calls.
package proxy

import (
	"context"
	"fmt"
	"net"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // the SDK compresses what it sends
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// maxMessage is the SDK's own bound on one message.
const maxMessage = 128 << 20

// Proxy listens on a port of its own and forwards to one frontend.
type Proxy struct {
	listener net.Listener
	server   *grpc.Server
	upstream *grpc.ClientConn

	mu     sync.Mutex
	points []*Point       // armed, in the order they were placed
	calls  map[*call]bool // at the server now
}

// call is one call that the server has.
type call struct {
	method string // last part
	cancel context.CancelFunc
}

// New listens on a free port of the loopback and forwards to the frontend at
// upstream. The frontend need not be up: calls are answered Unavailable until it
// is.
func New(upstream string) (*Proxy, error) {
	conn, err := grpc.NewClient("passthrough:///"+upstream,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(), // one call in, one call out
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 300 * time.Millisecond},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", upstream, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("proxy to %s: %w", upstream, err)
	}
	p := &Proxy{listener: listener, upstream: conn, calls: map[*call]bool{}}
	p.server = grpc.NewServer(
		grpc.UnknownServiceHandler(p.handle),
		grpc.ForceServerCodecV2(raw{}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		// The SDK pings every 30 s, also when it has nothing in flight.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Address is where the process under test finds its frontend.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends every connection, held calls included.
func (p *Proxy) Close() {
	p.server.Stop()
	_ = p.upstream.Close()
}

// handle passes one unary call.
func (p *Proxy) handle(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	method, _ := grpc.MethodFromServerStream(stream)
	var in, out []byte
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	point := p.take(method, in)
	if point != nil && point.rule.When == Before {
		if err := point.hold(ctx); err != nil {
			return err
		}
	}
	var header, trailer metadata.MD
	err := p.invoke(ctx, method, &in, &out, grpc.Header(&header), grpc.Trailer(&trailer))
	if point != nil && point.rule.When == After {
		// A call that failed did nothing: the point waits for the next one.
		if err != nil {
			p.arm(point)
		} else if err := point.hold(ctx); err != nil {
			return err
		}
	}
	stream.SetTrailer(trailer)
	if err != nil {
		return err
	}
	if err := stream.SetHeader(header); err != nil {
		return err
	}
	return stream.SendMsg(&out)
}

func (p *Proxy) invoke(ctx context.Context, method string, in, out *[]byte, options ...grpc.CallOption) error {
	upstream, cancel := context.WithCancel(outgoing(ctx))
	defer cancel()
	c := &call{method: path.Base(method), cancel: cancel}
	p.mu.Lock()
	p.calls[c] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.calls, c)
	}()
	err := p.upstream.Invoke(upstream, method, in, out, options...)
	if err != nil && upstream.Err() != nil && ctx.Err() == nil {
		err = status.Errorf(codes.Unavailable, "%s was cut", c.method)
	}
	return err
}

// Cut breaks off the calls of a method that the server has at this moment, as if
// the caller's machine had gone; the caller is answered Unavailable. It tells how
// many there were.
func (p *Proxy) Cut(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.calls {
		if c.method == method {
			c.cancel()
			n++
		}
	}
	return n
}

// outgoing copies the caller's metadata, without what belongs to a connection.
func outgoing(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, key := range []string{":authority", "content-type", "user-agent"} {
		md.Delete(key)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// raw is a codec that leaves messages as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("proxy: cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("proxy: cannot receive into a %T", v)
	}
	*b = data.Materialize()
	return nil
}
