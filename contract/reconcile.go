package contract

import (
	"time"

	"headgate/admission"
)

// ReconcileInput starts the reconciliation of one attempt.
type ReconcileInput struct {
	Tenant      string    `json:"tenant"`
	Key         string    `json:"key"`
	Attempt     int       `json:"attempt"`
	ProviderKey string    `json:"provider_key"`
	Operation   Operation `json:"operation"`
	Hash        string    `json:"hash"`
	Outcome     Outcome   `json:"outcome"` // the unknown one
	// FirstSent is when the key was first sent: a replay window starts there.
	FirstSent time.Time `json:"first_sent"`
	// Replayable tells that the task has attempts and age left for a replay.
	Replayable bool `json:"replayable"`
	// Version is the first row version. It goes on over all reconciliations of a
	// task, so that a decision about one never fits another. Zero: 1.
	Version int `json:"version,omitempty"`
	// Agent and the tenant decide nothing about their own tasks.
	Agent string `json:"agent,omitempty"`
	// Decided are the IDs of decisions about earlier attempts.
	Decided []string `json:"decided,omitempty"`
	// Evidence and Stand are carried over by continue-as-new.
	Evidence []Evidence `json:"evidence,omitempty"`
	Stand    *Stand     `json:"stand,omitempty"`
	// Budget that probes are leased from; empty: DefaultBudget.
	Budget string `json:"budget,omitempty"`
}

// Verdicts of a reconciliation.
const (
	VerdictHappened     = "happened"
	VerdictDidNotHappen = "did_not_happen" // the attempt may be repeated
	VerdictFailed       = "failed"         // it did not happen and shall not be tried again
	VerdictReplay       = "replay"         // the replay class allows to send it again
)

// ReconcileResult is how a reconciliation ended.
type ReconcileResult struct {
	Verdict  string     `json:"verdict"`
	Evidence []Evidence `json:"evidence"` // the last one decided
	Version  int        `json:"version,omitempty"`
}

// Last is the evidence that decided; empty if none did.
func (r ReconcileResult) Last() Evidence {
	if len(r.Evidence) == 0 {
		return Evidence{}
	}
	return r.Evidence[len(r.Evidence)-1]
}

// Stand is what a reconciliation knows while it is open; kept in its memo so
// that it can be read without a worker.
type Stand struct {
	Version   int        `json:"version"`
	Phase     Phase      `json:"phase"`  // reconciling or unknown
	Reason    string     `json:"reason"` // why the outcome is not known
	Since     time.Time  `json:"since"`
	Probes    int        `json:"probes"`
	LastProbe *Evidence  `json:"last_probe,omitempty"`
	NextProbe *time.Time `json:"next_probe,omitempty"` // nil: none is planned
	Overdue   bool       `json:"overdue,omitempty"`    // unknown for longer than the operation wants
	// Cost is what the attempt had reserved.
	Cost []admission.Cost `json:"cost,omitempty"`
	// Cancels is how often the provider was asked to call the effect off. Once it
	// was, only its answer to that or a person decides.
	Cancels int `json:"cancels,omitempty"`
	Leases  int `json:"leases,omitempty"` // that probes have asked for
	// Callbacks are the IDs of those that were seen.
	Callbacks []string `json:"callbacks,omitempty"`
}

// Resolution is a person's decision. ID and the evidence text are required;
// Version is the one that the person has seen. The same ID with the same content
// is the same decision, with other content it is refused.
type Resolution struct {
	ID       string `json:"id"`
	Actor    string `json:"actor"`
	Outcome  string `json:"outcome"` // happened, did_not_happen or failed
	Evidence string `json:"evidence"`
	Version  int    `json:"version"`
}

// DecisionID is the name that the person's client gave the decision.
func (r Resolution) DecisionID() string { return r.ID }

// ResolveReply answers a resolution.
type ResolveReply struct {
	Verdict string `json:"verdict"`
	Version int    `json:"version"`
	// NextAction is set by the gateway.
	NextAction string `json:"next_action,omitempty"`
}

// Kinds of a probe.
const (
	ProbeLookup = ""       // a look-up
	ProbeCancel = "cancel" // Probe.Cancel
)

// ProbeInput asks for one look-up, or one cancel.
type ProbeInput struct {
	Tenant      string `json:"tenant"`
	Key         string `json:"key"`
	Attempt     int    `json:"attempt"`
	ProviderKey string `json:"provider_key"`
	Probe       Probe  `json:"probe"`
	Kind        string `json:"kind,omitempty"`
}
