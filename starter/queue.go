package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headgate/admission"
	"headgate/starter/gateway"
)

func newQueueCommand() *cobra.Command {
	var d door
	var leases bool
	c := &cobra.Command{
		Use:   "queue",
		Short: "Show what runs, what waits, and on what",
		Long: `Queue shows the budget as it stands: what is left of each resource, what a
provider or a breaker holds back and until when, and what each tenant has running
and waiting. "headgate why TENANT KEY" asks about one task.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var view gateway.QueueView
			if err := d.get(c.Context(), "/v1/queue", url.Values{}, &view); err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), view)
			}
			return printQueue(c.OutOrStdout(), view, leases)
		},
	}
	d.flags(c)
	c.Flags().BoolVar(&leases, "leases", false, "show each lease")
	return c
}

func printQueue(w io.Writer, v gateway.QueueView, leases bool) error {
	if v.File != "" {
		fmt.Fprintf(w, `The budget runs another policy (%s) than the gateway was started with (%s).
headgate apply --dry-run shows the difference to a file, headgate apply puts it in force.

`, shortDigest(v.Policy), shortDigest(v.File))
	}
	fmt.Fprintf(w, "%d wait (soft limit %d, hard %d)", v.Depth, v.Soft, v.Hard)
	if v.Depth > 0 {
		fmt.Fprintf(w, ", the oldest for %s", short(v.OldestAge.D()))
	}
	fmt.Fprintf(w, "; %d run.", v.InFlight)
	if v.Interval > 0 {
		fmt.Fprintf(w, " One starts every %s", short(v.Interval.D()))
		if v.Depth > 0 {
			fmt.Fprintf(w, ", so the last in about %s", short(time.Duration(v.Depth)*v.Interval.D()))
		}
		fmt.Fprint(w, ".")
	}
	fmt.Fprintln(w)

	tables := []section{resourceTable(v.View), holdTable(v.View), doubtTable(v.View), tenantTable(v.View), pauseTable(v.View)}
	if leases {
		tables = append(tables, leaseTable(v.View))
	}
	for _, t := range tables {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := table(w, t.head, t.rows); err != nil {
			return err
		}
	}
	return nil
}

// section is one table of the queue; one without rows is left out.
type section struct {
	head []string
	rows [][]string
}

func resourceTable(v admission.View) section {
	t := section{head: []string{"RESOURCE", "LIMIT", "USED", "FREE", "NOTE"}}
	for _, r := range v.Resources {
		if r.Concurrent > 0 {
			limit, note := fmt.Sprint(r.Concurrent), ""
			if r.Limit < r.Concurrent {
				limit, note = fmt.Sprintf("%d of %d", r.Limit, r.Concurrent), "lowered: the provider asked for less"
			}
			t.rows = append(t.rows, []string{r.Name, limit, fmt.Sprint(r.Used), fmt.Sprint(max(0, r.Limit-r.Used)), note})
			continue
		}
		note := ""
		if r.Level < 0 {
			note = "a debt"
		}
		if r.Next != nil {
			note = strings.Join(nonEmpty(note, "the next fits in "+short(r.Next.Sub(v.Now))), "; ")
		}
		t.rows = append(t.rows, []string{r.Name, fmt.Sprintf("%d per %s", r.Amount, short(r.Per.D())), "", fmt.Sprint(r.Level), note})
	}
	return t
}

// holdTable is what a provider or a breaker holds back.
func holdTable(v admission.View) section {
	t := section{head: []string{"HELD BACK", "BY", "UNTIL", "TRIED FIRST"}}
	until := func(at *time.Time) string {
		if at == nil {
			return ""
		}
		return fmt.Sprintf("%s, in %s", stamp(at), short(at.Sub(v.Now)))
	}
	for _, g := range v.Gates {
		by, end := string(g.State), until(g.Until)
		if g.Frozen != nil {
			by, end = "frozen by "+g.Frozen.Actor+": "+g.Frozen.Reason, "headgate unfreeze"
			if g.Stopping > 0 {
				by += fmt.Sprintf("; %d may still dispatch", g.Stopping)
			}
		}
		t.rows = append(t.rows, []string{"operation " + g.Operation, by, end, g.Probe})
	}
	for _, r := range v.Resources {
		if r.Held != nil {
			t.rows = append(t.rows, []string{"resource " + r.Name, string(admission.ProviderHold), until(r.Held), ""})
		}
	}
	return t
}

// doubtTable is what tasks in doubt hold.
func doubtTable(v admission.View) section {
	t := section{head: []string{"IN DOUBT", "TENANT", "TASKS", "OLDEST", "STILL CHARGED", "NEXT"}}
	for _, d := range v.Doubts {
		next := "headgate unknown"
		if d.Tasks >= d.Ceiling {
			next = "nothing new starts: headgate unknown, headgate resolve"
		}
		t.rows = append(t.rows, []string{d.Operation, d.Tenant, ofCap(d.Tasks, d.Ceiling), short(v.Now.Sub(d.Since)), costText(d.Held), next})
	}
	return t
}

func tenantTable(v admission.View) section {
	t := section{head: []string{"TENANT", "WEIGHT", "RUN", "WAIT", "BY PRIORITY", "OLDEST", "WAITS ON"}}
	for _, n := range v.Tenants {
		oldest := ""
		if n.Queued > 0 {
			oldest = short(n.OldestAge.D())
		}
		t.rows = append(t.rows, []string{n.Name, fmt.Sprint(n.Weight), ofCap(n.InFlight, n.MaxInFlight), ofCap(n.Queued, n.MaxQueued),
			byPriority(n.ByPriority), oldest, strings.TrimSpace(string(n.WaitingOn) + " " + n.Resource)})
	}
	return t
}

func pauseTable(v admission.View) section {
	t := section{head: []string{"PAUSED", "WHAT", "BY", "SINCE", "UNTIL", "WHY"}}
	for _, n := range v.Tenants {
		if p := n.Pause; p != nil {
			t.rows = append(t.rows, []string{n.Name, paused(*p), p.Actor, stamp(&p.Since), cmp.Or(stamp(p.Until), "resumed"), p.Reason})
		}
	}
	return t
}

func paused(p admission.Pause) string {
	switch {
	case p.Dispatch && p.Admission:
		return "dispatch and admission"
	case p.Admission:
		return "admission"
	}
	return "dispatch"
}

func leaseTable(v admission.View) section {
	t := section{head: []string{"LEASE", "TASK", "ATTEMPT", "OPERATION", "FOR", "COST", "NOTE"}}
	for _, l := range v.Leases {
		note := ""
		if l.Grace {
			note = "held back: its worker may be alive"
		}
		t.rows = append(t.rows, []string{l.ID, l.Task, fmt.Sprint(l.Attempt), l.Operation, short(v.Now.Sub(l.Granted)), costText(l.Cost), note})
	}
	return t
}

func ofCap(n, most int) string {
	if most <= 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, most)
}

func byPriority(list []admission.PriorityDepth) string {
	var parts []string
	for _, p := range list {
		if p.Queued > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.Priority, p.Queued))
		}
	}
	return strings.Join(parts, ", ")
}

func costText(cost []admission.Cost) string {
	var parts []string
	for _, c := range cost {
		parts = append(parts, fmt.Sprintf("%s %d", c.Resource, c.Amount))
	}
	return strings.Join(parts, ", ")
}
