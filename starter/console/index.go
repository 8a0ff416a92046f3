package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// maxTenants is how many tenants are shown; a search finds the others.
const maxTenants = 50

// index is the front page.
type indexPage struct {
	head
	Tiles   []tile
	Query   string
	Tenants []admission.TenantView
	Hidden  int // tenants that fit the search and are not shown
	Budgets []budgetRow
	Trend   string
}

// tile is the count of one phase.
type tile struct {
	ID    string
	Phase string
	Tasks int
	Fact  string
	Link  string // the list of them; empty: there is none
}

func (c *Console) index(w http.ResponseWriter, r *http.Request) error {
	return c.show(w, r, http.StatusOK, "index", c.indexOf(r, draft{}))
}

func (c *Console) indexOf(r *http.Request, d draft) indexPage {
	p := indexPage{head: c.head(r), Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	p.Draft = d
	p.Tiles = tilesOf(p.Look, p.Now)
	p.Tenants, p.Hidden = tenantsOf(p.Look.Queue.Tenants, p.Query)
	p.Budgets = budgetsOf(p.Look.Queue.View)
	p.Trend = trendOf(p.Look.Trend)
	return p
}

func tilesOf(l *look, now time.Time) []tile {
	facts := map[contract.Phase]string{
		contract.PhaseAccepted: "nothing sent", contract.PhaseLeased: "no worker yet", contract.PhaseClaimed: "nothing sent yet",
		contract.PhaseDispatched: "effect in flight", contract.PhaseReconciling: "being looked up", contract.PhaseSucceeded: "with proof",
		contract.PhaseFailed: "no effect outstanding", contract.PhaseExpired: "never dispatched", contract.PhaseUnknown: "a person must tell",
		contract.PhaseCancelled: "before any effect", contract.PhaseRejected: "started without us",
	}
	if l.Queue.OldestAge > 0 {
		facts[contract.PhaseAccepted] = "oldest " + length(l.Queue.OldestAge.D())
	}
	var oldest *time.Time
	for _, t := range l.Unknown.Tasks {
		if s := t.Reconciliation; s != nil && (oldest == nil || s.Since.Before(*oldest)) {
			oldest = &s.Since
		}
	}
	if oldest != nil {
		facts[contract.PhaseUnknown] = "oldest " + length(now.Sub(*oldest))
	}
	var tiles []tile
	for _, p := range l.Phases.Phases {
		tiles = append(tiles, tile{string(p.Phase), string(p.Phase), p.Tasks, facts[p.Phase], Root + "/tasks?phase=" + string(p.Phase)})
	}
	if n := l.Phases.Unlooked; n > 0 {
		tiles = append(tiles, tile{"unlooked", "leased, more", n, "how far is not looked at", ""})
	}
	if n := l.Phases.Outside; n > 0 {
		tiles = append(tiles, tile{"outside", "ended outside", n, "failed or unknown", ""})
	}
	return tiles
}

// Sum says whether the tiles add up to all tasks.
func (p indexPage) Sum() string {
	c := p.Look.Phases
	sum := c.Sum()
	switch {
	case sum == c.Total:
		return fmt.Sprintf("%d tasks: the phases add up.", c.Total)
	case !p.Mismatch():
		return fmt.Sprintf("%d tasks, %d in phases: some moved while they were counted.", c.Total, sum)
	}
	return fmt.Sprintf("Ledger mismatch: %d tasks, %d in phases.", c.Total, sum)
}

// Mismatch tells that the counts did not add up three times in a row, which
// tasks that move do not explain.
func (p indexPage) Mismatch() bool { return p.Look.Off >= 3 }

// tenantsOf are the tenants that fit a search, those that are paused and those
// with the deepest queues first.
func tenantsOf(all []admission.TenantView, query string) (shown []admission.TenantView, hidden int) {
	for _, t := range all {
		if strings.Contains(strings.ToLower(t.Name), strings.ToLower(query)) {
			shown = append(shown, t)
		}
	}
	rank := func(t admission.TenantView) int {
		if t.Pause != nil {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(shown, func(a, b admission.TenantView) int {
		return cmp.Or(rank(a)-rank(b), b.Queued-a.Queued, b.InFlight-a.InFlight, strings.Compare(a.Name, b.Name))
	})
	if len(shown) > maxTenants {
		shown, hidden = shown[:maxTenants], len(shown)-maxTenants
	}
	return shown, hidden
}

// trendOf are the points of the line of waiting tasks, in a box of 300 by 40.
func trendOf(samples []sample) string {
	if len(samples) < 2 {
		return ""
	}
	most := 1
	for _, s := range samples {
		most = max(most, s.Depth)
	}
	first, last := samples[0].At, samples[len(samples)-1].At
	span := max(last.Sub(first), time.Second)
	var points strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&points, "%.1f,%.1f ", 300*float64(s.At.Sub(first))/float64(span), 39-38*float64(s.Depth)/float64(most))
	}
	return strings.TrimSpace(points.String())
}
