package playwright

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/mxschmitt/playwright-go"

	"headgate/contract"
)

// A context or a browser that does not close by itself in this time is killed:
// soon after a fault, since somebody waits, and with more patience at a good end.
const (
	closeFor     = time.Second
	calmCloseFor = 5 * time.Second
)

// Plan is what a session is to do. The values of its steps are filled in.
type Plan struct {
	Browser contract.Browser
	Owner   string // whose browser it runs in, where owners have their own
	Key     string // value of the idempotency header
	// Artefacts is the name of the folder for what is kept of a failure; empty:
	// nothing is.
	Artefacts string
}

// Seen is what is known when a session has come to its end.
type Seen struct {
	Sent       bool // the effect may have left
	Status     int  // of the effect's answer, the last of its redirects; zero: none was seen
	RetryAfter string
	Values     map[string]any // what the steps extracted
	Err        error          // why the steps did not come to their end; nil: they did
}

// Session is one plan on a page of its own. Run, then Send if the effect is held,
// then Close.
type Session struct {
	plan     Plan
	options  Options
	tag      string
	effect   contract.RequestPattern
	readOnly []contract.RequestPattern

	tunnel  *tunnel
	engine  *engine
	context playwright.BrowserContext
	page    playwright.Page

	held     chan struct{} // closed when the effect is held
	released chan struct{} // closed when it may go
	answered chan struct{} // closed when its exchange is over
	over     chan struct{} // closed when the steps are
	failed   chan struct{} // closed when nothing more can come

	play   sync.Once
	ending sync.Once

	mu      sync.Mutex
	may     func() error // asked once, as the effect leaves
	asked   bool
	sealed  bool // nothing may leave any more
	sent    bool
	waiting playwright.Route // the effect, held
	request playwright.Request
	status  int
	retry   string
	last    int // status of the last page
	values  map[string]any
	stepErr error
	failure error
	refused []string
}

func newSession(plan Plan, o Options) (*Session, error) {
	effect, readOnly, err := patterns(plan.Browser)
	if err != nil {
		return nil, err
	}
	t, err := newTunnel(effect, readOnly, o)
	if err != nil {
		return nil, err
	}
	return &Session{plan: plan, options: o, tag: rand.Text(), effect: effect, readOnly: readOnly, tunnel: t,
		held: make(chan struct{}), released: make(chan struct{}), answered: make(chan struct{}), over: make(chan struct{}),
		failed: make(chan struct{}), values: map[string]any{}}, nil
}

func (s *Session) effectTag() string { return s.tag + ".effect" }

// open makes the context and the page. A browser that cannot is killed.
func (e *engine) open(ctx context.Context, s *Session) error {
	s.engine = e
	if err := e.add(s); err != nil {
		return err
	}
	err := within(ctx, s.open)
	if err != nil && ctx.Err() != nil {
		e.kill(err)
	}
	return err
}

