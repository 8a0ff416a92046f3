package contract

import "time"

// List is how a provider lists its effects, page by page.
type List struct {
	URL     string   `json:"url"` // of a GET; {cursor} is the escaped cursor, empty for the first page
	Headers []Header `json:"headers,omitempty"`
	Keys    string   `json:"keys"`           // CEL: the list of the effects' keys; others than ours are left out
	Next    string   `json:"next,omitempty"` // CEL: the cursor of the next page, empty on the last; empty: there is one page
}

// AuditID is the workflow ID of an operation's audit: one at a time.
func AuditID(operation string) string { return "audit/" + operation }

// AuditInput starts an audit of an operation, as it is declared now.
type AuditInput struct {
	Operation Operation `json:"operation"`
	Budget    string    `json:"budget,omitempty"`
	Actor     string    `json:"actor"`
}

// What became of the listing of effects.
const (
	ListingNone     = "none"     // the operation declares none
	ListingComplete = "complete" // every page was read
	ListingFailed   = "failed"   // it says nothing about orphans
)

// MaxAuditFindings bounds the findings of one audit that are told one by one.
const MaxAuditFindings = 500

// AuditReport is what an audit saw.
type AuditReport struct {
	Operation string    `json:"operation"`
	Began     time.Time `json:"began"`
	Tasks     int       `json:"tasks"`             // of the operation
	Open      int       `json:"open"`              // not ended, so not held against anything
	Agreed    int       `json:"agreed"`            // the provider says the same
	Unclear   int       `json:"unclear"`           // the provider could not be asked, or its answer says nothing
	Listing   string    `json:"listing"`           // none, complete or failed
	Listed    int       `json:"listed"`            // effects with a key of ours
	Detail    string    `json:"detail,omitempty"`  // why the listing failed
	Findings  []Finding `json:"findings"`          // at most MaxAuditFindings
	Dropped   int       `json:"dropped,omitempty"` // beyond
}

// Verdicts of an audit.
const (
	AuditClean   = "clean"   // everything was asked, and agrees
	AuditFound   = "found"   // something is wrong
	AuditUnknown = "unknown" // nothing was found, but not everything could be asked
)

// Verdict sums an audit up. What could not be asked is never clean.
func (r AuditReport) Verdict() string {
	switch {
	case len(r.Findings) > 0:
		return AuditFound
	case r.Unclear > 0 || r.Listing == ListingFailed:
		return AuditUnknown
	}
	return AuditClean
}

// States of an audit, as the door shows it.
const (
	AuditRunning = "running"
	AuditDone    = "done"
	AuditFailed  = "failed"
)

// AuditView is an audit as the door shows it.
type AuditView struct {
	Operation string       `json:"operation"`
	Run       string       `json:"run"`
	State     string       `json:"state"`             // one of those above
	Verdict   string       `json:"verdict,omitempty"` // done
	Report    *AuditReport `json:"report,omitempty"`  // done
	Detail    string       `json:"detail,omitempty"`  // failed
}
