package activities

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// script is a page whose browser does what the test says. What a real one does is
// tested in package playwright and in the testsuite.
type script struct {
	world  *world
	plan   PagePlan
	open   error
	run    error
	idle   bool // no effect is asked for
	seen   *PageSeen
	folder string
	status int
	values map[string]any
}

func (s *script) Run(context.Context) (bool, error) { return !s.idle && s.run == nil, s.run }
func (s *script) Page() (int, map[string]any)       { return s.status, s.values }
func (s *script) Keep() string                      { return s.folder }
func (s *script) Close() error                      { s.world.closed++; return nil }
func (s *script) kind() *Browser                    { return &Browser{Open: s.opens} }
func (s *script) opens(_ context.Context, p PagePlan) (Page, error) {
	s.plan = p
	if s.open != nil {
		return nil, s.open
	}
	return s, nil
}

func (s *script) Send(ctx context.Context, may func() error) PageSeen {
	if err := may(); err != nil {
		return PageSeen{Err: err}
	}
	if err := s.world.act(ctx); err != nil {
		return PageSeen{Sent: true, Err: err}
	}
	if s.seen != nil {
		return *s.seen
	}
	return PageSeen{Sent: true, Status: 200, Values: map[string]any{"id": "ch_1"}}
}

func pageOperation() contract.Operation {
	return contract.Operation{Name: "book", Type: BrowserType, Timeout: contract.Duration(testTimeout), Heartbeat: contract.Duration(testHeartbeat),
		Browser: &contract.Browser{Effect: "POST http://a.example/", Reference: "body.id", Harmless: "body.error == 'taken'", Steps: []contract.Step{
			{Name: "open", Do: contract.StepGoto, Target: "http://a.example/{payload.day}?ref={key}"},
			{Name: "name", Do: contract.StepFill, Target: "#{payload.day}", Value: "{payload.who.name} {payload.amount} {tenant}/{request_key}"},
		}}}
}

const pagePayload = `{"amount":12.5,"day":"a/../b?c","who":{"name":"Ann {key}"}}`

func TestBrowserFillsSteps(t *testing.T) {
	w := newWorld(pageOperation(), pagePayload)
	s := &script{world: w}
	_, err := s.kind().Prepare(t.Context(), w.input)
	require.NoError(t, err)
	require.Equal(t, w.input.ProviderKey, s.plan.Key)
	require.Equal(t, w.input.ProviderKey+"-2", s.plan.Artefacts)
	require.Equal(t, "http://a.example/a%2F..%2Fb%3Fc?ref="+w.input.ProviderKey, s.plan.Browser.Steps[0].Target)
	require.Equal(t, "Ann {key} 12.5 acme/inv-42", s.plan.Browser.Steps[1].Value, "a value is no template")
	require.Equal(t, "#{payload.day}", s.plan.Browser.Steps[1].Target, "a selector takes no value")
	require.Equal(t, "http://a.example/{payload.day}?ref={key}", w.input.Operation.Browser.Steps[0].Target, "the declaration is not changed")

	for payload, why := range map[string]string{
		`{"day":"1"}`: "step name: the payload has no who.name",
		`{"amount":1,"day":"1","who":{"name":["Ann"]}}`: "who.name of the payload is no text",
		`{"day":".."}`: "cannot be part of an address",
		`"text"`:       "the payload has no day",
	} {
		in := w.input
		in.Payload = json.RawMessage(payload)
		_, err := s.kind().Prepare(t.Context(), in)
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal, payload)
		require.Equal(t, admission.Failed, refusal.Class)
		require.Contains(t, refusal.Detail, why)
	}
}

