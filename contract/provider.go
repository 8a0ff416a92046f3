package contract

import "headgate/admission"

// Provider is what an operation declares that its provider really does. It is
// part of the operation, so its digest covers it and open tasks keep theirs.
type Provider struct {
	// Version names this declaration; whoever changes it raises it.
	Version string `json:"version"`
	// KeyWindow is for how long a key stands for one effect; zero: it does not.
	KeyWindow Duration `json:"key_window,omitempty"`
	// ErrorsCached tells that an error is stored under its key and answered
	// again, so that sending the same key again after one finds out nothing.
	ErrorsCached bool     `json:"errors_cached,omitempty"`
	Lookup       *Lookups `json:"lookup,omitempty"` // nil: absence is never concluded
}

// What look-ups find.
const (
	CoversAll       = "all"       // the effect, in whatever state it is
	CoversSucceeded = "succeeded" // the effect once it has succeeded: nothing found proves nothing
)

// Lookups is what look-ups of a provider show.
type Lookups struct {
	Covers     string    `json:"covers"`
	Consistent bool      `json:"consistent"`      // after Lag each read shows the effect
	Lag        *Duration `json:"lag,omitempty"`   // how long after the effect a read may miss it; nil: not known
	Keeps      Duration  `json:"keeps,omitempty"` // how long a read finds it; zero: for ever
}

// Reads is what absence may be concluded from. An operation that declares no
// provider is believed in what its probe says: its look-up finds each effect
// once the settle delay has passed.
func (o Operation) Reads() admission.Reads {
	if !o.Probe.Looks() {
		return admission.Reads{}
	}
	if o.Provider == nil {
		return admission.Reads{Covers: true, Consistent: true, LagKnown: true, Lag: o.Probe.Settle}
	}
	l := o.Provider.Lookup
	if l == nil {
		return admission.Reads{}
	}
	out := admission.Reads{Covers: l.Covers == CoversAll, Consistent: l.Consistent, LagKnown: l.Lag != nil, Keeps: l.Keeps}
	if l.Lag != nil {
		out.Lag = max(*l.Lag, o.Probe.Settle)
	}
	return out
}

// SettleFor is how long after the effect the provider is first asked.
func (o Operation) SettleFor() Duration {
	if r := o.Reads(); r.LagKnown {
		return r.Lag
	}
	return o.Probe.Settle
}

// Verifies tells that a success answer only says that the provider has taken
// the request: what came of it is found out by a look-up or a callback.
func (o Operation) Verifies() bool { return o.Probe != nil && o.Probe.Verify }

// ProbeOperation is the name under which a budget knows the probes of an
// operation, so that they have a breaker and an estimate of their own. No
// operation has such a name.
func ProbeOperation(name string) string { return name + ":probe" }

// What becomes of a task whose effect was cancelled at the provider.
const (
	ThenFail  = "fail"  // it has failed: the key is spent
	ThenRetry = "retry" // the provider takes the same key for a new effect
)

// Cancel asks the provider to call an effect off by its key, and by that to say
// what became of it. It may be sent more than once, so it must do no harm a
// second time.
type Cancel struct {
	Method  string   `json:"method"`
	URL     string   `json:"url"` // with the placeholders of Probe.URL
	Headers []Header `json:"headers,omitempty"`
	// Happened accepts the answers "too late, it is done"; DidNotHappen those
	// that say that there is no effect and will be none. A mere "not found" says
	// neither, unless the provider refuses the key from then on.
	Happened     string `json:"happened,omitempty"`
	DidNotHappen string `json:"did_not_happen"`
	Reference    string `json:"reference,omitempty"`
	Then         string `json:"then"` // fail or retry
}

// Callback is how a provider's own message about an effect is read. The
// expressions see its body; its signature is checked before.
type Callback struct {
	// Secret names the gateway's environment variable with the signing secret:
	// several, separated by blanks, while one is exchanged for another.
	Secret string `json:"secret"`
	// The task: by Tenant and RequestKey, or by Key, its provider key.
	Tenant       string   `json:"tenant,omitempty"`
	RequestKey   string   `json:"request_key,omitempty"`
	Key          string   `json:"key,omitempty"`
	Happened     string   `json:"happened"`
	DidNotHappen string   `json:"did_not_happen,omitempty"`
	Reference    string   `json:"reference,omitempty"`
	Within       Duration `json:"within"` // how long it is waited for before a person is asked
}

// EvidenceReply answers a callback that was taken.
type EvidenceReply struct {
	ID      string `json:"id"` // the webhook-id
	Task    string `json:"task"`
	Finding string `json:"finding"`
	// Stored tells that the task's history holds the evidence. A task that has
	// already ended as the evidence says needs none.
	Stored bool  `json:"stored"`
	Phase  Phase `json:"phase"` // as it was before the evidence
}
