package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// Report is what became of a run.
type Report struct {
	Seed     uint64  `json:"seed"`
	Tasks    int     `json:"tasks"`
	Accepted int     `json:"accepted"`
	Seconds  float64 `json:"seconds"`
	Ends     []Count `json:"ends"` // accepted tasks by phase

	Refusals int `json:"refusals"` // answers that told a client to come back
	Silent   int `json:"silent"`   // requests of clients that were not answered
	Decided  int `json:"decided"`  // by a person
	Retries  int `json:"retries"`

	Lost             int `json:"lost"`
	Duplicates       int `json:"duplicates"` // beyond the replay class
	WronglySucceeded int `json:"wrongly_succeeded"`
	WronglyFailed    int `json:"wrongly_failed"`
	Leases           int `json:"leases_left"`

	Classified  Classified `json:"classified"`
	Strikes     []Count    `json:"strikes"`     // of processes, that were made
	Faults      []Count    `json:"faults"`      // of the provider, that were met
	Delivered   int        `json:"delivered"`   // both
	Undelivered []string   `json:"undelivered"` // faults of the provider that no request met

	Violations []Violation `json:"violations"`
}

// Count is a number of one kind.
type Count struct {
	Kind string `json:"kind"`
	N    int    `json:"n"`
}

// Violation is one broken promise.
type Violation struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

// Classified is how long attempts took, from the death of their worker to the
// task's conclusion, in seconds. Those that fell into an outage of Temporal or
// of a control worker are counted apart.
type Classified struct {
	Attempts int     `json:"attempts"`
	Median   float64 `json:"median_seconds"`
	Max      float64 `json:"max_seconds"`
	// Noticed is the longest time from the death to Temporal's own time-out event;
	// Concluded the longest from that to the task's conclusion.
	Noticed   float64 `json:"max_noticed_seconds"`
	Concluded float64 `json:"max_concluded_seconds"`
	Within    float64 `json:"within_seconds"` // what must hold
	Disturbed int     `json:"disturbed"`
}

func (r *Report) violate(kind, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{kind, fmt.Sprintf(format, args...)})
}

func (r *Report) count(t *task) {
	r.Refusals += t.refusals
	r.Silent += t.lost
	r.Decided += t.decided
	if !t.accepted {
		return
	}
	r.Accepted++
	r.Ends = counted(r.Ends, string(cmp.Or(t.view.Phase, contract.Phase("lost"))), 1)
	for _, c := range t.view.Retries {
		r.Retries += c.N
	}
}

func (r *Report) faults(run *run, reports []provider.FaultReport) {
	r.Classified.Within = ClassifyWithin.Seconds()
	for _, kind := range run.strikes {
		r.Strikes = counted(r.Strikes, kind, 1)
	}
	r.Delivered = len(run.strikes)
	for _, f := range reports {
		if !run.faults[f.ID] {
			continue
		}
		kind := fmt.Sprintf("%s %s", f.On, f.Kind)
		if f.Kind == provider.Status {
			kind = fmt.Sprintf("%s %d", f.On, f.Status)
		}
		if f.Commit {
			kind += " after the effect"
		}
		if f.Undelivered() {
			r.Undelivered = append(r.Undelivered, fmt.Sprintf("%s on %s", kind, f.Key))
			continue
		}
		r.Faults = counted(r.Faults, kind, f.Delivered)
		r.Delivered += f.Delivered
	}
}

func counted(counts []Count, kind string, n int) []Count {
	i, found := slices.BinarySearchFunc(counts, kind, func(c Count, kind string) int { return cmp.Compare(c.Kind, kind) })
	if !found {
		counts = slices.Insert(counts, i, Count{Kind: kind})
	}
	counts[i].N += n
	return counts
}

// JSON writes the report for machines.
func (r Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "seed %d: %d of %d tasks accepted, %.0fs; %d refusals, %d silent requests, %d retries, %d decisions of a person\n",
		r.Seed, r.Accepted, r.Tasks, r.Seconds, r.Refusals, r.Silent, r.Retries, r.Decided)
	for _, part := range []struct {
		title  string
		counts []Count
	}{{"ends", r.Ends}, {"strikes", r.Strikes}, {"faults of the provider", r.Faults}} {
		fmt.Fprintf(w, "%s:", part.title)
		for _, c := range part.counts {
			fmt.Fprintf(w, "  %s %d", c.Kind, c.N)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%d faults delivered, %d not met\n", r.Delivered, len(r.Undelivered))
	for _, u := range r.Undelivered {
		fmt.Fprintf(w, "  not met: %s\n", u)
	}
	fmt.Fprintf(w, "lost %d, duplicates beyond the replay class %d, wrongly SUCCEEDED %d, wrongly FAILED %d, leases left %d\n",
		r.Lost, r.Duplicates, r.WronglySucceeded, r.WronglyFailed, r.Leases)
	c := r.Classified
	fmt.Fprintf(w, "%d attempts lost with their worker, classified after %.1fs (median), %.1fs (longest: Temporal noticed within %.1fs, the task concluded within %.1fs), at most %.0fs; %d more during outages\n",
		c.Attempts, c.Median, c.Max, c.Noticed, c.Concluded, c.Within, c.Disturbed)
	for _, v := range r.Violations {
		fmt.Fprintf(w, "VIOLATION, %s: %s\n", v.Kind, v.Detail)
	}
	_, err := fmt.Fprintf(w, "%d violations\n", len(r.Violations))
	return err
}
