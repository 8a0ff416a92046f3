package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"headgate/admission"
	"headgate/client"
	"headgate/contract"
)

// words are the functions of the templates.
func (c *Console) words() template.FuncMap {
	return template.FuncMap{
		"clock": clock, "when": when, "length": length, "taskPath": taskPath, "id": domID, "waitsOn": waitsOn, "costs": costText,
		"segment": client.Segment, "words": func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
		"depth": depth, "priorities": priorities, "of": ofCap, "gate": gateText, "probe": probeText, "taskID": contract.TaskID,
		"millis": func(t time.Time) int64 { return t.UnixMilli() }, "ms": func(d time.Duration) int64 { return d.Milliseconds() },
		"decides": decides, "args": func(list ...any) []any { return list },
	}
}

// clock is how a time is written: seconds, UTC.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// when is clock for a time that may not be there.
func when(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return clock(*t)
}

// length is how a duration is written: two units at most.
func length(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d%time.Minute == 0 && d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// priorities are the columns of the tenants' table, the most urgent first.
func priorities() []admission.Priority {
	return []admission.Priority{admission.Critical, admission.High, admission.Normal, admission.Low}
}

func depth(t admission.TenantView, p admission.Priority) int {
	for _, d := range t.ByPriority {
		if d.Priority == p {
			return d.Queued
		}
	}
	return 0
}

func ofCap(n, most int) string {
	if most <= 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, most)
}

func costText(cost []admission.Cost) string {
	var parts []string
	for _, c := range cost {
		parts = append(parts, fmt.Sprintf("%s %d", c.Resource, c.Amount))
	}
	return strings.Join(parts, ", ")
}

// gateText says what holds an operation's door.
func gateText(g admission.GateView) string {
	if f := g.Frozen; f != nil {
		text := "FROZEN by " + f.Actor + " since " + clock(f.Since) + ": " + f.Reason
		if g.Stopping > 0 {
			text += fmt.Sprintf("; %d attempts may still dispatch", g.Stopping)
		}
		return text
	}
	text := reasonText(g.State)
	if g.Until != nil {
		text += " until " + clock(*g.Until)
	}
	if g.Probe != "" {
		text += "; first goes " + g.Probe
	}
	return text
}

// probeText tells the look-ups of a task in doubt.
func probeText(s contract.Stand) string {
	text := fmt.Sprintf("%d look-ups", s.Probes)
	if p := s.LastProbe; p != nil {
		text += ", the last: " + strings.ReplaceAll(p.Finding, "_", " ")
		if p.Detail != "" {
			text += " (" + p.Detail + ")"
		}
	}
	if s.NextProbe != nil {
		text += "; next " + clock(*s.NextProbe)
	}
	return text
}

// decides tells whether a person's word on the outcome of a task is waited for.
func decides(t contract.TaskView) bool { return t.Reconciliation != nil && t.Ended == nil }

// taskName splits the ID of a task; another workflow's ID is a key without tenant.
func taskName(id string) (tenant, key string) {
	tenant, key, ok := contract.ParseTaskID(id)
	if !ok {
		return "", id
	}
	return tenant, key
}
