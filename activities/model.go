package activities

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// ModelType is the operation type that Model serves.
const ModelType = "model"

// Model makes effects that are one call of a language model, by the official
// clients of OpenAI and Anthropic. The zero value is ready.
//
// What the effect changes outside is what it costs, so the tokens are reserved
// by estimate and settled with what the provider counted. The clients' own
// retries are off, and each call has a connection of its own, as that of HTTP has:
// one lease is one request on the wire. They read nothing from the environment.
type Model struct {
	Network Network          // of the connections that Dial does not make
	TLS     *tls.Config      // nil: the system's roots
	Dial    dialFunc         // nil: net.Dialer
	Now     func() time.Time // nil: time.Now
}

// Prepare reads the payload and connects.
func (m *Model) Prepare(ctx context.Context, in contract.EffectInput) (Prepared, error) {
	spec := in.Operation.Model
	if spec == nil {
		return nil, invalidOperation("the operation has no model")
	}
	prompt, err := config.ReadPrompt(spec, in.Payload)
	if err != nil {
		return nil, &Refusal{Class: admission.Failed, Reason: config.InvalidPayload, Detail: brief(err.Error())}
	}
	call, ok := map[string]modelCall{contract.OpenAI: callOpenAI, contract.Anthropic: callAnthropic}[spec.API]
	u, reachable := absolute(spec.URL)
	if !ok || !reachable {
		return nil, invalidOperation("the operation's model has no API that is known, or no absolute URL")
	}
	key := ""
	if spec.Key != nil {
		if key, err = secret(*spec.Key); err != nil {
			return nil, err
		}
	}
	secure, err := tlsFor(m.TLS, spec.TLS)
	if err != nil {
		return nil, err
	}
	conn, err := m.Network.connect(ctx, m.Dial, u, secure)
	if err != nil {
		return nil, unreached(err)
	}
	return &modelEffect{spec: spec, prompt: prompt, call: call, key: key, id: in.ProviderKey, wire: &modelWire{conn: conn}, now: clock(m.Now)}, nil
}

// modelCall makes one call through a client library. An error means that no
// answer could be read to its end.
type modelCall func(ctx context.Context, e *modelEffect) (completion, error)

// completion is what a model answered.
type completion struct {
	id, model string
	text      string
	refusal   string // the model's own words, or the reason
	finish    string // empty: it was cut off
	usage     contract.ModelUsage
}

// modelEffect is one call and the connection that it will leave on.
type modelEffect struct {
	spec   *contract.Model
	prompt config.Prompt
	call   modelCall
	key    string
	id     string // the task's provider key
	wire   *modelWire
	now    func() time.Time
}

// Close closes the connection, used or not.
func (e *modelEffect) Close() error {
	e.wire.conn.seal()
	return nil
}

// Effect makes the call and reads the answer.
func (e *modelEffect) Effect(ctx context.Context, guard *Guard) contract.Outcome {
	e.wire.conn.guard = guard
	defer context.AfterFunc(ctx, func() { _ = e.wire.conn.Close() })()
	said, err := e.call(ctx, e)
	return e.outcome(guard, said, err)
}

// requestID names the task to the provider, in the header that OpenAI has for it.
func (e *modelEffect) requestID() (name, value string) { return "X-Client-Request-Id", e.id }

// modelWire is the HTTP client that the libraries are given: it sends one request
// on the effect's connection, which carries no second one, and keeps what the answer
// says outside of its body.
type modelWire struct {
	conn   *guardedConn
	status int
	header http.Header
	fault  []byte // the body of an answer that is no success
}

// Do implements the HTTPClient of both libraries.
func (w *modelWire) Do(r *http.Request) (*http.Response, error) {
	response, err := w.conn.transport().RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.status, w.header = response.StatusCode, response.Header
	return w.keep(response)
}