func TestBrowserOutcomes(t *testing.T) {
	broke := errors.New("step done (expect): timeout")
	for _, c := range []struct {
		name   string
		script script
		class  admission.Class
		reason string
		closed int
	}{
		{"no browser", script{open: errors.New("no driver")}, admission.NotDispatched, browserFailed, 0},
		{"a step fails", script{run: broke}, admission.NotDispatched, stepFailed, 1},
		{"no effect", script{idle: true}, admission.NotDispatched, noEffect, 1},
		{"held, and the browser died", script{seen: &PageSeen{Err: broke}}, admission.NotDispatched, effectWithheld, 1},
		{"sent, no answer", script{seen: &PageSeen{Sent: true, Err: broke}}, admission.Unknown, "no_answer", 1},
		{"answered, and the page is another", script{seen: &PageSeen{Sent: true, Status: 200, Err: broke}}, admission.Unknown, "unexpected_answer", 1},
		{"the same, declared harmless", script{seen: &PageSeen{Sent: true, Status: 200, Err: broke, Values: map[string]any{"error": "taken"}}}, admission.Refused, "declared_harmless", 1},
		{"too many requests", script{seen: &PageSeen{Sent: true, Status: 429, RetryAfter: "7"}}, admission.Refused, "rate_limited", 1},
		{"an error of the site", script{seen: &PageSeen{Sent: true, Status: 503}}, admission.Unknown, "provider_error", 1},
		{"rejected", script{seen: &PageSeen{Sent: true, Status: 422}}, admission.Failed, "rejected_by_provider", 1},
		{"redirected to what is not declared", script{seen: &PageSeen{Sent: true, Status: 307, Err: broke}}, admission.Unknown, "unexpected_answer", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(pageOperation(), pagePayload)
			s := &c.script
			s.world, s.folder = w, "/artefacts/x"
			w.kind = s.kind()
			tr := newTrial(t, w)
			tr.run()
			require.NoError(t, tr.err)
			require.Equal(t, c.class, tr.got.Class, "%+v", tr.got)
			require.Equal(t, c.reason, tr.got.Reason)
			require.Equal(t, c.closed, w.closed)
			if tr.got.Status != 0 {
				require.Contains(t, string(tr.got.Result), `"artefacts":"/artefacts/x"`)
			}
			if tr.got.Status == 429 {
				require.Equal(t, 7*time.Second, tr.got.RetryAfter.D())
			}
			if c.reason == stepFailed {
				require.Equal(t, "/artefacts/x: "+broke.Error(), tr.got.Detail)
			}
		})
	}
}

func TestBrowserReads(t *testing.T) {
	op := pageOperation()
	op.Browser.Effect = ""
	w := newWorld(op, pagePayload)
	w.kind = (&script{world: w, idle: true, status: 200, values: map[string]any{"id": "ch_9"}}).kind()
	tr := newTrial(t, w)
	tr.run()
	require.Equal(t, admission.Succeeded, tr.got.Class)
	require.Equal(t, "ch_9", tr.got.Reference)
	require.Zero(t, w.effects())
}

func TestBrowserProbe(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  script
		finding string
	}{
		{"found", script{status: 200, values: map[string]any{"found": 1, "first": "ch_1"}}, contract.Happened},
		{"not found", script{status: 200, values: map[string]any{"found": 0, "first": nil}}, contract.DidNotHappen},
		{"a step fails", script{status: 200, run: errors.New("timeout"), values: map[string]any{"found": 0}}, contract.Inconclusive},
		{"no browser", script{open: errors.New("no driver")}, contract.Inconclusive},
		{"forbidden", script{status: 403, values: map[string]any{"found": 0}}, contract.Inconclusive},
		{"nothing extracted", script{status: 200}, contract.Inconclusive},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(pageOperation(), pagePayload)
			s := &c.script
			s.world, s.idle = w, true
			e := newTrial(t, w).effects
			e.Types[BrowserType] = s.kind()
			found, err := e.Probe(t.Context(), contract.ProbeInput{Tenant: "acme", Key: "inv-42", Attempt: 2, ProviderKey: "hg-1",
				Probe: contract.Probe{Happened: "body.found > 0", DidNotHappen: "body.found == 0", Reference: "body.first", Timeout: contract.Duration(time.Second),
					Visit: &contract.Visit{Steps: []contract.Step{{Name: "open", Do: contract.StepGoto, Target: "http://a.example/?ref={key}"}}}}})
			require.NoError(t, err)
			require.Equal(t, c.finding, found.Finding, found.Detail)
			require.Equal(t, contract.EvidenceLookup, found.Kind)
			if s.open == nil {
				require.Equal(t, "http://a.example/?ref=hg-1", s.plan.Browser.Steps[0].Target)
				require.Equal(t, 1, w.closed)
			}
			if c.finding == contract.Happened {
				require.Equal(t, "ch_1", found.Reference)
			}
		})
	}
	found, err := newTrial(t, ownWorld(t)).effects.Probe(t.Context(), contract.ProbeInput{Probe: contract.Probe{Visit: &contract.Visit{}}})
	require.NoError(t, err)
	require.Equal(t, contract.Inconclusive, found.Finding)
	require.Equal(t, `the type "browser" of this worker cannot look up`, found.Detail)
}
