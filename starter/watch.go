package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headgate/starter/gateway"
)

// leastWatch keeps a watcher from being a load: each look is a query of the budget.
const leastWatch = time.Second

func newWatchCommand() *cobra.Command {
	var d door
	var every time.Duration
	var looks int
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show what runs and waits, again and again",
		Long: `Watch looks at the budget again and again. On a terminal the view of "headgate
queue" is drawn anew; elsewhere each look is one line, so that it can be kept. It
goes on while the gateway does not answer, and ends with Ctrl-C. NO_COLOR keeps the
terminal to plain text.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < leastWatch {
				return withStatus(exitUsage, "--every %s: want %s or more", every, leastWatch)
			}
			ctx, stop := untilSignal(c.Context())
			defer stop()
			return d.watch(ctx, c.OutOrStdout(), every, looks)
		},
	}
	d.flags(c)
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time between two looks")
	c.Flags().IntVar(&looks, "looks", 0, "end after so many (default: at Ctrl-C)")
	return c
}

// watch looks until ctx ends, or so many times. What the last look saw decides the
// exit status.
func (d *door) watch(ctx context.Context, w io.Writer, every time.Duration, looks int) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; ; n++ {
		err := d.look(ctx, w)
		if special := (*statusError)(nil); err != nil && (!errors.As(err, &special) || special.status == exitUsage) {
			return err
		}
		if n == looks || ctx.Err() != nil {
			return ended(ctx, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look shows the budget once. What keeps it from that is shown, too, and returned.
func (d *door) look(ctx context.Context, w io.Writer) error {
	var view gateway.QueueView
	err := d.get(ctx, "/v1/queue", nil, &view)
	if ctx.Err() != nil {
		return nil
	}
	at := time.Now().UTC().Format(time.TimeOnly)
	switch {
	case d.json && err == nil:
		return json.NewEncoder(w).Encode(view)
	case d.json:
		return err
	case isTerminal(w):
		return errors.Join(draw(w, at, view, err), err)
	case err != nil:
		first, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(w, "%s  %s\n", at, cell(first))
		return err
	}
	_, err = fmt.Fprintf(w, "%s  %s\n", at, queueLine(view))
	return err
}

// draw fills the terminal anew, in one write, so that it does not flicker.
func draw(w io.Writer, at string, view gateway.QueueView, failed error) error {
	var page bytes.Buffer
	page.WriteString("\x1b[H\x1b[2J")
	title := "headgate watch  " + at + " UTC"
	if styled(w) {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	fmt.Fprintf(&page, "%s\n\n", title)
	if failed != nil {
		fmt.Fprintln(&page, failed)
	} else if err := printQueue(&page, view, true); err != nil {
		return err
	}
	_, err := w.Write(page.Bytes())
	return err
}

// queueLine is the budget in one line: what waits, on what, and what runs.
func queueLine(v gateway.QueueView) string {
	parts := []string{fmt.Sprintf("%d wait, %d run", v.Depth, v.InFlight)}
	if v.Depth > 0 && v.OldestAge > 0 {
		parts[0] += ", the oldest for " + short(v.OldestAge.D())
	}
	for _, t := range v.Tenants {
		if t.Queued > 0 {
			on := cmp.Or(strings.TrimSpace(string(t.WaitingOn)+" "+t.Resource), "nothing")
			parts = append(parts, fmt.Sprintf("%s: %d wait on %s", t.Name, t.Queued, on))
		}
	}
	for _, g := range v.Gates {
		parts = append(parts, fmt.Sprintf("%s: %s", g.Operation, g.State))
	}
	doubts := 0
	for _, d := range v.Doubts {
		doubts += d.Tasks
	}
	if doubts > 0 {
		parts = append(parts, fmt.Sprintf("%d in doubt (headgate unknown)", doubts))
	}
	return cell(strings.Join(parts, "; "))
}
