package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"headgate/contract"
)

// Case is one failure to survive. Its ends are data: what every task of it must
// have come to, whatever happened on the way.
type Case struct {
	ID       string // as in the list of failures, such as A5
	Variant  string // when a case has several; its name is "A5 happened"
	Title    string
	Required bool // belongs to the short drill
	Play     func(ctx context.Context, s *Scene) error
	Ends     []End
	// Zombie tells that a paused worker's request stays in the provider's hands
	// beside its successor's, so that the provider's own count of requests at
	// one time is no witness of the limits.
	Zombie bool
}

// Name is the ID with the variant.
func (c Case) Name() string { return strings.TrimSpace(c.ID + " " + c.Variant) }

// tenant is the case's own tenant, so that cases can share a world.
func (c Case) tenant() string {
	return strings.ReplaceAll(strings.ToLower(c.Name()), " ", "-")
}

// End is what has become of one or more tasks.
type End struct {
	Tenant string   // added to the case's own with a dash; empty: the case's own
	Keys   []string // of the tasks
	Phase  contract.Phase
	// Reason is the error class of a failed task, or the reason of a refusal.
	Reason   string
	Effects  int   // at the provider, of each task
	Requests Range // that arrived at the provider, of each task
	Attempts Range
	Retries  []string         // classes that must be counted, such as worker_lost
	Evidence string           // kind of the evidence that must have decided
	Through  []contract.Phase // phases that it must have been seen in, in this order
}

// Range is a number between two; the zero value is any number.
type Range struct{ Least, Most int }

func exactly(n int) Range { return Range{n, n} }

func (r Range) holds(n int) bool { return r == Range{} || n >= r.Least && n <= r.Most }

func (r Range) String() string {
	if r.Least == r.Most {
		return fmt.Sprint(r.Least)
	}
	return fmt.Sprintf("%d to %d", r.Least, r.Most)
}

// keys names n tasks: prefix1, prefix2 and so on.
func keys(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return all
}

// Cases are all cases, the required ones first.
func Cases() []Case {
	all := slices.Concat(workerCases(), timeoutCases(), admissionCases(), keyCases(), gatewayCases(), zombieCases(), restartCases(),
		providerCases(), crashCases(), capacityCases())
	slices.SortStableFunc(all, func(a, b Case) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return all
}

// Select keeps the cases that are asked for: those with the IDs or names in only,
// else all of them, else the required ones.
func Select(cases []Case, all bool, only []string) ([]Case, error) {
	if len(only) == 0 {
		return slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !all && !c.Required }), nil
	}
	var picked []Case
	for _, c := range cases {
		if slices.ContainsFunc(only, c.called) {
			picked = append(picked, c)
		}
	}
	for _, id := range only {
		if !slices.ContainsFunc(picked, func(c Case) bool { return c.called(id) }) {
			return nil, fmt.Errorf("no case is called %q", id)
		}
	}
	return picked, nil
}

func (c Case) called(id string) bool {
	return strings.EqualFold(id, c.ID) || strings.EqualFold(id, c.Name())
}