func (s *Session) open() error {
	c, err := s.engine.browser.NewContext(playwright.BrowserNewContextOptions{
		ServiceWorkers:  playwright.ServiceWorkerPolicyBlock, // their requests belong to no page
		AcceptDownloads: playwright.Bool(false),
		Proxy:           &playwright.Proxy{Server: s.tunnel.address(), Bypass: playwright.String("<-loopback>")},
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.context = c
	s.mu.Unlock()
	c.OnResponse(s.response)
	c.OnRequestFailed(s.requestFailed)
	if err := errors.Join(
		c.AddInitScript(playwright.Script{Content: playwright.String(quiet)}),
		c.Route("**/*", func(r playwright.Route) { aside(func() { s.route(r) }) }),
		c.RouteWebSocket("**/*", func(w playwright.WebSocketRoute) {
			s.note("a WebSocket", "GET", w.URL())
			aside(func() { w.Close() })
		}),
		s.trace(c),
	); err != nil {
		return err
	}
	page, err := c.NewPage()
	if err != nil {
		return err
	}
	page.OnCrash(func(playwright.Page) { s.fail(errors.New("the page crashed")) })
	s.mu.Lock()
	s.page = page
	s.mu.Unlock()
	return nil
}

// fail ends the session: nothing leaves any more, and nobody waits.
func (s *Session) fail(why error) {
	s.ending.Do(func() {
		s.mu.Lock()
		s.sealed, s.failure = true, why
		s.mu.Unlock()
		s.tunnel.close()
		close(s.failed)
	})
}

// Run plays the steps until the effect is held or all are over.
func (s *Session) Run(ctx context.Context) (held bool, err error) {
	s.play.Do(func() { go s.steps() })
	select {
	case <-s.held:
		return true, nil
	case <-s.over:
		s.mu.Lock()
		defer s.mu.Unlock()
		// The effect may have come with the last step.
		return s.waiting != nil, s.explain(s.stepErr)
	case <-s.failed:
	case <-ctx.Done():
		s.fail(context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return false, s.explain(s.failure)
}

// Send lets the effect go, if may allows it at the last moment, and plays the
// remaining steps. It tells what was seen, soon after ctx at the latest; after
// that nothing leaves any more.
func (s *Session) Send(ctx context.Context, may func() error) Seen {
	s.mu.Lock()
	route := s.waiting
	s.may = may
	s.mu.Unlock()
	close(s.released)
	if route != nil {
		s.tunnel.expose()
		aside(func() { s.let(route, s.effectTag(), s.plan.Key) })
		s.await(ctx, s.answered)
	}
	if !s.turnedDown() {
		s.await(ctx, s.over)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	err := s.stepErr
	if s.failure != nil {
		err = s.failure
	}
	return Seen{Sent: s.sent, Status: s.status, RetryAfter: s.retry, Values: s.values, Err: s.explain(err)}
}

// turnedDown tells that the effect's exchange is over without a page: the steps
// would wait for what does not come.
func (s *Session) turnedDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting != nil && (s.status < 200 || s.status > 299)
}

// await waits for one thing, for as long as it can come.
func (s *Session) await(ctx context.Context, what <-chan struct{}) {
	select {
	case <-what:
	case <-s.failed:
	case <-ctx.Done():
		s.fail(context.Cause(ctx))
	}
}

// hold takes the effect; false: there was one already.
func (s *Session) hold(r playwright.Route) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil || s.sealed {
		return false
	}
	s.waiting, s.request = r, r.Request()
	close(s.held)
	return true
}

// leaves asks the guard. What may not leave ends the session.
func (s *Session) leaves() bool {
	s.mu.Lock()
	if s.asked || s.sealed || s.may == nil {
		s.mu.Unlock()
		return false
	}
	s.asked = true
	err := s.may()
	s.sent = err == nil
	s.mu.Unlock()
	if err != nil {
		s.fail(err)
	}
	return err == nil
}

// ours tells whether a request is the effect, or what it was redirected to.
func (s *Session) ours(r playwright.Request) bool {
	s.mu.Lock()
	effect := s.request
	s.mu.Unlock()
	for ; effect != nil && r != nil; r = r.RedirectedFrom() {
		if r == effect {
			return true
		}
	}
	return false
}

func (s *Session) response(r playwright.Response) {
	status := r.Status()
	if r.Request().IsNavigationRequest() {
		s.mu.Lock()
		s.last = status
		s.mu.Unlock()
	}
	if !s.ours(r.Request()) {
		return
	}
	s.tunnel.answered()
	s.mu.Lock()
	s.status, s.retry = status, r.Headers()["retry-after"]
	s.mu.Unlock()
	if status < 300 || status > 399 {
		s.answer()
	}
}

// requestFailed: an effect without an answer, or a redirect that was refused.
func (s *Session) requestFailed(r playwright.Request) {
	if s.ours(r) {
		s.answer()
	}
}

func (s *Session) answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.answered:
	default:
		close(s.answered)
	}
}

// note keeps what was refused, without the query, which may hold anything.
func (s *Session) note(what, method, address string) {
	if u, err := url.Parse(address); err == nil {
		u.RawQuery, u.Fragment, u.User = "", "", nil
		address = u.String()
	}
	if what != "" {
		what += " "
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) < 3 {
		s.refused = append(s.refused, fmt.Sprintf("%s%s %s", what, method, address))
	}
}

// explain adds what was refused, which is often the cause.
func (s *Session) explain(err error) error {
	if err == nil || len(s.refused) == 0 {
		return err
	}
	return fmt.Errorf("%w; refused: %v", err, s.refused)
}

// Refused are the first requests that were neither read-only nor the effect.
func (s *Session) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// Page is the status of the last page, and Values what the steps extracted so far.
func (s *Session) Page() (status int, values map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.values
}

// Close ends the session. What does not close in time is killed, with the browser;
// a page that does not yield ends with its context.
func (s *Session) Close() error {
	s.fail(errClosed)
	patience := closeFor
	s.mu.Lock()
	c := s.context
	if errors.Is(s.failure, errClosed) {
		patience = calmCloseFor
	}
	s.mu.Unlock()
	if s.engine == nil {
		return nil
	}
	if c != nil {
		ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("a page did not close"))
		defer cancel()
		if err := within(ctx, func() error { return c.Close() }); err != nil && ctx.Err() != nil {
			s.engine.kill(err)
		}
	}
	s.engine.drop(s)
	return nil
}
