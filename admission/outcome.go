package admission

// Class is what is known about an effect. Unknown is a class like any other,
// never an error.
type Class string

// The classes of an outcome.
const (
	Succeeded     Class = "succeeded"      // a response or evidence says that it happened
	Failed        Class = "failed"         // no effect, and a retry cannot help
	Refused       Class = "refused"        // the provider answered that it did not act; a retry may help
	NotDispatched Class = "not_dispatched" // nothing left the process
	Unknown       Class = "unknown"        // it may have happened
)

// Step is how far an attempt had come, as its last durable beat tells.
type Step string

// The steps of an attempt. The zero value means that no beat was made.
const (
	StepNone        Step = ""
	StepClaimed     Step = "claimed"
	StepDispatching Step = "dispatching" // the checkpoint: durable before the effect leaves
	StepResponded   Step = "responded"   // the outcome is in the beat
)

// Lost classifies an attempt that ended without an answer of its own: a
// timeout, or a worker that died. own tells whether the last beat belongs to
// this attempt; beats of another attempt say nothing.
//
//	no beat, or claimed      not dispatched: nothing leaves before the checkpoint
//	dispatching              unknown: it may have left
//	responded                take the outcome that is in the beat
func Lost(last Step, own bool) (class Class, inBeat bool) {
	if !own {
		return NotDispatched, false
	}
	switch last {
	case StepNone, StepClaimed:
		return NotDispatched, false
	case StepResponded:
		return Unknown, true
	}
	return Unknown, false
}

// Answer is what an HTTP-like provider said, or how the exchange ended.
type Answer struct {
	Sent   bool // the request may have left the process
	Status int  // zero: no status was read
	// OK is the operation's success rule applied to the answer; the default
	// rule is a 2xx status.
	OK bool
	// Harmless tells that the operation declares this failure free of effects.
	Harmless bool
}

// Classify is the one table from an exchange to an outcome, with the reason
// that is counted.
//
//	never sent                              not dispatched   connection_failed
//	success by rule                         succeeded
//	429                                     refused          rate_limited
//	declared harmless                       refused          declared_harmless
//	401, 403                                failed           not_authorised
//	408, 409, 425, 5xx, a broken answer     unknown          by status
//	other 4xx                               failed           rejected_by_provider
//	3xx (redirects are not followed)        unknown          unexpected_answer
//
// 408, 409 and 425 are on the unknown side because providers answer them while
// an earlier copy of the same request may still be at work.
func Classify(a Answer) (Class, string) {
	switch {
	case !a.Sent:
		return NotDispatched, "connection_failed"
	case a.OK:
		return Succeeded, ""
	case a.Status == 429:
		return Refused, "rate_limited"
	case a.Harmless:
		return Refused, "declared_harmless"
	case a.Status == 0:
		return Unknown, "no_answer"
	case a.Status == 401, a.Status == 403:
		return Failed, "not_authorised"
	case a.Status == 408, a.Status == 409, a.Status == 425:
		return Unknown, "provider_busy"
	case a.Status >= 500:
		return Unknown, "provider_error"
	case a.Status >= 400:
		return Failed, "rejected_by_provider"
	}
	return Unknown, "unexpected_answer"
}
