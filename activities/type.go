package activities

import (
	"context"

	"headgate/contract"
)

// Type is one kind of effect. A type knows how to make an effect; when it may be
// made, and what becomes of the answer, is written once, below.
type Type interface {
	// Prepare does all that nobody outside can notice: it renders, connects,
	// opens, reads. It ends soon after ctx does. A *Refusal says what the
	// outcome is; any other error means not dispatched.
	//
	// If what it returns is an io.Closer too, that is closed at the end of the
	// attempt, dispatched or not.
	Prepare(ctx context.Context, in contract.EffectInput) (Prepared, error)
}

// Prepared is an effect that is ready to leave.
type Prepared interface {
	// Effect makes the effect, once. Inside the write that lets it out, it asks
	// the guard. It ends soon after ctx does, and says what it knows: Class,
	// Reason, Detail, Status, Result, Reference, Cost and RetryAfter; the rest of
	// the outcome is filled in here.
	Effect(ctx context.Context, guard *Guard) contract.Outcome
}

// Prober is a Type that can also look its effects up. An operation asks for it
// with `probe: {own: true}`; without, the provider is asked over HTTP, or nobody.
type Prober interface {
	// Probe asks the provider once what became of the effect that was sent under
	// in.ProviderKey, and changes nothing there. It ends soon after ctx does.
	//
	// Finding is contract.Happened with the provider's Reference, and the Result if
	// the provider still has it; contract.DidNotHappen only if the provider answered
	// that there is no such effect; and contract.Inconclusive, with a Detail, in all
	// other cases: an error, a time-out, a missing permission prove nothing. An
	// absence is believed as far as the operation's `provider` section goes.
	Probe(ctx context.Context, in contract.ProbeInput) contract.Evidence
}
