package activities

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// HTTPType is the operation type that HTTP serves.
const HTTPType = "http"

// HTTP makes effects that are one HTTP/1.1 request. The zero value is ready.
//
// Each effect has a connection of its own, opened while it is prepared. That
// costs a handshake, and buys three things that pooled connections cannot give:
// a provider that cannot be reached is known before the checkpoint; a server
// that closes an idle connection just as the request goes out cannot make an
// unknown outcome of it; and net/http, which silently repeats a request that
// looks idempotent when a reused connection dies, has no reused connection and
// none to repeat it on. Proxies are not used; redirects are not followed, unless
// the operation is a mere read that says so.
type HTTP struct {
	Network Network          // of the connections that Dial does not make
	TLS     *tls.Config      // nil: the system's roots
	Dial    dialFunc         // nil: net.Dialer
	Now     func() time.Time // nil: time.Now
}

// Prepare renders the request and connects.
func (h *HTTP) Prepare(ctx context.Context, in contract.EffectInput) (Prepared, error) {
	spec := in.Operation.Request
	if spec == nil {
		return nil, invalidOperation("the operation has no request")
	}
	rules, err := compile(cmp.Or(spec.Success, defaultSuccess), spec.Harmless, spec.Reference)
	if err != nil {
		return nil, invalidOperation(err.Error())
	}
	request, body, err := h.request(in, spec)
	if err != nil {
		return nil, err
	}
	signer, err := signerFor(spec.Webhook, in.ProviderKey)
	if err != nil {
		return nil, err
	}
	secure, err := tlsFor(h.TLS, spec.TLS)
	if err != nil {
		return nil, err
	}
	conn, err := h.Network.connect(ctx, h.Dial, request.URL, secure)
	if err != nil {
		return nil, unreached(err)
	}
	return &httpEffect{owner: h, request: request, body: body, signer: signer, conn: conn, secure: secure, rules: rules, now: clock(h.Now),
		redirects: spec.Redirects, most: cmp.Or(spec.MaxResponse, maxAnswer), timeout: in.Operation.Timeout.D()}, nil
}

// absolute reads the URL of a provider.
func absolute(text string) (u *url.URL, ok bool) {
	u, err := url.Parse(text)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// request renders the request, and gives its body beside it.
func (h *HTTP) request(in contract.EffectInput, spec *contract.HTTPRequest) (*http.Request, []byte, error) {
	u, ok := absolute(spec.URL)
	if !ok {
		return nil, nil, invalidOperation("the request's URL is not an absolute http or https URL")
	}
	text, mediaType, err := config.Body(spec, config.Call{Payload: in.Payload, Key: in.ProviderKey, Tenant: in.Tenant, RequestKey: in.Key})
	if err != nil {
		return nil, nil, &Refusal{Class: admission.Failed, Reason: config.InvalidPayload, Detail: brief(err.Error())}
	}
	if spec.Method == http.MethodGet || spec.Method == http.MethodHead || string(text) == "null" {
		text = nil
	}
	var body io.ReadCloser = http.NoBody // not one that could be sent twice
	if text != nil {
		body = io.NopCloser(bytes.NewReader(text))
	}
	r, err := http.NewRequest(spec.Method, u.String(), body)
	if err != nil {
		return nil, nil, invalidOperation("the request cannot be made: " + err.Error())
	}
	r.Header.Set("User-Agent", "headgate")
	r.Header.Set("Accept", "application/json")
	if text != nil {
		r.ContentLength = int64(len(text))
		r.Header.Set("Content-Type", mediaType)
	}
	if err := setHeaders(r, spec.Headers); err != nil {
		return nil, nil, err
	}
	if spec.IdempotencyHeader != "" {
		r.Header.Set(spec.IdempotencyHeader, in.ProviderKey)
	}
	return r, text, nil
}

// httpEffect is one request and the connection that it will leave on.
type httpEffect struct {
	owner     *HTTP
	request   *http.Request
	body      []byte
	signer    *signer // nil: not signed
	conn      *guardedConn
	secure    *tls.Config
	rules     *rules
	now       func() time.Time
	redirects int           // how many are followed yet
	most      int           // bytes of an answer's body that are read
	timeout   time.Duration // of the effect
}

// Close closes the connection, used or not.
func (e *httpEffect) Close() error {
	e.conn.seal()
	return nil
}

// Effect sends the request and reads the answer.
func (e *httpEffect) Effect(ctx context.Context, guard *Guard) contract.Outcome {
	if err := e.signer.sign(e.request, e.body, e.now()); err != nil {
		return contract.Outcome{Class: admission.NotDispatched, Reason: errPrepare.Error(), Detail: err.Error()}
	}
	// The provider may go on with the task's trace, if there is one.
	if e.request.Header.Get("traceparent") == "" {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(e.request.Header))
	}
	e.conn.guard = guard
	for request := e.request; ; e.redirects-- {
		response, err := e.exchange(ctx, request)
		if err != nil {
			return e.conn.unanswered(guard, err)
		}
		if e.redirects <= 0 {
			return e.answered(response)
		}
		next, err := e.follow(ctx, request, response)
		switch {
		case err != nil:
			return redirectRefused(e.answered(response), err)
		case next == nil:
			return e.answered(response)
		}
		request = next
	}
}

// exchange sends a request on its connection. The answer's body is read by
// readAnswer, or broken off with the connection.
func (e *httpEffect) exchange(ctx context.Context, request *http.Request) (*http.Response, error) {
	conn := e.conn
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // whatever the transport makes of it
	return conn.transport().RoundTrip(request.WithContext(ctx))
}

// answered classifies an answer. One that broke off satisfies no rule.
func (e *httpEffect) answered(response *http.Response) contract.Outcome {
	defer func() { _ = response.Body.Close() }()
	a := readAnswer(response, e.most)
	o := contract.Outcome{Status: a.status, Detail: a.detail, Result: a.raw}
	seen := admission.Answer{Sent: true, Status: a.status}
	if !a.broken {
		seen.OK = e.rules.yes(a)
		seen.Harmless = e.rules.no(a)
	}
	o.Class, o.Reason = admission.Classify(seen)
	if o.Class == admission.Succeeded {
		o.Reference = e.rules.reference(a)
		return o
	}
	o.RetryAfter = contract.Duration(retryAfter(a.header, e.now()))
	return o
}

func invalidOperation(detail string) error {
	return &Refusal{Class: admission.Failed, Reason: errOperation.Error(), Detail: brief(detail)}
}
