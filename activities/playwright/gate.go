package playwright

import (
	"strings"

	"github.com/mxschmitt/playwright-go"
	"go.uber.org/zap"

	"headgate/contract"
)

// tagHeader marks a request on its way from the page's own interception, which
// knows the session, to the browser's, which is the last one before the network
// and takes the mark off again.
const tagHeader = "x-headgate-session"

// guard intercepts below everything that a page can do, redirected requests
// included: Chromium asks the browser's own interceptor last. A request that no
// session has marked does not leave.
//
// Playwright's interception alone does not see redirects, and a process that was
// stopped after it had let the effect go could not hold it back any more.
func (e *engine) guard() error {
	network, err := e.browser.NewBrowserCDPSession()
	if err != nil {
		return err
	}
	e.network = network
	network.On("Fetch.requestPaused", func(event map[string]any) { aside(func() { e.paused(event) }) })
	_, err = network.Send("Fetch.enable", map[string]any{"patterns": []map[string]any{{"urlPattern": "*"}}})
	return err
}

func (e *engine) paused(event map[string]any) {
	id := event["requestId"]
	request, _ := event["request"].(map[string]any)
	method, _ := request["method"].(string)
	address, _ := request["url"].(string)
	all, _ := request["headers"].(map[string]any)
	tag, headers := "", make([]map[string]any, 0, len(all))
	for name, value := range all {
		if strings.EqualFold(name, tagHeader) {
			tag, _ = value.(string)
			continue
		}
		headers = append(headers, map[string]any{"name": name, "value": value})
	}
	_, redirected := event["redirectedRequestId"]
	if s := e.find(tag); s == nil || !s.passes(tag == s.effectTag(), redirected, method, address) {
		if s == nil {
			e.log.Warn("a request of no session was refused", zap.String("method", method))
		}
		_, _ = e.network.Send("Fetch.failRequest", map[string]any{"requestId": id, "errorReason": "BlockedByClient"})
		return
	}
	_, _ = e.network.Send("Fetch.continueRequest", map[string]any{"requestId": id, "headers": headers})
}

// passes is the last word on a request. The effect asks the guard here, so that
// a process which was stopped on the way still holds it.
func (s *Session) passes(effect, redirected bool, method, address string) bool {
	switch {
	case redirected:
		if effect {
			s.tunnel.answered()
		}
		// Where a request is sent on to was not known when it was let go.
		if s.reads(method, address) {
			return true
		}
		s.note("a redirect to", method, address)
		return false
	case effect:
		return s.leaves()
	}
	return true
}

// route is asked first, for every request of the session's pages and workers.
func (s *Session) route(r playwright.Route) {
	request := r.Request()
	method, address := request.Method(), request.URL()
	switch {
	case s.effect.Match(method, address):
		if !s.hold(r) {
			s.note("a second", method, address)
			_ = r.Abort("blockedbyclient")
		}
	case s.reads(method, address):
		s.let(r, s.tag, "")
	default:
		s.note("", method, address)
		_ = r.Abort("blockedbyclient")
	}
}

// let hands a request on to the browser's interception.
func (s *Session) let(r playwright.Route, tag, key string) {
	headers := r.Request().Headers()
	headers[tagHeader] = tag
	if name := s.plan.Browser.IdempotencyHeader; name != "" && key != "" {
		headers[strings.ToLower(name)] = key
	}
	_ = r.Continue(playwright.RouteContinueOptions{Headers: headers})
}

func (s *Session) reads(method, address string) bool {
	if s.effect.Match(method, address) {
		return false
	}
	for _, p := range s.readOnly {
		if p.Match(method, address) {
			return true
		}
	}
	return false
}

// quiet takes away what a page could send by and no interception sees. Frames run
// it too, before any code of their own. Workers do not, and have WebSockets.
const quiet = `for (const name of ['Worker', 'SharedWorker', 'WebTransport', 'RTCPeerConnection', 'webkitRTCPeerConnection'])
  Object.defineProperty(globalThis, name, {value: undefined, configurable: false, writable: false});`

func patterns(b contract.Browser) (effect contract.RequestPattern, readOnly []contract.RequestPattern, err error) {
	if b.Effect != "" {
		if effect, err = contract.ParseRequestPattern(b.Effect); err != nil {
			return "", nil, err
		}
	}
	readOnly, err = contract.ParseRequestPatterns(b.ReadOnly)
	return effect, readOnly, err
}
