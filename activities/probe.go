package activities

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"headgate/contract"
)

// Probe asks the provider once whether an effect happened, or to cancel it. It
// never fails: what could not be asked, or was not answered by the provider in a
// form that the rules can read, is inconclusive. Only the declared rule, applied
// to such an answer, says that an effect did not happen.
func (e *Effects) Probe(ctx context.Context, in contract.ProbeInput) (contract.Evidence, error) {
	found := e.probe(ctx, in)
	found.Kind, found.At = contract.EvidenceLookup, e.now()
	if in.Kind == contract.ProbeCancel {
		found.Kind = contract.EvidenceCancel
	}
	found.Actor = e.Worker
	e.Log.Info("provider asked", zap.String("tenant", in.Tenant), zap.String("key", in.Key),
		zap.String("task", contract.TaskID(in.Tenant, in.Key)), zap.Int("attempt", in.Attempt),
		zap.String("probe", found.Kind), zap.String("finding", found.Finding), zap.Int("status", found.Status))
	return found, nil
}

func (e *Effects) probe(ctx context.Context, in contract.ProbeInput) contract.Evidence {
	if in.Probe.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.Probe.Timeout.D())
		defer cancel()
	}
	if in.Kind == contract.ProbeLookup && in.Probe.Visit != nil {
		return e.probeOwn(ctx, BrowserType, in)
	}
	if name, own := strings.CutPrefix(in.Probe.URL, contract.TypeProbe); own && in.Kind == contract.ProbeLookup {
		return e.probeOwn(ctx, name, in)
	}
	ask, err := question(in)
	if err != nil {
		return inconclusive(err.Error())
	}
	rules, err := compile(ask.happened, ask.didNotHappen, ask.reference)
	if err != nil {
		return inconclusive(err.Error())
	}
	address, err := ask.address(in)
	if err != nil {
		return inconclusive(err.Error())
	}
	a, err := e.fetch(ctx, ask.method, address, ask.headers, in.Probe.TLS)
	if err != nil {
		return inconclusive(err.Error())
	}
	found := judge(a, rules)
	if found.Finding == contract.Happened {
		found.Count = count(in.Probe.Count, a)
	}
	return found
}

// probeOwn asks a type that looks its effects up by itself. Its word is held to
// the same: what is neither happened nor did_not_happen says nothing.
func (e *Effects) probeOwn(ctx context.Context, name string, in contract.ProbeInput) (found contract.Evidence) {
	defer func() {
		if v := recover(); v != nil {
			found = inconclusive("the look-up panicked")
		}
	}()
	p, ok := e.Types[name].(Prober)
	if !ok {
		return inconclusive(fmt.Sprintf("the type %q of this worker cannot look up", name))
	}
	said := p.Probe(ctx, in)
	found = contract.Evidence{Finding: said.Finding, Status: said.Status, Detail: brief(said.Detail), Reference: said.Reference, Result: said.Result}
	if said.Finding != contract.Happened && said.Finding != contract.DidNotHappen || ctx.Err() != nil {
		found.Finding = contract.Inconclusive
	}
	return found
}

// fetch sends one request of a probe or a sweep and reads the answer.
func (e *Effects) fetch(ctx context.Context, method, address string, headers []contract.Header, secure *contract.TLS) (reading, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return reading{}, errors.New("the URL is not valid")
	}
	r.Header.Set("User-Agent", "headgate")
	r.Header.Set("Accept", "application/json")
	if err := setHeaders(r, headers); err != nil {
		return reading{}, err
	}
	client, done, err := e.lookups(secure)
	if err != nil {
		return reading{}, err
	}
	defer done()
	response, err := client.Do(r)
	if err != nil {
		return reading{}, errors.New(withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	return readAnswer(response, maxAnswer), nil
}

// lookups gives the client for one probe. Those without TLS settings share one.
func (e *Effects) lookups(spec *contract.TLS) (client *http.Client, done func(), err error) {
	switch {
	case e.Lookups != nil:
		return e.Lookups, func() {}, nil
	case spec == nil:
		e.ask.Do(func() { e.asks = e.Network.lookups(nil) })
		return e.asks, func() {}, nil
	}
	secure, err := tlsFor(nil, spec)
	if err != nil {
		return nil, nil, err
	}
	client = e.Network.lookups(secure)
	return client, client.CloseIdleConnections, nil
}

// judge applies the rules to an answer. One that both accept says nothing.
func judge(a reading, r *rules) contract.Evidence {
	ev := contract.Evidence{Finding: contract.Inconclusive, Status: a.status, Detail: a.detail}
	if a.broken || a.foreign {
		return ev
	}
	if !speaks(a.status) {
		ev.Detail = fmt.Sprintf("status %d says nothing about the effect", a.status)
		return ev
	}
	switch yes, no := r.yes(a), r.no(a); {
	case yes && no:
		ev.Detail = "the rules contradict each other on this answer"
	case yes:
		ev.Finding, ev.Result, ev.Reference = contract.Happened, a.raw, r.reference(a)
	case no:
		ev.Finding = contract.DidNotHappen
	default:
		ev.Detail = "neither rule accepts the answer"
	}
	return ev
}

// speaks tells whether an answer with this status can be the provider's word on
// the effect: not when it refused to look, was not able to, or sent us away.
func speaks(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status < 300 || status >= 400 && status < 500
}

// asked is one kind of probe: a request, and how its answer is read.
type asked struct {
	method, url            string
	headers                []contract.Header
	happened, didNotHappen string
	reference              string
}

func question(in contract.ProbeInput) (asked, error) {
	p, c := in.Probe, in.Probe.Cancel
	switch {
	case in.Kind == contract.ProbeCancel && c != nil:
		return asked{c.Method, c.URL, c.Headers, c.Happened, c.DidNotHappen, c.Reference}, nil
	case in.Kind == contract.ProbeLookup && p.URL != "":
		return asked{http.MethodGet, p.URL, p.Headers, p.Happened, p.DidNotHappen, p.Reference}, nil
	}
	return asked{}, fmt.Errorf("the operation declares no probe of kind %q", in.Kind)
}

// address is the URL with what the probe is about.
func (a asked) address(in contract.ProbeInput) (string, error) {
	if (in.Key == "." || in.Key == "..") && strings.Contains(a.url, "{request_key}") {
		return "", fmt.Errorf("the request key %q cannot be part of a URL", in.Key)
	}
	return strings.NewReplacer(
		"{key}", escape(in.ProviderKey),
		"{tenant}", escape(in.Tenant),
		"{request_key}", escape(in.Key),
	).Replace(a.url), nil
}

// escape makes a text safe in a URL's path and in its query alike.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// withoutURL drops the URL, which holds the key and perhaps a credential.
func withoutURL(err error) string {
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err
	}
	return err.Error()
}

func inconclusive(detail string) contract.Evidence {
	return contract.Evidence{Finding: contract.Inconclusive, Detail: brief(detail)}
}
