package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/activities"
	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
)

const payload = `{"amount":1200}`

func TestBuiltInTypes(t *testing.T) {
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	for _, kind := range []struct {
		name    string
		subject func(t *testing.T, p *Provider) Subject
	}{
		{"own", ownSubject},
		{"http", httpSubject("http", nil)},
		{"https", httpSubject("https", cert)},
		{"model openai", modelSubject(contract.OpenAI, false)},
		{"model openai, streamed", modelSubject(contract.OpenAI, true)},
		{"model anthropic", modelSubject(contract.Anthropic, false)},
		{"model anthropic, streamed", modelSubject(contract.Anthropic, true)},
	} {
		t.Run(kind.name, func(t *testing.T) { Run(t, kind.subject) })
	}
}

// own is an operator's own type, as plain as it can be.
type own struct{ provider *Provider }

func (o *own) Prepare(context.Context, contract.EffectInput) (activities.Prepared, error) {
	return o, nil
}

func (o *own) Effect(ctx context.Context, guard *activities.Guard) contract.Outcome {
	if err := guard.MaySend(); err != nil {
		return contract.Outcome{Class: admission.NotDispatched, Reason: err.Error()}
	}
	if err := o.provider.Act(ctx); err != nil {
		return contract.Outcome{Class: admission.Unknown, Reason: "no_answer"}
	}
	return contract.Outcome{Class: admission.Succeeded, Status: 200, Result: json.RawMessage(`{"id":"ch_1"}`), Reference: "ch_1"}
}

func ownSubject(_ *testing.T, p *Provider) Subject {
	return Subject{Type: &own{p}, Payload: payload, Result: `{"id":"ch_1"}`, Reference: "ch_1"}
}

// httpSubject takes the certificate for example.com of a test server.
func httpSubject(scheme string, cert *httptest.Server) func(t *testing.T, p *Provider) Subject {
	return func(t *testing.T, p *Provider) Subject {
		pipes := serve(t, cert, func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if want := contract.ProviderKey("acme", "inv-42"); string(body) != payload || r.Header.Get("Idempotency-Key") != want {
				t.Errorf("got body %s and key %s", body, r.Header.Get("Idempotency-Key"))
			}
			if p.Act(r.Context()) == nil {
				_, _ = fmt.Fprint(rw, `{"id":"ch_1"}`)
			}
		})
		h := &activities.HTTP{Dial: pipes.Dial}
		if cert != nil {
			h.TLS = cert.Client().Transport.(*http.Transport).TLSClientConfig
		}
		return Subject{Type: h, Payload: payload, Result: `{"id":"ch_1"}`, Reference: "ch_1", Operation: contract.Operation{Name: "charge", Type: activities.HTTPType,
			Request: &contract.HTTPRequest{Method: http.MethodPost, URL: scheme + "://example.com/charges", IdempotencyHeader: "Idempotency-Key", Reference: "body.id"}}}
	}
}

// modelSubject answers by the test suite's model, once the effect may be answered.
func modelSubject(api string, stream bool) func(t *testing.T, p *Provider) Subject {
	return func(t *testing.T, p *Provider) Subject {
		model := provider.New(provider.Options{})
		pipes := serve(t, nil, func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || p.Act(r.Context()) != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			model.ServeHTTP(rw, r)
		})
		base := "http://example.com/"
		if api == contract.OpenAI {
			base += "v1/"
		}
		return Subject{Type: &activities.Model{Dial: pipes.Dial}, Payload: `{"prompt":"hello!"}`, Reference: "ch_1",
			Result: `{"text":"so so","finish":"stop","model":"small","usage":{"input_tokens":2,"output_tokens":2}}`,
			Operation: contract.Operation{Name: "summarise", Type: activities.ModelType,
				Model: &contract.Model{API: api, URL: base, Name: "small", MaxTokens: 4, Stream: stream}}}
	}
}

// serve runs a provider until the end of the test.
func serve(t *testing.T, cert *httptest.Server, handler http.HandlerFunc) *Pipes {
	pipes := NewPipes()
	server := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if cert != nil {
			_ = server.Serve(tls.NewListener(pipes, cert.TLS))
			return
		}
		_ = server.Serve(pipes)
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-served
		pipes.Wait()
	})
	return pipes
}
