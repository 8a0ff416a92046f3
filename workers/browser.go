package workers

import (
	"context"
	"slices"

	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"headgate/activities"
	"headgate/activities/playwright"
	"headgate/config"
)

// DefaultPages is how many effects the role browser runs at once, if Options.Slots
// says nothing: a page takes 60 MB and most of a core.
const DefaultPages = 4

// browser is the role of effects on web pages. All of them share the browser of
// the process, which is started by the first.
func browser() role {
	r := effects(activities.BrowserType, nil)
	r.browser = true
	r.register = func(r worker.Registry, o Options, identity string) {
		pages := &activities.Browser{Open: func(ctx context.Context, plan activities.PagePlan) (activities.Page, error) {
			session, err := o.pages.Open(ctx, playwright.Plan(plan))
			if err != nil {
				return nil, err
			}
			return page{session}, nil
		}}
		activities.RegisterEffects(r, &activities.Effects{
			Client:  o.Client,
			Types:   map[string]activities.Type{activities.BrowserType: pages},
			Network: o.network(),
			Worker:  identity,
			Build:   o.Build,
			Log:     o.Log,
		})
	}
	r.options = func(o Options) worker.Options {
		if o.slotsUnsaid {
			o.Slots = DefaultPages
		}
		o.Slots = slotsFor(o, activities.BrowserType)
		return effectOptions(o)
	}
	return r
}

// browses tells whether any operation needs a browser.
func browses(c *config.Config) bool {
	return slices.ContainsFunc(c.Operations, func(o config.Operation) bool { return o.Declared.Type == activities.BrowserType })
}

// startBrowser has the browser ready for the first task, which has little time. A
// browser that does not start is not the end: each task tries again.
func startBrowser(ctx context.Context, o Options) {
	if err := o.pages.Start(ctx); err != nil && ctx.Err() == nil {
		o.Log.Error("the browser does not start", zap.Error(err))
	}
}

// page is a session in the words of the activities, which do not know Playwright.
type page struct{ *playwright.Session }

// Send lets the effect go.
func (p page) Send(ctx context.Context, may func() error) activities.PageSeen {
	return activities.PageSeen(p.Session.Send(ctx, may))
}
