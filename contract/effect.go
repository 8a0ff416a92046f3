package contract

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"strings"
	"time"

	"headgate/admission"
)

// EffectInput is one attempt.
type EffectInput struct {
	Tenant  string `json:"tenant"`
	Key     string `json:"key"`
	Attempt int    `json:"attempt"`
	Lease   string `json:"lease"`
	// After is the lease whose place this one takes; empty: it has its own.
	After       string          `json:"after,omitempty"`
	Budget      string          `json:"budget,omitempty"` // that granted it; empty: the worker does not report
	ProviderKey string          `json:"provider_key"`
	Operation   Operation       `json:"operation"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	Hash        string          `json:"hash"`
	Deadline    *time.Time      `json:"deadline,omitempty"`
}

// ProviderKey is the idempotency key that providers are given: stable over all
// attempts of a task, 35 characters of [a-z2-7-], so that it fits every
// provider's limit and tells nothing about the tenant.
func ProviderKey(tenant, key string) string {
	sum := sha256.Sum256([]byte(TaskID(tenant, key)))
	return "hg-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// Beat is the details of every heartbeat of an effect, always complete: a beat
// replaces the one before.
type Beat struct {
	Step        admission.Step `json:"step"`
	Attempt     int            `json:"attempt"`
	ProviderKey string         `json:"provider_key"`
	Hash        string         `json:"hash"`
	Worker      string         `json:"worker"`
	Build       string         `json:"build"`
	Claimed     time.Time      `json:"claimed"`
	Dispatching time.Time      `json:"dispatching,omitzero"`
	// SendBy is the latest time at which the first byte may leave.
	SendBy  time.Time `json:"send_by,omitzero"`
	Outcome *Outcome  `json:"outcome,omitempty"` // step responded
}

// Outcome is what is known about one attempt.
type Outcome struct {
	Class     admission.Class  `json:"class"`
	Reason    string           `json:"reason,omitempty"`
	Detail    string           `json:"detail,omitempty"`
	Status    int              `json:"status,omitempty"` // the provider's, if one was read
	Result    json.RawMessage  `json:"result,omitempty"`
	Reference string           `json:"reference,omitempty"`
	Cost      []admission.Cost `json:"cost,omitempty"` // the real one, if it is known
	// RetryAfter is the provider's wish; zero: none.
	RetryAfter Duration `json:"retry_after,omitempty"`
	// Released tells that the worker has reported to the budget itself, so that
	// the lease is back.
	Released bool `json:"released,omitempty"`
	// Successor is the announced lease that has begun in this attempt's place, and
	// Waited how long its attempt had stood by.
	Successor string   `json:"successor,omitempty"`
	Waited    Duration `json:"waited,omitempty"`
	// Lost tells that the worker may still be alive somewhere, so that its lease
	// is held for one more heartbeat timeout.
	Lost        bool      `json:"lost,omitempty"`
	Worker      string    `json:"worker,omitempty"`
	Build       string    `json:"build,omitempty"`
	Claimed     time.Time `json:"claimed,omitzero"`
	Dispatching time.Time `json:"dispatching,omitzero"`
	SendBy      time.Time `json:"send_by,omitzero"`
	Ended       time.Time `json:"ended,omitzero"`
}

// StandbyMissed is the reason of an attempt that stood by for a place which it
// did not get: its task waits for the budget's next decision.
const StandbyMissed = "standby_missed"

// StandbyLate is the reason of one that gave up standing by, while the lease ahead
// goes on or is not in its worker: its task says so to the budget.
const StandbyLate = "standby_late"

// StoodInVain tells of an attempt that was none.
func (o Outcome) StoodInVain() bool {
	return o.Class == admission.NotDispatched && (o.Reason == StandbyMissed || o.Reason == StandbyLate)
}

// Evidence kinds.
const (
	EvidenceLookup   = "lookup"   // a probe asked the provider
	EvidenceLate     = "late"     // a fenced worker's answer
	EvidenceReplay   = "replay"   // the answer to a keyed replay
	EvidenceResponse = "response" // the response beat of a lost worker
	EvidencePerson   = "person"
	EvidenceCancel   = "cancel"   // the provider was asked to call it off
	EvidenceCallback = "callback" // the provider said so by itself
)

// Findings of evidence.
const (
	Happened     = "happened"
	DidNotHappen = "did_not_happen"
	Inconclusive = "inconclusive"
	// FailedFinding is a person's word that it did not happen and shall not be
	// tried again.
	FailedFinding = "failed"
)

// Evidence is a fact about an outcome.
type Evidence struct {
	Kind      string          `json:"kind"`
	Finding   string          `json:"finding"`
	At        time.Time       `json:"at"`
	Actor     string          `json:"actor,omitempty"`
	Decision  string          `json:"decision,omitempty"` // a person's: its ID
	Reference string          `json:"reference,omitempty"`
	Detail    string          `json:"detail,omitempty"`
	Status    int             `json:"status,omitempty"`
	Count     int             `json:"count,omitempty"`  // effects that the provider shows; zero: it does not say
	Result    json.RawMessage `json:"result,omitempty"` // the provider's answer, when the evidence holds it
	ID        string          `json:"id,omitempty"`     // of a callback: the same one counts once
}

// LateEvidence is a fenced worker's answer, sent to the task, or a callback.
type LateEvidence struct {
	Attempt int     `json:"attempt"` // zero: a callback, which is about the key
	Outcome Outcome `json:"outcome"`
	// Callback is the provider's own word; the rest is empty then.
	Callback *Evidence `json:"callback,omitempty"`
}
