package playwright

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/mxschmitt/playwright-go"
	"go.uber.org/zap"
)

// engine is one driver process with one browser.
type engine struct {
	log     *zap.Logger
	folder  *folder
	pw      *playwright.Playwright
	process *os.Process // the driver's
	browser playwright.Browser
	network playwright.CDPSession
	dead    chan struct{} // closed when nothing of it can act any more

	mu       sync.Mutex
	err      error // why it is dead
	used     int   // sessions, so far
	retired  bool
	sessions []*Session
}

var (
	errRecycled    = errors.New("another browser has taken its place")
	errBrowserDied = errors.New("the browser died")
	errDriverDied  = errors.New("the browser's driver died")
)

// launch starts a driver and a browser.
func launch(ctx context.Context, o Options) (*engine, error) {
	temp, err := newFolder(o.Temp)
	if err != nil {
		return nil, err
	}
	e := &engine{log: o.Log, folder: temp, dead: make(chan struct{})}
	start := time.Now()
	if err := within(ctx, func() error { return e.start(o) }); err != nil {
		e.kill(err)
		return nil, fmt.Errorf("start a browser: %w", plain(err))
	}
	e.log.Info("browser started", zap.String("version", e.browser.Version()), zap.Bool("sandbox", sandbox()), zap.Duration("took", time.Since(start)))
	return e, nil
}

// sandbox is on unless the user is root, who cannot have it.
func sandbox() bool { return os.Geteuid() != 0 }

func (e *engine) start(o Options) error {
	options, err := driver(e.folder.path)
	if err != nil {
		return err
	}
	if err := ready(options); err != nil {
		return err
	}
	pw, err := playwright.Run(options)
	if err != nil {
		return err
	}
	if err := e.watch(pw); err != nil {
		return err
	}
	launch := playwright.BrowserTypeLaunchOptions{
		Headless:        playwright.Bool(true),
		ChromiumSandbox: playwright.Bool(sandbox()),
		HandleSIGINT:    playwright.Bool(false), // the worker says when it ends
		HandleSIGTERM:   playwright.Bool(false),
		HandleSIGHUP:    playwright.Bool(false),
		Args: []string{"--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
			"--disable-component-update", "--disable-sync"},
	}
	if p := Program(o.Program); p != "" {
		launch.ExecutablePath = playwright.String(p)
	}
	browser, err := pw.Chromium.Launch(launch)
	if err != nil {
		return err
	}
	browser.OnDisconnected(func(playwright.Browser) { go e.kill(e.cause()) })
	e.browser = browser
	return e.guard()
}

// watch waits for the end of the driver's process: the module does not tell it.
func (e *engine) watch(pw *playwright.Playwright) error {
	process, err := os.FindProcess(pw.Pid())
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil { // nobody waits for it any more
		_ = process.Kill()
		return e.err
	}
	e.pw, e.process = pw, process
	go func() {
		_, _ = process.Wait()
		e.kill(errDriverDied)
	}()
	return nil
}

// use counts one more session if there is one, unless the engine is dead or has
// served enough.
func (e *engine) use(one bool, most int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || e.retired || e.used >= most {
		return false
	}
	if one {
		e.used++
	}
	return true
}

// retire ends the engine after its last session.
func (e *engine) retire() {
	e.mu.Lock()
	e.retired = true
	idle := len(e.sessions) == 0
	e.mu.Unlock()
	if idle {
		go e.end()
	}
}

// end closes the browser, and sees to it that it is gone.
func (e *engine) end() {
	ctx, cancel := context.WithTimeout(context.Background(), calmCloseFor)
	defer cancel()
	_ = within(ctx, func() error { return e.browser.Close() })
	e.kill(errRecycled)
}

// cause is why the browser is gone, if nobody said so before.
func (e *engine) cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired {
		return errRecycled
	}
	return errBrowserDied
}

// kill ends every process of the engine at once, and every session with it. It
// returns when they are gone.
func (e *engine) kill(why error) {
	e.mu.Lock()
	if e.err != nil {
		e.mu.Unlock()
		<-e.dead
		return
	}
	e.err = why
	sessions, pw := e.sessions, e.pw
	if e.process != nil {
		_ = e.process.Kill()
	}
	e.mu.Unlock()
	e.log.Info("browser ends", zap.NamedError("cause", plain(why)))
	e.folder.remove()
	if pw != nil {
		aside(func() { _ = pw.Stop() }) // the process is gone: this frees its pipes
	}
	close(e.dead)
	for _, s := range sessions {
		s.fail(why)
	}
}

// add makes the engine responsible for a session.
func (e *engine) add(s *Session) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	e.sessions = append(e.sessions, s)
	return nil
}

func (e *engine) drop(s *Session) {
	e.mu.Lock()
	for i, other := range e.sessions {
		if other == s {
			e.sessions = append(e.sessions[:i:i], e.sessions[i+1:]...)
			break
		}
	}
	last := e.retired && len(e.sessions) == 0 && e.err == nil
	e.mu.Unlock()
	if last {
		go e.end()
	}
}

func (e *engine) find(tag string) *Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		if tag == s.tag || tag == s.effectTag() {
			return s
		}
	}
	return nil
}

// within runs a call that knows no context, and does not wait for it longer than
// ctx. A call that is left alone ends when its engine is killed.
func within(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- safely(call) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// safely runs a call of the module, which panics on what a dying browser tells.
func safely(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the browser's driver gave up: %.100v", v)
		}
	}()
	return call()
}

// aside runs something that nobody waits for.
func aside(call func()) {
	go func() {
		_ = safely(func() error {
			call()
			return nil
		})
	}()
}
