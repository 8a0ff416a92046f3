package mutants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"headgate/testsuite/drill"
)

// caseLimit bounds one case: a mutant may never reach what a case waits for.
const caseLimit = 45 * time.Second

// Verdict is how one mutant fared.
type Verdict struct {
	Mutant Mutant
	Failed []string // cases
	Report string   // the drill's table
	Wrong  string   // why the suite is not to be trusted; empty: it told right
}

// Try plays a mutant's cases against it. server is the Temporal server's program.
func Try(ctx context.Context, m Mutant, program, server, dir string) (Verdict, error) {
	v := Verdict{Mutant: m}
	cases, err := drill.Select(slices.Concat(drill.Cases(), drill.ControlCases()), true, m.Cases)
	if err != nil {
		return v, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	report, err := drill.Run(ctx, drill.Options{Binaries: drill.Binaries{Headgate: program, Server: server}, Cases: cases,
		CaseLimit: caseLimit, Dir: dir, Progress: io.Discard})
	if err != nil && !errors.Is(err, drill.ErrDiffers) {
		return v, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	for _, result := range report.Results {
		if !result.Passed {
			v.Failed = append(v.Failed, result.Case)
		}
	}
	var table strings.Builder
	if err := report.Table(&table); err != nil {
		return v, err
	}
	v.Report = table.String()
	v.Wrong = v.judge()
	return v, nil
}

// judge says what is wrong with a verdict of the suite.
func (v Verdict) judge() string {
	switch m := v.Mutant; {
	case m.Passes && len(v.Failed) > 0:
		return fmt.Sprintf("it must pass, and %s failed", strings.Join(v.Failed, ", "))
	case m.Passes:
		return ""
	case len(v.Failed) == 0:
		return fmt.Sprintf("nobody noticed it: %s passed", strings.Join(m.Cases, ", "))
	case !strings.Contains(v.Report, m.Shows):
		return fmt.Sprintf("it was noticed for another reason: the report does not say %q", m.Shows)
	}
	return ""
}

// Table writes what became of each mutant.
func Table(w io.Writer, verdicts []Verdict) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MUTANT\tWHAT IT DOES\tFAILED\tVERDICT")
	for _, v := range verdicts {
		verdict := "noticed"
		switch {
		case v.Wrong != "":
			verdict = "WRONG: " + v.Wrong
		case v.Mutant.Passes:
			verdict = "passes, as it must"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", v.Mutant.Name, v.Mutant.Breaks, strings.Join(v.Failed, ", "), verdict)
	}
	return t.Flush()
}
