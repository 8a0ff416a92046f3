package conform

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// keyed tells whether keys are sent and declared to stand for one effect; if
// not, the check has its line.
func (t *trial) keyed(check string) bool {
	switch {
	case t.Operation.Request == nil || t.Operation.Request.IdempotencyHeader == "":
		t.add(check, Unverifiable, "", "no key is sent (request.idempotency_header)")
	case t.keyWindow() == 0:
		t.add(check, Unverifiable, "", "no key window is declared")
	default:
		return true
	}
	return false
}

// sameKey sends the first request again.
func (t *trial) sameKey(ctx context.Context, check, declared string) {
	if !t.keyed(check) {
		return
	}
	again := t.send(ctx, "a", t.Payload)
	seen := outcome(again)
	switch {
	case again.Class != admission.Succeeded:
		t.add(check, unclear(again.Status), declared, seen)
	case again.Reference != "" && t.first.Reference != "" && again.Reference != t.first.Reference:
		t.report.Effects++
		t.add(check, Mismatch, declared, fmt.Sprintf("another effect: %s, the first was %s", again.Reference, t.first.Reference))
	case again.Reference != "" && again.Reference == t.first.Reference, len(again.Result) > 0 && bytes.Equal(again.Result, t.first.Result):
		t.add(check, Match, declared, seen)
	default:
		t.add(check, Unverifiable, declared, "the answers differ, and nothing in them names the effect: declare request.reference")
	}
}

// otherBody sends the first key with another body, which a provider that stands
// by its keys refuses.
func (t *trial) otherBody(ctx context.Context) {
	const check, declared = "other_body", "another body under the same key is refused"
	if !t.keyed(check) {
		return
	}
	if t.Other == nil || bytes.Equal(t.Other, t.Payload) {
		t.add(check, Unverifiable, declared, "no other payload is given (--other)")
		return
	}
	o := t.send(ctx, "a", t.Other)
	switch {
	case o.Class == admission.Succeeded && o.Reference != t.first.Reference:
		t.report.Effects++
		t.add(check, Mismatch, declared, "another effect: "+outcome(o))
	case o.Class == admission.Succeeded:
		t.add(check, Mismatch, declared, "the other body was taken for the first: "+outcome(o))
	case o.Status >= 400 && o.Status < 500 && unclear(o.Status) == Mismatch:
		t.add(check, Match, declared, outcome(o))
	default:
		t.add(check, Unverifiable, declared, outcome(o))
	}
}

// window sends the first request again just before the key's window closes.
func (t *trial) window(ctx context.Context) {
	const check = "key_window"
	if !t.keyed(check) {
		return
	}
	window := t.keyWindow()
	declared := "a key stands for one effect for " + window.String()
	at := t.made.Add(window - window/10)
	if left := time.Until(at); left > t.Patience {
		t.add(check, Unverifiable, declared, "the window is longer than --patience")
		return
	} else if left > 0 && !pause(ctx, left) {
		return
	}
	t.sameKey(ctx, check, declared)
}

// errorsCached makes an error, then sends a good request with its key.
func (t *trial) errorsCached(ctx context.Context) {
	const check = "errors_cached"
	if !t.keyed(check) {
		return
	}
	if t.first.Class != admission.Succeeded {
		t.add(check, Unverifiable, "", "the provider makes no effect at all")
		return
	}
	cached := t.Operation.Provider != nil && t.Operation.Provider.ErrorsCached
	declared := "an error is not stored under its key"
	if cached {
		declared = "an error is stored under its key"
	}
	bad := t.Failing
	if bad == nil {
		bad = t.Payload
	}
	first := t.send(ctx, "e", bad)
	if first.Status < 400 {
		t.add(check, Unverifiable, declared, "the provider gave no error (--failing gives a payload that it refuses): "+outcome(first))
		if first.Class == admission.Succeeded {
			t.report.Effects++
		}
		return
	}
	second := t.send(ctx, "e", t.Payload)
	seen := fmt.Sprintf("first: %s; then: %s", outcome(first), outcome(second))
	switch {
	case second.Class == admission.Succeeded:
		t.report.Effects++
		t.add(check, verdict(!cached), declared, seen)
	case (second.Status == first.Status || second.Status == 422 || second.Status == 409) && t.well(ctx):
		t.add(check, verdict(cached), declared, seen)
	default:
		t.add(check, Unverifiable, declared, seen)
	}
}

// well tells whether the provider makes an effect under a key without an error, so
// that an error came from its key.
func (t *trial) well(ctx context.Context) bool {
	if t.send(ctx, "w", t.Payload).Class != admission.Succeeded {
		return false
	}
	t.report.Effects++
	return true
}

func verdict(ok bool) Verdict {
	if ok {
		return Match
	}
	return Mismatch
}

// cancel makes an effect and calls it off: the answer must be one that the rules
// read, whichever it is.
func (t *trial) cancel(ctx context.Context) {
	const check, declared = "cancel", "the answer to a cancel says happened or did_not_happen"
	if t.Operation.Probe == nil || t.Operation.Probe.Cancel == nil {
		return
	}
	made := t.send(ctx, "c", t.Payload)
	if made.Class != admission.Succeeded {
		t.add(check, Unverifiable, declared, "no effect to call off: "+outcome(made))
		return
	}
	t.report.Effects++
	e := t.ask(ctx, "c", contract.ProbeCancel)
	if e.Finding == contract.Inconclusive {
		t.add(check, unclear(e.Status), declared, evidence(e))
		return
	}
	again := t.ask(ctx, "c", contract.ProbeCancel)
	seen := evidence(e)
	if again.Finding != e.Finding && again.Finding != contract.Inconclusive {
		t.add(check, Mismatch, "a second cancel says the same", seen+"; then: "+evidence(again))
		return
	}
	t.add(check, Match, declared, seen)
}

// unseen lists what nobody can see from here.
func (t *trial) unseen() {
	if p := t.Operation.Provider; p != nil && p.Lookup != nil {
		t.add("covers", Unverifiable, p.Lookup.Covers, "whether effects in other states are found depends on the provider's states")
		if p.Lookup.Keeps > 0 {
			t.add("keeps", Unverifiable, p.Lookup.Keeps.String(), "it takes as long to see")
		}
	}
	if p := t.Operation.Probe; p != nil && p.Callback != nil {
		t.add("callback", Unverifiable, "callbacks come signed with "+p.Callback.Secret, "the provider sends them by itself")
	}
}
