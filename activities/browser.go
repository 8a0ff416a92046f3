package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// BrowserType is the operation type that Browser serves.
const BrowserType = "browser"

// Reasons of outcomes of browser operations, beside those of admission.Classify.
const (
	browserFailed  = "browser_failed"  // the browser did not start, or died, before the effect was held
	stepFailed     = "step_failed"     // a step before the effect failed
	noEffect       = "no_effect"       // all steps are over, and the effect was never asked for
	effectWithheld = "effect_withheld" // it was held, and did not come to the last gate
)

// Browser makes effects that are one request of a web page. The steps run up to
// that request, which is held in the browser; the checkpoint is made; then it is
// let go. A step that succeeds says nothing about the effect: only the answer to
// the held request and the page that follows do.
type Browser struct {
	// Open opens a page. It ends soon after ctx does.
	Open func(ctx context.Context, plan PagePlan) (Page, error)
	Now  func() time.Time // nil: time.Now
}

// PagePlan is what a page is to do, with all values filled in.
type PagePlan struct {
	Browser   contract.Browser
	Owner     string // the tenant
	Key       string // value of the idempotency header
	Artefacts string // name of the folder for what is kept of a failure; empty: nothing is
}

// Page is one plan in a browser.
type Page interface {
	// Run plays the steps until the effect is held, or all are over.
	Run(ctx context.Context) (held bool, err error)
	// Send lets the held effect go if may, asked once at the last moment, answers
	// nil, and plays the rest.
	Send(ctx context.Context, may func() error) PageSeen
	// Page is the status of the last page, and what was extracted so far.
	Page() (status int, values map[string]any)
	// Keep keeps artefacts of a failure, and tells where; empty: there are none.
	Keep() (folder string)
	Close() error
}

// PageSeen is what is known at a page's end.
type PageSeen struct {
	Sent       bool // the effect may have left
	Status     int  // of its answer; zero: none was seen
	RetryAfter string
	Values     map[string]any
	Err        error // why the steps did not come to their end; nil: they did
}

// Prepare plays the steps up to the effect.
func (b *Browser) Prepare(ctx context.Context, in contract.EffectInput) (Prepared, error) {
	spec := in.Operation.Browser
	if spec == nil {
		return nil, invalidOperation("the operation has no steps for a browser")
	}
	rules, err := compile(cmp.Or(spec.Success, defaultSuccess), spec.Harmless, spec.Reference)
	if err != nil {
		return nil, invalidOperation(err.Error())
	}
	plan := PagePlan{Browser: *spec, Owner: in.Tenant, Key: in.ProviderKey, Artefacts: fmt.Sprintf("%s-%d", in.ProviderKey, in.Attempt)}
	if plan.Browser.Steps, err = fillSteps(spec.Steps, blanksOf(in)); err != nil {
		return nil, &Refusal{Class: admission.Failed, Reason: "invalid_payload", Detail: brief(err.Error())}
	}
	page, err := b.Open(ctx, plan)
	if err != nil {
		return nil, &Refusal{Class: admission.NotDispatched, Reason: browserFailed, Detail: brief(err.Error())}
	}
	held, err := page.Run(ctx)
	switch {
	case err != nil:
		return nil, giveUp(page, stepFailed, err.Error())
	case !held && spec.Effect != "":
		return nil, giveUp(page, noEffect, "the steps are over and asked for no "+spec.Effect)
	}
	return &browserEffect{Page: page, held: held, rules: rules, now: b.now}, nil
}

func (b *Browser) now() time.Time {
	if b.Now == nil {
		return time.Now()
	}
	return b.Now()
}

// giveUp closes a page that came to no effect.
func giveUp(page Page, reason, detail string) error {
	if folder := page.Keep(); folder != "" {
		detail = folder + ": " + detail
	}
	_ = page.Close()
	return &Refusal{Class: admission.NotDispatched, Reason: reason, Detail: brief(detail)}
}

// browserEffect is a page that holds the effect.
type browserEffect struct {
	Page
	held  bool
	rules *rules
	now   func() time.Time
}

// Effect lets the request go and plays the rest of the steps.
func (e *browserEffect) Effect(ctx context.Context, guard *Guard) contract.Outcome {
	if !e.held {
		status, values := e.Page.Page()
		return e.answered(PageSeen{Sent: true, Status: status, Values: values})
	}
	seen := e.Send(ctx, guard.MaySend)
	if !seen.Sent {
		o := contract.Outcome{Class: admission.NotDispatched, Reason: effectWithheld}
		if refusal := guard.Refusal(); refusal != nil {
			o.Reason = refusal.Error()
		} else if seen.Err != nil {
			o.Detail = brief(seen.Err.Error())
		}
		return o
	}
	return e.answered(seen)
}

// answered classifies what was seen. An answer after which the page is not as
// expected satisfies no rule: the site may have said no in its own words.
func (e *browserEffect) answered(seen PageSeen) contract.Outcome {
	a := pageReading(seen.Status, seen.Values)
	answer := admission.Answer{Sent: true, Status: seen.Status}
	if seen.Status != 0 {
		answer.OK = seen.Err == nil && e.rules.yes(a)
		answer.Harmless = e.rules.no(a)
	}
	o := contract.Outcome{Status: seen.Status, Result: a.raw}
	if o.Class, o.Reason = admission.Classify(answer); o.Class == admission.Succeeded {
		o.Reference = e.rules.reference(a)
		return o
	}
	o.RetryAfter = contract.Duration(retryAfter(http.Header{"Retry-After": {seen.RetryAfter}}, e.now()))
	if seen.Err != nil {
		o.Detail = brief(seen.Err.Error())
	}
	if folder := e.Keep(); folder != "" {
		values := maps.Clone(seen.Values)
		if values == nil {
			values = map[string]any{}
		}
		values["artefacts"] = folder
		o.Result = pageReading(seen.Status, values).raw
	}
	return o
}

// pageReading gives rules what a page said.
func pageReading(status int, values map[string]any) reading {
	if values == nil {
		values = map[string]any{}
	}
	raw, err := json.Marshal(values)
	if err != nil || len(raw) > maxAnswer {
		return reading{status: status, broken: true, detail: "what was extracted cannot be kept"}
	}
	return reading{status: status, raw: raw, body: decode(raw)}
}
