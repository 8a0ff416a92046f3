package activities

import (
	"context"

	"headgate/contract"
)

// Prober is a type of effects that looks them up in its own way.
type Prober interface {
	// Probe never fails: what could not be looked at is inconclusive.
	Probe(ctx context.Context, in contract.ProbeInput) contract.Evidence
}

// visit looks an effect up in a browser.
func (e *Effects) visit(ctx context.Context, in contract.ProbeInput) contract.Evidence {
	prober, ok := e.Types[BrowserType].(Prober)
	if !ok {
		return inconclusive("this worker has no browser")
	}
	ctx, cancel := context.WithTimeout(ctx, in.Probe.Timeout.D())
	defer cancel()
	return prober.Probe(ctx, in)
}

// Probe plays the probe's steps in a page of its own, and applies the rules to
// what they extracted. A step that fails says nothing about the effect.
func (b *Browser) Probe(ctx context.Context, in contract.ProbeInput) contract.Evidence {
	rules, err := compile(in.Probe.Happened, in.Probe.DidNotHappen, in.Probe.Reference)
	if err != nil {
		return inconclusive(err.Error())
	}
	at := blanks{key: in.ProviderKey, tenant: in.Tenant, requestKey: in.Key}
	plan := PagePlan{Browser: contract.Browser{ReadOnly: in.Probe.Visit.ReadOnly}}
	if plan.Browser.Steps, err = fillSteps(in.Probe.Visit.Steps, at); err != nil {
		return inconclusive(err.Error())
	}
	page, err := b.Open(ctx, plan)
	if err != nil {
		return inconclusive(err.Error())
	}
	defer func() { _ = page.Close() }()
	if _, err := page.Run(ctx); err != nil {
		return inconclusive(err.Error())
	}
	return judge(pageReading(page.Page()), rules)
}
