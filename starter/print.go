package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"headgate/contract"
)

// printJSON writes an answer for programs.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table writes rows in columns. Cells hold no tabs or line ends.
func table(w io.Writer, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return t.Flush()
}

// cell makes a text safe for one cell of a terminal: texts come from providers
// and other people.
func cell(s string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if clean == "" {
		return "-"
	}
	return clean
}

// pairs writes a list of names and values; empty values are left out.
func pairs(w io.Writer, list ...string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i := 0; i+1 < len(list); i += 2 {
		if list[i+1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", list[i], cell(list[i+1]))
		}
	}
	return t.Flush()
}

// printTask writes everything about one task.
func printTask(w io.Writer, v contract.TaskView) error {
	state := string(v.Phase)
	if v.CancelRequested && !v.Phase.End() {
		state += ", cancel requested"
	}
	retries := make([]string, 0, len(v.Retries))
	for _, c := range v.Retries {
		retries = append(retries, fmt.Sprintf("%s %d", c.Class, c.N))
	}
	waits := make([]string, 0, len(v.WaitingOn))
	for _, on := range v.WaitingOn {
		waits = append(waits, strings.TrimSpace(on.Reason+" "+on.Resource))
	}
	list := []string{
		"task", v.Task,
		"operation", v.Operation,
		"priority", v.Priority.String(),
		"agent", v.Agent,
		"intent", v.Intent,
		"same intent", sameIntentText(v),
		"phase", state,
		"delivery", v.DeliveryState,
		"execution", v.ExecutionState,
		"accepted", stamp(v.Accepted),
		"ended", stamp(v.Ended),
		"waiting on", strings.Join(waits, ", "),
		"position", positive(v.Position),
		"estimated start", stamp(v.EstimatedStart),
		"attempts", fmt.Sprint(v.Attempts),
		"retries", strings.Join(retries, ", "),
		"worker", v.Worker,
		"error", v.ErrorClass,
		"detail", v.Detail,
		"reference", v.Reference,
		"result", string(v.Result),
		"payload hash", v.PayloadHash,
	}
	if a := v.Approval; a != nil {
		list = append(list, "approval until", stamp(&a.Expires), "declaration", a.Digest, "version", fmt.Sprint(a.Version))
	}
	if s := v.Reconciliation; s != nil {
		list = append(list, "look-ups", fmt.Sprint(s.Probes), "next look-up", stamp(s.NextProbe), "version", fmt.Sprint(s.Version))
	}
	for _, e := range v.Evidence {
		list = append(list, "evidence", strings.Join(nonEmpty(e.Kind, e.Finding, e.Actor, e.Reference, e.Detail), ", "))
	}
	return pairs(w, append(list, "held", costText(v.Held), "next step", v.NextStep, "next", v.NextAction)...)
}

func sameIntentText(v contract.TaskView) string {
	if !v.SameIntent {
		return ""
	}
	return "this is the earlier task that has it; nothing was stored for the key that was sent"
}

// printTasks writes one line a task.
func printTasks(w io.Writer, tasks []contract.TaskView, now time.Time) error {
	rows := make([][]string, 0, len(tasks))
	for _, v := range tasks {
		rows = append(rows, []string{v.Tenant, v.Key, v.Operation, v.Priority.String(), string(v.Phase),
			fmt.Sprint(v.Attempts), age(v.Accepted, now), v.NextAction})
	}
	return table(w, []string{"TENANT", "KEY", "OPERATION", "PRIORITY", "PHASE", "ATTEMPTS", "AGE", "NEXT"}, rows)
}

func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func age(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	return short(now.Sub(*t))
}

// short writes a duration to two digits or so.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return withoutSeconds(d.Round(time.Second).String())
	case d < 48*time.Hour:
		return withoutSeconds(d.Round(time.Minute).String())
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// withoutSeconds leaves seconds out that are none; 1m30s has some.
func withoutSeconds(d string) string {
	if minutes, none := strings.CutSuffix(d, "m0s"); none {
		return minutes + "m"
	}
	return d
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func nonEmpty(list ...string) []string {
	var full []string
	for _, s := range list {
		if s != "" {
			full = append(full, s)
		}
	}
	return full
}
