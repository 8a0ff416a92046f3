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
	"time"

	"go.uber.org/zap"
)

// Defaults of Options.
const (
	DefaultRecycle = 100
	DefaultKeep    = 7 * 24 * time.Hour
)

// openFor bounds the start of a browser and the opening of a page. A browser
// that takes longer is taken for broken.
const openFor = 15 * time.Second

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
	// Dial makes the connections of all pages. Nil: net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *zap.Logger
}

// Driver runs one browser, started when the first page is opened, with one
// context for each session. Make it with New.
type Driver struct {
	o Options

	lock    chan struct{} // held while the browser is looked at or started
	current *engine
	closed  bool
	swept   time.Time
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
	return &Driver{o: o, lock: make(chan struct{}, 1)}
}

// Open opens a page for a plan in a context of its own. It ends soon after ctx.
func (d *Driver) Open(ctx context.Context, plan Plan) (*Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openFor, errors.New("the browser did not open a page in time"))
	defer cancel()
	e, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newSession(plan, d.o)
	if err != nil {
		return nil, err
	}
	if err := e.open(ctx, s); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// engine is the running browser, or a new one: the last one may have died, or
// served its number of tasks.
func (d *Driver) engine(ctx context.Context) (*engine, error) {
	select {
	case d.lock <- struct{}{}:
		defer func() { <-d.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if d.closed {
		return nil, errClosed
	}
	if d.current != nil {
		if d.current.use(d.o.Recycle) {
			return d.current, nil
		}
		d.current.retire()
		d.current = nil
	}
	d.sweep()
	e, err := launch(ctx, d.o)
	if err != nil {
		return nil, err
	}
	e.use(d.o.Recycle)
	d.current = e
	return e, nil
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

// Close ends the browser and every session.
func (d *Driver) Close() error {
	d.lock <- struct{}{}
	defer func() { <-d.lock }()
	d.closed = true
	if d.current != nil {
		d.current.kill(errClosed)
		d.current = nil
	}
	return nil
}
