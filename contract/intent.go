package contract

import (
	"fmt"
	"time"
)

// What becomes of a request whose intent an earlier task of its tenant has.
const (
	SameRefuse = "refuse" // it is refused, and the earlier task is named (the default)
	SameReturn = "return" // it is answered with the earlier task
	SameAllow  = "allow"  // it is taken as another task
)

// DefaultIntentWindow is how long an intent is met after it was first claimed.
// It is met as long as its task is open, too.
const DefaultIntentWindow = Duration(24 * time.Hour)

// Intent is what an operation declares about a business key that agents may give
// beside the request key. In a task's history it is what holds for the task.
type Intent struct {
	Same   string   `json:"same"`
	Window Duration `json:"window"`
}

// IntentInput starts an Intent workflow, whose ID is IntentID: the durable note
// that a task has an intent. Temporal lets one of an ID be open at a time, which
// is what keeps two tasks from having it.
type IntentInput struct {
	Tenant string   `json:"tenant"`
	Intent string   `json:"intent"`
	Key    string   `json:"key"` // of the task
	Window Duration `json:"window"`
}

// Claim is an Intent workflow's memo: whose intent it is. A task that was not
// started by StartBy will not run any more.
type Claim struct {
	Key     string    `json:"key"`
	StartBy time.Time `json:"start_by"`
}

// IntentID is the workflow ID of a tenant's intent.
func IntentID(tenant, intent string) string { return "intent/" + tenant + "/" + intent }

// CheckIntent refuses what CheckKey refuses in a request key.
func CheckIntent(intent string) error {
	if err := CheckKey(intent); err != nil {
		return fmt.Errorf("the intent is no key: %w", err)
	}
	return nil
}
