package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Figure is one measured number.
type Figure struct {
	Key   string  `json:"-"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Pairs are the raw measurements that the value comes from, in the order in
	// which they were made; Sides says what the two numbers of a pair are.
	Pairs   [][2]float64       `json:"pairs"`
	Sides   [2]string          `json:"sides"`
	Meaning string             `json:"meaning"`
	Detail  map[string]float64 `json:"detail,omitempty"` // medians of what the value is made of
}

// Report is a whole run.
type Report struct {
	Figures  []Figure
	Failures []string // parts that could not be measured, and why
	Seconds  float64
}

// kind is what is known of a figure before it is measured.
type kind struct {
	key, part, unit string
	first, second   string // sides
	meaning         string
}

// catalogue is every figure, in the order of the table.
var catalogue = []kind{
	{"uncontended_ratio", "uncontended", "ratio", "headgate tasks/s", "bare tasks/s",
		"throughput with capacity free, as a share of the bare workflow's; higher is better"},
	{"bare_tasks_per_s", "uncontended", "tasks/s", "headgate tasks/s", "bare tasks/s",
		"what the bare workflow does here; tells machines apart"},
	{"uncontended_p50_ratio", "uncontended", "ratio", "headgate ms", "bare ms",
		"time of one task for a single caller, request to known end, over the bare one's; lower is better"},
	{"extra_events", "uncontended", "events", "headgate events/task", "bare events/task",
		"history events that a task costs more, the budget's included; lower is better"},
	{"uncontended_cpu_ratio", "uncontended", "ratio", "headgate CPU ms/task", "bare CPU ms/task",
		"processor time of server and processes a task, over the bare one's; lower is better"},
	{"queued_ratio", "queued", "ratio", "headgate tasks/s", "bare tasks/s",
		"throughput of 64 callers through 8 slots, as a share of the bare workflow's; higher is better"},
	{"queued_cpu_ratio", "queued", "ratio", "headgate CPU ms/task", "bare CPU ms/task",
		"processor time a task, most of which queue, over the bare one's; lower is better"},
	{"refusals_per_s", "refusals", "refusals/s", "refusals/s", "GET /healthz/s",
		"requests that a full budget refuses in a second, beside what HTTP alone does; higher is better"},
	{"refusal_events", "refusals", "events", "events in a flood", "events in as long a silence",
		"history events of the budget that a flood of refusals causes; should be 0"},
	{"handoff_p50_ms", "handoff", "ms", "headgate ms", "bare ms",
		"one slot: from the end of an effect to the start of the next; lower is better"},
	{"handoff_p99_ms", "handoff", "ms", "headgate ms", "bare ms",
		"the same for the slowest of a hundred; lower is better"},
	{"handoff_ratio", "handoff", "ratio", "headgate p50 ms", "bare p50 ms",
		"the hand-off over that of a bare worker with one activity slot; lower is better"},
	{"utilisation", "utilisation", "share", "headgate", "bare, a queue for each tenant",
		"use of 8 slots by 4 tenants with 2 each and 200 ms effects; 1 is all of the time"},
	{"share_error", "shares", "share", "headgate", "bare, with fairness keys",
		"weights 1:2:4: the largest deviation of a tenant's effect time from its share; 0 is exact"},
	{"jain", "shares", "index", "headgate", "bare, with fairness keys",
		"Jain's index of the effect times of 4 equal tenants; 1 is exact"},
	{"victim_ratio", "victim", "ratio", "p99 ms beside the flood", "p99 ms alone",
		"wait of a tenant with 1 task/s beside a flood, over its wait alone and one slot's time; 1 or less is good"},
	{"victim_p50_ms", "victim", "ms", "p50 ms beside the flood", "p50 ms alone",
		"the usual wait of that tenant; near the second of each pair is good"},
	{"growth_ratio", "growth", "ratio", "ms/task beside the long queue", "ms/task beside 10",
		"time to admit and complete a task beside a long queue, over that beside a short one; 1 is no growth"},
}

// Keys are the figures of the parts, or of all parts.
func Keys(parts ...string) []string {
	var keys []string
	for _, k := range catalogue {
		if len(parts) == 0 || slices.Contains(parts, k.part) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// Figure finds a figure.
func (r *Report) Figure(key string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Key == key })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}

// add adds a figure of the catalogue.
func (r *Report) add(key string, value float64, pairs [][2]float64, detail map[string]float64) {
	i := slices.IndexFunc(catalogue, func(k kind) bool { return k.key == key })
	k := catalogue[i]
	r.Figures = append(r.Figures, Figure{Key: key, Value: value, Unit: k.unit, Pairs: pairs,
		Sides: [2]string{k.first, k.second}, Meaning: k.meaning, Detail: detail})
}

// lacks is an error if a figure of a part is missing or is no number.
func (r *Report) lacks(part string) error {
	for _, key := range Keys(part) {
		f, ok := r.Figure(key)
		if !ok || len(f.Pairs) == 0 || math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
			return fmt.Errorf("%s has no value", key)
		}
	}
	return nil
}

// JSON writes the report for machines: an object with a member for each figure.
func (r Report) JSON(w io.Writer) error {
	figures := map[string]Figure{}
	for _, f := range r.Figures {
		figures[f.Key] = f
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(figures)
}

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tVALUE\tUNIT\tPAIRS, FIRST TO LAST\tWHAT IT MEANS")
	for _, f := range r.Figures {
		pairs := make([]string, len(f.Pairs))
		for i, p := range f.Pairs {
			pairs[i] = number(p[0]) + ":" + number(p[1])
		}
		if len(pairs) > 5 {
			pairs = append(pairs[:5:5], fmt.Sprintf("and %d more", len(pairs)-5))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Key, number(f.Value), f.Unit, strings.Join(pairs, " "), f.Meaning)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.Figures {
		if len(f.Detail) == 0 {
			continue
		}
		var names []string
		for name := range f.Detail {
			names = append(names, name)
		}
		slices.Sort(names)
		for i, name := range names {
			names[i] = name + " " + number(f.Detail[name])
		}
		fmt.Fprintf(w, "%s: %s\n", f.Key, strings.Join(names, ", "))
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(w, "not measured: %s\n", failure)
	}
	_, err := fmt.Fprintf(w, "%d figures in %s\n", len(r.Figures), time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	return err
}

// number writes three digits or so.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e6:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
