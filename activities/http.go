package activities

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"headgate/admission"
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
// none to repeat it on. Redirects are not followed, proxies not used.
type HTTP struct {
	TLS  *tls.Config                                                          // nil: the system's roots
	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: net.Dialer
	Now  func() time.Time                                                     // nil: time.Now
}

// Prepare renders the request and connects.
func (h *HTTP) Prepare(ctx context.Context, in contract.EffectInput) (Prepared, error) {
	spec := in.Operation.Request
	if spec == nil {
		return nil, invalidOperation("the operation has no request")
	}
	success := spec.Success
	if success == "" {
		success = "status >= 200 && status < 300"
	}
	rules, err := compile(success, spec.Harmless, spec.Reference)
	if err != nil {
		return nil, invalidOperation(err.Error())
	}
	request, err := h.request(in, spec)
	if err != nil {
		return nil, err
	}
	conn, err := h.connect(ctx, request.URL)
	if err != nil {
		class, reason := admission.Classify(admission.Answer{})
		return nil, &Refusal{Class: class, Reason: reason, Detail: brief(err.Error())}
	}
	return &httpEffect{request: request, conn: conn, rules: rules, now: h.now}, nil
}

func (h *HTTP) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}

func (h *HTTP) request(in contract.EffectInput, spec *contract.HTTPRequest) (*http.Request, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, invalidOperation("the request's URL is not an absolute http or https URL")
	}
	var body io.ReadCloser = http.NoBody // not one that could be sent twice
	if spec.Method != http.MethodGet && spec.Method != http.MethodHead && string(in.Payload) != "null" {
		body = io.NopCloser(bytes.NewReader(in.Payload))
	}
	r, err := http.NewRequest(spec.Method, u.String(), body)
	if err != nil {
		return nil, invalidOperation("the request cannot be made: " + err.Error())
	}
	r.Header.Set("User-Agent", "headgate")
	r.Header.Set("Accept", "application/json")
	if body != http.NoBody {
		r.ContentLength = int64(len(in.Payload))
		r.Header.Set("Content-Type", "application/json")
	}
	if err := setHeaders(r, spec.Headers); err != nil {
		return nil, err
	}
	if spec.IdempotencyHeader != "" {
		r.Header.Set(spec.IdempotencyHeader, in.ProviderKey)
	}
	return r, nil
}

// setHeaders adds the declared headers; what comes from the environment is read
// now and stays in memory. A value that is missing may be there on another
// worker, so this is no final failure.
func setHeaders(r *http.Request, headers []contract.Header) error {
	for _, h := range headers {
		value := h.Value
		if h.Env != "" {
			if value = os.Getenv(h.Env); value == "" {
				return fmt.Errorf("header %s: the environment variable %s is not set on this worker", h.Name, h.Env)
			}
		}
		if i := strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
			return fmt.Errorf("header %s: its value holds a control character", h.Name)
		}
		if strings.EqualFold(h.Name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Set(h.Name, value)
	}
	return nil
}

// httpEffect is one request and the connection that it will leave on.
type httpEffect struct {
	request *http.Request
	conn    *guardedConn
	rules   *rules
	now     func() time.Time
}

// Close closes the connection, used or not.
func (e *httpEffect) Close() error {
	e.conn.seal()
	return nil
}

// Effect sends the request and reads the answer.
func (e *httpEffect) Effect(ctx context.Context, guard *Guard) contract.Outcome {
	e.conn.guard = guard
	defer context.AfterFunc(ctx, func() { _ = e.conn.Close() })() // whatever the transport makes of it
	transport := &http.Transport{
		DialContext:            e.conn.take,
		DialTLSContext:         e.conn.take, // its TLS is up
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	response, err := transport.RoundTrip(e.request.WithContext(ctx))
	if err != nil {
		return e.unanswered(guard, err)
	}
	defer func() { _ = response.Body.Close() }()
	return e.answered(readAnswer(response))
}

// unanswered classifies an exchange without a status line.
func (e *httpEffect) unanswered(guard *Guard, err error) contract.Outcome {
	sent := e.conn.seal()
	var o contract.Outcome
	o.Class, o.Reason = admission.Classify(admission.Answer{Sent: sent})
	o.Detail = brief(err.Error())
	if refusal := guard.Refusal(); refusal != nil && !sent {
		o.Reason, o.Detail = refusal.Error(), ""
	}
	return o
}

// answered classifies an answer. One that broke off satisfies no rule.
func (e *httpEffect) answered(a reading) contract.Outcome {
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
