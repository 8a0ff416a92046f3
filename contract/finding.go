package contract

import "time"

// Kinds of findings: what evidence says against a task that has ended, or about
// effects that no task explains.
const (
	FindingDuplicate    = "duplicate"    // more than one effect of one task
	FindingContradicted = "contradicted" // the end of a task, by later evidence
	FindingLost         = "lost"         // the effect of a SUCCEEDED task is not there
	FindingOrphaned     = "orphaned"     // an effect with a key of ours that no task explains
)

// What a finding does to its operation.
const (
	OnFindingRecord = "record" // nothing (the default)
	OnFindingFreeze = "freeze"
)

// Finding stands beside a task's state and never changes it. It is sticky: what
// is found later adds to it, and nothing takes it back.
type Finding struct {
	Kind   string    `json:"kind"`
	Task   string    `json:"task,omitempty"`   // empty: of an orphan
	Effect string    `json:"effect,omitempty"` // its provider key, or its reference
	Count  int       `json:"count,omitempty"`  // duplicate: effects; the most that were seen
	Detail string    `json:"detail"`
	Actor  string    `json:"actor"` // who found it
	At     time.Time `json:"at"`    // first
}

// FindingsID is the workflow ID of an operation's findings.
func FindingsID(operation string) string { return "findings/" + operation }

// FindingsInput starts a Findings workflow. All but the operation is carried over
// by continue-as-new.
type FindingsInput struct {
	Operation string           `json:"operation"`
	Findings  []Finding        `json:"findings,omitempty"`
	Dropped   int              `json:"dropped,omitempty"` // beyond MaxFindings
	Pending   []ClosedEvidence `json:"pending,omitempty"`
	Freezes   []FreezeOrder    `json:"freezes,omitempty"` // not given yet
}

// MaxFindings bounds what is kept of one operation, one by one.
const MaxFindings = 2000

// FindingNote adds findings.
type FindingNote struct {
	Operation string    `json:"operation"`
	Budget    string    `json:"budget,omitempty"`
	Freeze    bool      `json:"freeze,omitempty"` // the operation, if one of them is new
	Findings  []Finding `json:"findings"`
}

// FreezeOrder is a freeze that a finding asks of a budget.
type FreezeOrder struct {
	Budget  string        `json:"budget,omitempty"`
	Request FreezeRequest `json:"request"`
}

// ClosedEvidence is evidence about a task that has ended, to be held against its
// end.
type ClosedEvidence struct {
	Task     string   `json:"task"`
	Attempt  int      `json:"attempt,omitempty"` // zero: it is about the key
	Replay   string   `json:"replay"`            // the operation's replay class
	Evidence Evidence `json:"evidence"`
	Budget   string   `json:"budget,omitempty"`
	Freeze   bool     `json:"freeze,omitempty"`
}

// FindingsView is the answer of the findings query.
type FindingsView struct {
	Operation string    `json:"operation"`
	Findings  []Finding `json:"findings"`
	Dropped   int       `json:"dropped,omitempty"`
	Pending   int       `json:"pending,omitempty"` // evidence that is not held against its task yet
}

// SettledRequest asks how a task has ended.
type SettledRequest struct {
	Task string `json:"task"`
}

// Settled is how a task has ended. State is an audit answer; the rest is set if
// it is closed. Phase is empty for one that was ended from outside.
type Settled struct {
	State     string `json:"state"`
	Phase     Phase  `json:"phase,omitempty"`
	Attempt   int    `json:"attempt,omitempty"` // that had the effect; zero: not known
	Reference string `json:"reference,omitempty"`
}

// Conflict tells what evidence says against the end of a task; empty: nothing.
//
//	more than one effect counted                        duplicate
//	not succeeded, and it happened                      contradicted
//	succeeded, and a look-up finds nothing              lost
//	succeeded, and the answer of that attempt says no   contradicted
//	succeeded, and another attempt was answered too     duplicate, unless it was one effect by its key
func Conflict(end Settled, replay string, attempt int, e Evidence) string {
	switch {
	case end.Phase == "" || e.Finding == Inconclusive:
		return ""
	case e.Count > 1:
		return FindingDuplicate
	case end.Phase != PhaseSucceeded && e.Finding == Happened:
		return FindingContradicted
	case end.Phase != PhaseSucceeded:
		return ""
	case e.Finding == Happened:
		another := attempt > 0 && end.Attempt > 0 && attempt != end.Attempt
		switch {
		case another && replay == ReplayNever,
			another && replay == ReplayKeyed && e.Reference != "" && end.Reference != "" && e.Reference != end.Reference:
			return FindingDuplicate
		}
		return ""
	case e.Kind == EvidenceLookup:
		return FindingLost
	case attempt == 0 || attempt == end.Attempt:
		return FindingContradicted
	}
	return ""
}
