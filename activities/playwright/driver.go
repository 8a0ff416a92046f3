// Package playwright acts on web pages in a real Chromium, for operations of the
// type browser. It is the only importer of Playwright, and knows nothing of
// Temporal.
//
// What holds here:
//   - no request leaves the browser that this package has not let through, one by
//     one: what is read-only by the declaration passes, the one request that is
//     the effect is held until Session.Send, and all else is refused, redirected
//     requests, service workers and WebSockets included;
//   - every call ends within a second of its context, whatever hangs: what does
//     not end by itself is killed, with all its processes;
//   - what a worker leaves behind when it is killed, the next one removes.
package playwright

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Defaults of Options.
const (
	DefaultRecycle = 100
	DefaultKeep    = 7 * 24 * time.Hour
)

const (
	// startFor bounds the start of a browser, which goes on when the task that
	// asked for it has given up.
	startFor = time.Minute
	// openFor bounds the opening of a page. A browser that takes longer is taken
	// for broken.
	openFor = 10 * time.Second
)

// Options of a Driver. The zero value is ready, but for the log.
type Options struct {
	// Temp is the folder that all workers of this machine keep their temporary
	// files in. Empty: headgate-browser below the system's own.
	Temp string
	// Artefacts is the folder for screenshots and traces of failures. Empty: none
	// are kept.
	Artefacts string
	// Keep is how long artefacts are kept. Zero: DefaultKeep.
	Keep time.Duration
	// Program is the Chromium or Chrome to run. Empty: HEADGATE_CHROMIUM, else one
	// that is found on the PATH, else Playwright's own.
	Program string
	// Recycle is how many tasks a browser serves before a new one takes its place.
	// Zero: DefaultRecycle.
	Recycle int
	// Browsers is how many browsers a Pool has, one for each owner. Zero: one for all.
	Browsers int
	// Dial makes the connections of all pages. Nil: net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *zap.Logger
}

// Driver runs one browser, started when the first page is opened, with one
// context for each session. Make it with New.
type Driver struct {
	o Options

	mu       sync.Mutex
	current  *engine
	starting *start // nil: none is being started
	closed   bool
	swept    time.Time
}

// start is a browser that is being started.
type start struct {
	done chan struct{}
	err  error // set when done is closed
}

var errClosed = errors.New("the driver is closed")

// New makes a driver. It starts nothing.
func New(o Options) *Driver {
	if o.Temp == "" {
		o.Temp = filepath.Join(os.TempDir(), fmt.Sprintf("headgate-browser-%d", os.Getuid()))
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Recycle == 0 {
		o.Recycle = DefaultRecycle
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Driver{o: o}
}

// Start starts the browser before the first page asks for it, and waits for it.
func (d *Driver) Start(ctx context.Context) error {
	_, err := d.engine(ctx, false)
	return err
}

// Open opens a page for a plan in a context of its own. It ends soon after ctx.
func (d *Driver) Open(ctx context.Context, plan Plan) (*Session, error) {
	e, err := d.engine(ctx, true)
	if err != nil {
		return nil, err
	}
	s, err := newSession(plan, d.o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openFor, errors.New("the browser did not open a page in time"))
	defer cancel()
	if err := e.open(ctx, s); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// engine is the running browser, or a new one: the last one may have died, or
// served its number of tasks.
func (d *Driver) engine(ctx context.Context, use bool) (*engine, error) {
	for {
		e, starting := d.running(use)
		if e != nil {
			return e, nil
		}
		if starting == nil {
			return nil, errClosed
		}
		select {
		case <-starting.done:
			if starting.err != nil {
				return nil, starting.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("the browser is being started: %w", context.Cause(ctx))
		}
	}
}

// running gives the browser, or the start that is to be waited for; neither: the
// driver is closed.
func (d *Driver) running(use bool) (*engine, *start) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil
	}
	if d.current != nil {
		if d.current.use(use, d.o.Recycle) {
			return d.current, nil
		}
		d.current.retire()
		d.current = nil
	}
	if d.starting == nil {
		d.starting = &start{done: make(chan struct{})}
		go d.start(d.starting)
	}
	return nil, d.starting
}

func (d *Driver) start(s *start) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), startFor, errors.New("the browser did not start in time"))
	defer cancel()
	d.sweep()
	e, err := launch(ctx, d.o)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.closed {
		err = errClosed
		e.kill(err)
	}
	if err == nil {
		d.current = e
	}
	d.starting, s.err = nil, err
	close(s.done)
}

// sweep removes what dead workers have left, and old artefacts.
func (d *Driver) sweep() {
	if time.Since(d.swept) < time.Hour {
		return
	}
	d.swept = time.Now()
	if n := sweepTemp(d.o.Temp); n > 0 {
		d.o.Log.Info("folders of dead browser workers removed", zap.Int("folders", n))
	}
	if d.o.Artefacts != "" {
		if n := sweepOld(d.o.Artefacts, d.swept.Add(-d.o.Keep)); n > 0 {
			d.o.Log.Info("old browser artefacts removed", zap.Int("folders", n))
		}
	}
}

// Close ends the browser and every session, also one that is being started.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	current, starting := d.current, d.starting
	d.current = nil
	d.mu.Unlock()
	if starting != nil {
		<-starting.done
	}
	if current != nil {
		current.kill(errClosed)
	}
	return nil
}
