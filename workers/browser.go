package workers

import (
	"context"

	"go.temporal.io/sdk/worker"

	"headgate/activities"
	"headgate/activities/playwright"
)

// DefaultPages is how many effects the role browser runs at once, if Options.Slots
// says nothing: a page takes 60 MB and most of a core.
const DefaultPages = 4

// browser is the role of effects on web pages. All of them share the browser of
// the process, which is started by the first.
func browser() role {
	r := effects(activities.BrowserType, nil)
	r.register = func(r worker.Registry, o Options, identity string) {
		pages := &activities.Browser{Open: func(ctx context.Context, plan activities.PagePlan) (activities.Page, error) {
			session, err := o.pages.Open(ctx, playwright.Plan(plan))
			if err != nil {
				return nil, err
			}
			return page{session}, nil
		}}
		activities.RegisterEffects(r, &activities.Effects{
			Client: o.Client,
			Types:  map[string]activities.Type{activities.BrowserType: pages},
			Worker: identity,
			Build:  o.Build,
			Log:    o.Log,
		})
	}
	r.options = func(o Options) worker.Options {
		if o.slotsUnsaid {
			o.Slots = DefaultPages
		}
		return effectOptions(o)
	}
	return r
}

// page is a session in the words of the activities, which do not know Playwright.
type page struct{ *playwright.Session }

// Send lets the effect go.
func (p page) Send(ctx context.Context, may func() error) activities.PageSeen {
	return activities.PageSeen(p.Session.Send(ctx, may))
}
