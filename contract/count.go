package contract

import "time"

// PhaseCounts is how many tasks are in each phase: each task once, so that the
// counts, Outside and Unlooked among them, add up to Total. Total is counted by
// itself, a moment later; while tasks move the two may differ a little.
type PhaseCounts struct {
	At     time.Time    `json:"at"`
	Total  int          `json:"total"`
	Phases []PhaseCount `json:"phases"` // all, in the order of a task's life
	// Outside counts the tasks that were terminated or timed out against the rules;
	// a listing tells whether each has failed or is unknown for good.
	Outside int `json:"ended_outside"`
	// Unlooked counts the tasks with a lease of which it was not looked at how far
	// their attempt is.
	Unlooked int `json:"leased_unlooked"`
}

// PhaseCount is the number of tasks in one phase.
type PhaseCount struct {
	Phase Phase `json:"phase"`
	Tasks int   `json:"tasks"`
}

// Sum adds all counts up.
func (c PhaseCounts) Sum() int {
	sum := c.Outside + c.Unlooked
	for _, p := range c.Phases {
		sum += p.Tasks
	}
	return sum
}
