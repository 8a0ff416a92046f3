package contract

import "headgate/admission"

// Operation is a named kind of side effect, as the configuration declares it.
// It is resolved once and pinned in the task's history: a later change of the
// file changes new tasks only. Secrets are in it by reference only.
type Operation struct {
	Name string `json:"name"`
	Type string `json:"type"` // http, model, or one of your own
	// Digest is the SHA-256 of the declaration, so that an attempt can tell
	// which one it ran under.
	Digest string           `json:"digest"`
	Cost   []admission.Cost `json:"cost,omitempty"` // sorted by resource
	// Timeout bounds one effect, from the checkpoint to the end of the answer.
	Timeout Duration `json:"timeout"`
	// Heartbeat is the lease time: a worker that made no acknowledged beat for
	// so long has lost the attempt.
	Heartbeat Duration     `json:"heartbeat"`
	Retry     Retry        `json:"retry"`
	Replay    Replay       `json:"replay"`
	Request   *HTTPRequest `json:"request,omitempty"` // type http
	Model     *Model       `json:"model,omitempty"`   // type model
	Browser   *Browser     `json:"browser,omitempty"` // type browser
	Probe     *Probe       `json:"probe,omitempty"`   // nil: none
	// Doubts tells that the budget hears of each doubt about an effect, and of its
	// end. Tasks that were pinned before there was a ceiling say neither.
	Doubts bool `json:"doubts,omitempty"`
	// OnFinding is what a finding does to the operation. Tasks that were pinned
	// before there were findings have none, and tell none.
	OnFinding string `json:"on_finding,omitempty"`
	// With is what the declaration tells a type of your own, sorted by name.
	With []Field `json:"with,omitempty"`
	// EscalateAfter makes a doubt overdue that only a person can end: it is logged
	// and shown, and decides nothing. Zero: never.
	EscalateAfter Duration `json:"escalate_after,omitempty"`
	// Approval asks a person before the first attempt; nil: nobody is asked.
	Approval *Approval `json:"approval,omitempty"`
	// Intent is what holds for requests with an intent. In a task's history it is
	// there only if the task has one.
	Intent *Intent `json:"intent,omitempty"`
	// Provider is what the provider really does; nil: what Probe says of it.
	Provider *Provider `json:"provider,omitempty"`
}

// Setting is what the declaration says to its type under a name; empty: nothing.
func (o Operation) Setting(name string) string {
	for _, f := range o.With {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// TypeProbe begins the URL of a look-up that the operation's own type makes; its
// name is behind it.
const TypeProbe = "type:"

// Retry bounds the attempts of one task.
type Retry struct {
	MaxAttempts int      `json:"max_attempts"`
	Base        Duration `json:"base"`    // wait before the second attempt; doubles, jitter of a fifth
	Max         Duration `json:"max"`     // longest wait
	MaxAge      Duration `json:"max_age"` // no attempt starts later than so long after the first request
}

// Replay classes.
const (
	ReplaySafe  = "safe"  // read-only or naturally idempotent: may be sent again
	ReplayKeyed = "keyed" // the provider deduplicates by key inside Window
	ReplayNever = "never" // never sent again without proof of absence
)

// Replay says when a possible effect may be sent again.
type Replay struct {
	Class  string   `json:"class"`
	Window Duration `json:"window,omitempty"` // keyed: how long the provider remembers a key
}

// HTTPRequest is how an http operation calls its provider.
type HTTPRequest struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// IdempotencyHeader carries the task's provider key; empty: none is sent.
	IdempotencyHeader string   `json:"idempotency_header,omitempty"`
	Headers           []Header `json:"headers,omitempty"`
	// Success is a CEL rule over status and body; empty: any 2xx.
	Success string `json:"success,omitempty"`
	// Harmless is a CEL rule over status and body: a failed answer that it
	// accepts is known to have had no effect. Empty: none is.
	Harmless string `json:"harmless,omitempty"`
	// Reference is a CEL expression for the provider's own name of the effect.
	Reference string `json:"reference,omitempty"`
	// Body is a JSON template; empty: the payload. Form is a form in its place.
	Body string  `json:"body,omitempty"`
	Form []Field `json:"form,omitempty"` // in the order that is sent
	// Redirects is how many are followed; zero: none. Of reads only.
	Redirects int `json:"redirects,omitempty"`
	// MaxResponse bounds the bytes of an answer that are read; zero: 256 KiB. A
	// longer answer is not kept, and rules see its status only.
	MaxResponse int `json:"max_response,omitempty"`
	// Webhook signs the request by Standard Webhooks; nil: not signed.
	Webhook *Secret `json:"webhook,omitempty"`
	TLS     *TLS    `json:"tls,omitempty"` // nil: the system's roots, at least TLS 1.2
}

// Probe is how the provider tells whether an effect happened: by look-up, by a
// cancel, by a callback, or more than one of them.
type Probe struct {
	// URL of a GET, the look-up; {key} is the escaped provider key, {tenant} and
	// {request_key} the task's own. TypeProbe and the name of a type of your own: that
	// looks up. Empty: there is no look-up.
	URL     string   `json:"url"`
	Headers []Header `json:"headers,omitempty"`
	// Happened and DidNotHappen are CEL rules over status and body. An answer
	// that neither accepts is inconclusive. DidNotHappen is believed only after
	// the send-by time and Settle, and by two agreeing reads.
	Happened     string `json:"happened"`
	DidNotHappen string `json:"did_not_happen,omitempty"` // empty: absence is never concluded
	Reference    string `json:"reference,omitempty"`
	// Count is a CEL expression for the number of effects that the answer shows.
	// Empty, or without a whole number: one.
	Count   string   `json:"count,omitempty"`
	List    *List    `json:"list,omitempty"` // nil: effects cannot be listed
	Settle  Duration `json:"settle"`         // how long after the effect a look-up may still miss it
	Timeout Duration `json:"timeout"`        // of one look-up
	// Attempts is the number of look-ups before a person is asked; they go on
	// at the longest interval after that.
	Attempts int      `json:"attempts"`
	Base     Duration `json:"base"` // wait between look-ups; doubles
	Max      Duration `json:"max"`

	// Visit is a look-up in a browser, in place of one by URL; nil: there is none.
	Visit *Visit `json:"visit,omitempty"`

	Cancel   *Cancel   `json:"cancel,omitempty"`   // nil: an effect is never called off
	Callback *Callback `json:"callback,omitempty"` // nil: callbacks are not taken
	// Verify makes a success answer an unknown outcome that is looked up.
	Verify bool `json:"verify,omitempty"`
	// Cost is what one probe takes of the budget; empty: it asks for no lease.
	Cost []admission.Cost `json:"cost,omitempty"`
	TLS  *TLS             `json:"tls,omitempty"` // of look-ups and cancels
}
