package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"headgate/admission"
)

// budgetRow is one resource and who uses it.
type budgetRow struct {
	Name                string
	Limit               string
	Used, Reserved, Max int64 // Used of Max is drawn
	Use                 string
	Kept                string // what outcomes in doubt keep charged
	Holders             []holder
	More                int // holders that are not shown
	Grace               int // leases that are held back, since a worker may be alive
	Hold                string
}

// Percent is the part of the limit that is used, from 0 to 100.
func (b budgetRow) Percent() int64 {
	if b.Max <= 0 {
		return 0
	}
	return min(100, max(0, b.Used*100/b.Max))
}

// holder is a task that holds a part of a resource.
type holder struct {
	Tenant, Key, Operation string
	Amount                 int64
	For                    string
}

// maxHolders is how many holders of a resource are shown, the largest first.
const maxHolders = 3

func budgetsOf(v admission.View) []budgetRow {
	var rows []budgetRow
	for _, r := range v.Resources {
		row := budgetRow{Name: r.Name, Reserved: r.Reserved}
		row.hold(v, r)
		if r.Per > 0 {
			row.Max, row.Used = r.Burst, r.Burst-r.Level
			row.Limit = fmt.Sprintf("%d per %s, at most %d at once", r.Amount, length(r.Per.D()), r.Burst)
			row.Use = fmt.Sprintf("%d may be spent now", r.Level)
			if r.Level < 0 {
				row.Use = fmt.Sprintf("a debt of %d", -r.Level)
			}
		} else {
			row.Max, row.Used = r.Limit, r.Used
			row.Limit, row.Use = fmt.Sprint(r.Limit), fmt.Sprintf("%d of %d in use", r.Used, r.Limit)
			if r.Limit < r.Concurrent {
				row.Limit = fmt.Sprintf("%d, lowered from %d: the provider asked for less", r.Limit, r.Concurrent)
			}
			if r.Asked > 0 {
				row.Use += fmt.Sprintf(", %d asked of people", r.Asked)
			}
		}
		row.holders(v)
		rows = append(rows, row)
	}
	return rows
}

func (b *budgetRow) holders(v admission.View) {
	for _, l := range v.Leases {
		for _, c := range l.Cost {
			if c.Resource != b.Name || c.Amount <= 0 {
				continue
			}
			if l.Grace {
				b.Grace++
			}
			tenant, key := taskName(l.Task)
			b.Holders = append(b.Holders, holder{tenant, key, l.Operation, c.Amount, length(v.Now.Sub(l.Granted))})
		}
	}
	slices.SortStableFunc(b.Holders, func(x, y holder) int { return cmp.Compare(y.Amount, x.Amount) })
	if len(b.Holders) > maxHolders {
		b.Holders, b.More = b.Holders[:maxHolders], len(b.Holders)-maxHolders
	}
	var kept int64
	for _, d := range v.Doubts {
		for _, c := range d.Held {
			if c.Resource == b.Name {
				kept += c.Amount
			}
		}
	}
	if kept > 0 {
		b.Kept = fmt.Sprintf("%d kept by unknown outcomes", kept)
	}
}

// hold says what holds the resource back.
func (b *budgetRow) hold(v admission.View, r admission.ResourceView) {
	switch {
	case r.Held != nil:
		b.Hold = "the provider asked to wait until " + clock(*r.Held)
	case r.Next != nil && r.Next.After(v.Now):
		b.Hold = "the next fits in " + length(r.Next.Sub(v.Now))
	}
}

// waitsOn words what a tenant's first task waits on.
func waitsOn(v admission.View, t admission.TenantView) string {
	if p := t.Pause; p != nil {
		what := "dispatch"
		switch {
		case p.Dispatch && p.Admission:
			what = "dispatch and admission"
		case p.Admission:
			what = "admission"
		}
		text := "PAUSED (" + what + ") by " + cmp.Or(p.Actor, "nobody named") + " since " + clock(p.Since)
		if p.Until != nil {
			text += " until " + clock(*p.Until)
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		return text
	}
	if t.Queued == 0 {
		return "nothing waits"
	}
	text := reasonText(t.WaitingOn)
	if t.Resource != "" {
		text += ": " + t.Resource
		for _, r := range v.Resources {
			if r.Name == t.Resource && r.Held != nil {
				text += " until " + clock(*r.Held)
			}
		}
	}
	return text
}

func reasonText(reason admission.Reason) string {
	if text, ok := map[admission.Reason]string{
		"": "its turn", admission.Capacity: "capacity", admission.TurnWait: "its turn", admission.ProviderHold: "the provider asked to wait",
		admission.BreakerOpen: "the operation's breaker is open", admission.BreakerProbe: "one attempt that tries the provider first",
		admission.OperationFrozen: "the operation is frozen", admission.NotYet: "its own time", admission.Approval: "a person's approval",
		admission.TenantInFlight: "its own limit of running tasks", admission.AgentInFlight: "its agent's limit of running tasks",
		admission.Standby: "a place that is about to be free", admission.UnknownCeiling: "unknown outcomes that a person must tell",
	}[reason]; ok {
		return text
	}
	return strings.ReplaceAll(string(reason), "_", " ")
}
