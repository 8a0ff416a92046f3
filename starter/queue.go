package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headgate/admission"
)

func newQueueCommand() *cobra.Command {
	var d door
	var leases bool
	c := &cobra.Command{
		Use:   "queue",
		Short: "Show what runs, what waits, and on what",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var view admission.View
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

func printQueue(w io.Writer, v admission.View, leases bool) error {
	fmt.Fprintf(w, "%d wait (soft limit %d, hard %d), the oldest for %s; %d run", v.Depth, v.Soft, v.Hard, short(v.OldestAge.D()), v.InFlight)
	if v.Interval > 0 {
		fmt.Fprintf(w, "; one starts every %s", short(v.Interval.D()))
	}
	fmt.Fprintln(w)

	rows := make([][]string, 0, len(v.Resources))
	for _, r := range v.Resources {
		rows = append(rows, resourceRow(r, v.Now))
	}
	fmt.Fprintln(w)
	if err := table(w, []string{"RESOURCE", "LIMIT", "USED", "FREE", "NOTE"}, rows); err != nil {
		return err
	}

	if len(v.Gates) > 0 {
		if err := printGates(w, v.Gates, v.Now); err != nil {
			return err
		}
	}

	rows = make([][]string, 0, len(v.Tenants))
	for _, t := range v.Tenants {
		rows = append(rows, []string{t.Name, fmt.Sprint(t.Weight), ofCap(t.InFlight, t.MaxInFlight), ofCap(t.Queued, t.MaxQueued),
			byPriority(t.ByPriority), short(t.OldestAge.D()), strings.TrimSpace(string(t.WaitingOn) + " " + t.Resource), pauseText(t.Pause)})
	}
	fmt.Fprintln(w)
	if err := table(w, []string{"TENANT", "WEIGHT", "RUN", "WAIT", "BY PRIORITY", "OLDEST", "WAITS ON", "PAUSE"}, rows); err != nil || !leases {
		return err
	}

	rows = make([][]string, 0, len(v.Leases))
	for _, l := range v.Leases {
		note := ""
		if l.Grace {
			note = "held back: its worker may be alive"
		}
		rows = append(rows, []string{l.ID, l.Task, fmt.Sprint(l.Attempt), l.Operation, short(v.Now.Sub(l.Granted)), costText(l.Cost), note})
	}
	fmt.Fprintln(w)
	return table(w, []string{"LEASE", "TASK", "ATTEMPT", "OPERATION", "FOR", "COST", "NOTE"}, rows)
}

func resourceRow(r admission.ResourceView, now time.Time) []string {
	note := ""
	if r.Held != nil {
		note = "the provider asks for a pause of " + short(r.Held.Sub(now))
	}
	if r.Concurrent > 0 {
		limit := r.Concurrent
		if r.Limit > 0 && r.Limit < r.Concurrent {
			limit, note = r.Limit, strings.Join(nonEmpty(fmt.Sprintf("lowered from %d", r.Concurrent), note), "; ")
		}
		return []string{r.Name, fmt.Sprint(limit), fmt.Sprint(r.Used), fmt.Sprint(max(0, limit-r.Used)), note}
	}
	if r.Level < 0 {
		note = strings.Join(nonEmpty("a debt", note), "; ")
	}
	if r.Next != nil {
		note = strings.Join(nonEmpty(note, "the next fits in "+short(r.Next.Sub(now))), "; ")
	}
	return []string{r.Name, fmt.Sprintf("%d per %s", r.Amount, short(r.Per.D())), "", fmt.Sprint(r.Level), note}
}

func printGates(w io.Writer, gates []admission.GateView, now time.Time) error {
	rows := make([][]string, 0, len(gates))
	for _, g := range gates {
		until := ""
		if g.Until != nil {
			until = short(g.Until.Sub(now))
		}
		rows = append(rows, []string{g.Operation, string(g.State), until, g.Probe})
	}
	fmt.Fprintln(w)
	return table(w, []string{"OPERATION", "HELD BY", "FOR", "FIRST"}, rows)
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

func pauseText(p *admission.Pause) string {
	if p == nil {
		return ""
	}
	what := "dispatch"
	switch {
	case p.Dispatch && p.Admission:
		what = "dispatch and admission"
	case p.Admission:
		what = "admission"
	}
	text := what + " by " + p.Actor
	if p.Until != nil {
		text += " until " + stamp(p.Until)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

func costText(cost []admission.Cost) string {
	var parts []string
	for _, c := range cost {
		parts = append(parts, fmt.Sprintf("%s %d", c.Resource, c.Amount))
	}
	return strings.Join(parts, ", ")
}
