package activities

import (
	"context"

	"headgate/contract"
)

// Probe plays the probe's steps in a page of its own, and applies the rules to
// what they extracted. A step that fails says nothing about the effect.
func (b *Browser) Probe(ctx context.Context, in contract.ProbeInput) contract.Evidence {
	rules, err := compile(in.Probe.Happened, in.Probe.DidNotHappen, in.Probe.Reference)
	if err != nil {
		return inconclusive(err.Error())
	}
	at := blanks{key: in.ProviderKey, tenant: in.Tenant, requestKey: in.Key}
	plan := PagePlan{Owner: in.Tenant, Browser: contract.Browser{ReadOnly: in.Probe.Visit.ReadOnly}}
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
