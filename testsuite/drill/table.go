package drill

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"headgate/contract"
)

// Row is what became of one task, or of several with the same end.
type Row struct {
	Task      string           `json:"task"`
	Tasks     int              `json:"tasks"`
	Delivery  string           `json:"delivery_state"`
	Execution string           `json:"execution_state"`
	Phases    []Step           `json:"phases"` // of the first task, as a client that polls saw them
	Events    []contract.Event `json:"events,omitempty"`
	Attempts  int              `json:"attempts"`
	Retries   []contract.Count `json:"retries,omitempty"`
	Reason    string           `json:"reason,omitempty"` // of a failure or refusal
	Effects   int              `json:"effects"`
	Requests  int              `json:"requests"`
	Differs   []string         `json:"differs,omitempty"`
	Notes     []string         `json:"notes,omitempty"` // what is odd, and no difference
}

// Result is one case as it was played.
type Result struct {
	Case    string  `json:"case"`
	Title   string  `json:"title"`
	Seconds float64 `json:"seconds"`
	Rows    []Row   `json:"rows"`
	Leases  int     `json:"leases_left"`
	Passed  bool    `json:"passed"`
	Error   string  `json:"error,omitempty"` // a step that did not come about, or a broken invariant
	Logs    string  `json:"-"`               // the end of every process's log, if the case failed
}

// Report is a whole drill.
type Report struct {
	Results []Result `json:"results"`
	Seconds float64  `json:"seconds"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
}

// JSON writes the report for machines.
func (r Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes the report for people: a table of state transitions.
func (r Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CASE\tTASK\tDELIVERY\tEXECUTION\tATTEMPTS\tRETRIES\tEFFECTS\tLEASES\tVERDICT\tTRANSITIONS, IN SECONDS")
	for _, result := range r.Results {
		for _, row := range result.Rows {
			verdict := "ok"
			if len(row.Differs) > 0 {
				verdict = "DIFFERS"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%s\t%s\n", result.Case, row.Task, row.Delivery, row.Execution,
				row.Attempts, counted(row.Retries), row.Effects, result.Leases, verdict, row.transitions())
		}
		if result.Error != "" {
			fmt.Fprintf(t, "%s\t-\t\t\t\t\t\t%d\tFAILED\t\n", result.Case, result.Leases)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	notes := 0
	for _, result := range r.Results {
		for _, row := range result.Rows {
			for _, d := range row.Differs {
				fmt.Fprintf(w, "\n%s, %s: %s", result.Case, row.Task, d)
			}
			notes += len(row.Notes)
		}
		if result.Error != "" {
			fmt.Fprintf(w, "\n%s: %s", result.Case, result.Error)
		}
	}
	if notes > 0 {
		fmt.Fprintf(w, "\n%d notes about phases that were shown after a later one: see --json", notes)
	}
	_, err := fmt.Fprintf(w, "\n%d of %d cases ended as they must, in %s\n", r.Passed, r.Passed+r.Failed, time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	return err
}

func counted(counts []contract.Count) string {
	if len(counts) == 0 {
		return "-"
	}
	var all []string
	for _, c := range counts {
		all = append(all, fmt.Sprintf("%s:%d", c.Class, c.N))
	}
	return strings.Join(all, " ")
}

// transitions are the events of the task's own history, with the seconds since
// the first one. Events of a further attempt carry its number.
func (r Row) transitions() string {
	if len(r.Events) == 0 {
		return r.Reason
	}
	var all []string
	for _, e := range r.Events {
		name := e.Name
		if e.Attempt > 1 {
			name = fmt.Sprintf("%s#%d", name, e.Attempt)
		}
		all = append(all, fmt.Sprintf("%s %.1f", name, e.At.Sub(r.Events[0].At).Seconds()))
	}
	return strings.Join(all, " > ")
}

// path writes phases with the seconds after which they were first seen.
func path(steps []Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, fmt.Sprintf("%s %.1fs", s.Phase, s.After.Seconds()))
	}
	return strings.Join(all, " > ")
}

// backwards finds phases that were shown after a later one of the same attempt:
// a task that may have acted looked as if it had not.
func backwards(steps []Step, attempts int) (odd []string) {
	order := func(p contract.Phase) int { return slices.Index(contract.Phases(), p) }
	for i := 1; i < len(steps); i++ {
		a, b := steps[i-1], steps[i]
		again := b.Attempts > a.Attempts || b.Phase == contract.PhaseAccepted && attempts > a.Attempts
		if order(b.Phase) < order(a.Phase) && !a.Phase.End() && !again {
			odd = append(odd, fmt.Sprintf("shown %s after %s, %.1fs into the case", b.Phase, a.Phase, b.After.Seconds()))
		}
	}
	return odd
}

// through tells whether the phases were seen in this order.
func through(steps []Step, phases []contract.Phase) bool {
	for _, phase := range phases {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Phase == phase })
		if i < 0 {
			return false
		}
		steps = steps[i+1:]
	}
	return true
}
