package conform

import (
	"context"
	"fmt"
	"strings"
	"time"

	"headgate/admission"
	"headgate/contract"
)

const (
	pollEvery = 50 * time.Millisecond
	// rereads is how often an effect that was found is looked up again.
	rereads = 5
)

func (t *trial) absentBefore(ctx context.Context) {
	const check, declared = "absent_before", "a look-up of a key that was never sent says did_not_happen"
	if !t.looks() || t.Operation.Probe.DidNotHappen == "" {
		t.add(check, Unverifiable, "", "no look-up with did_not_happen is declared")
		return
	}
	switch e := t.ask(ctx, "a", contract.ProbeLookup); e.Finding {
	case contract.DidNotHappen:
		t.add(check, Match, declared, evidence(e))
	case contract.Happened:
		t.add(check, Mismatch, declared, evidence(e))
	default:
		t.add(check, unclear(e.Status), declared, evidence(e))
	}
}

// unclear: an answer that the rules cannot read contradicts the declaration, but
// no answer, and one that is about something else, does not.
func unclear(status int) Verdict {
	switch {
	case status == 0, status >= 500, status == 401, status == 403, status == 408, status == 429:
		return Unverifiable
	}
	return Mismatch
}

func (t *trial) effect(ctx context.Context) bool {
	t.first = t.send(ctx, "a", t.Payload)
	t.made = time.Now()
	if t.first.Class != admission.Succeeded {
		t.add("effect", Unverifiable, "the payload makes an effect", outcome(t.first)+"; give another --payload")
		return false
	}
	t.report.Effects++
	t.add("effect", Match, "the payload makes an effect", outcome(t.first))
	return true
}

// found checks that look-ups show the effect: at all, within the lag, and each
// time after it.
func (t *trial) found(ctx context.Context) {
	if !t.looks() {
		t.add("lookup_finds", Unverifiable, "", "no look-up is declared")
		return
	}
	reads := t.Operation.Reads()
	lag, last := t.firstSeen(ctx)
	declared := "a look-up finds the effect"
	switch {
	case lag < 0 && reads.LagKnown && reads.Lag.D() >= t.Patience, lag < 0 && t.Operation.Provider != nil && !reads.LagKnown:
		t.add("lookup_finds", Unverifiable, declared, fmt.Sprintf("not within %s: %s", t.Patience, evidence(last)))
		return
	case lag < 0:
		t.add("lookup_finds", Mismatch, declared, fmt.Sprintf("not within %s: %s", t.Patience, evidence(last)))
		return
	}
	t.add("lookup_finds", Match, declared, evidence(last))
	seen := fmt.Sprintf("first seen after %s", lag.Round(10*time.Millisecond))
	switch {
	case !reads.LagKnown:
		t.add("lag", Unverifiable, "unknown", seen)
	case lag > reads.Lag.D():
		t.add("lag", Mismatch, "at most "+reads.Lag.String(), seen)
	default:
		t.add("lag", Match, "at most "+reads.Lag.String(), seen)
	}
	t.consistent(ctx, reads)
}

// firstSeen looks until the effect is found; lag is negative if it never is.
func (t *trial) firstSeen(ctx context.Context) (lag time.Duration, last contract.Evidence) {
	for {
		began := time.Now()
		last = t.ask(ctx, "a", contract.ProbeLookup)
		if last.Finding == contract.Happened {
			return max(0, began.Sub(t.made)), last
		}
		if time.Since(t.made) > t.Patience || !pause(ctx, pollEvery) {
			return -1, last
		}
	}
}

func (t *trial) consistent(ctx context.Context, reads admission.Reads) {
	declared := "each look-up after the lag finds it"
	if !reads.Consistent {
		declared = "nothing: absence is never concluded"
	}
	if left := time.Until(t.made.Add(reads.Lag.D())); reads.LagKnown && left > 0 && left <= t.Patience && !pause(ctx, left) {
		return
	}
	hits, misses := 0, 0 // the others say nothing
	for range rereads {
		switch t.ask(ctx, "a", contract.ProbeLookup).Finding {
		case contract.Happened:
			hits++
		case contract.DidNotHappen:
			misses++
		}
	}
	seen := fmt.Sprintf("%d of %d look-ups found it", hits, rereads)
	switch {
	case misses > 0 && reads.Consistent:
		t.add("consistent", Mismatch, declared, seen)
	case hits == rereads && reads.Consistent:
		t.add("consistent", Match, declared, seen)
	default:
		t.add("consistent", Unverifiable, declared, seen)
	}
}

func outcome(o contract.Outcome) string {
	parts := []string{strings.ReplaceAll(string(o.Class), "_", " ")}
	for _, p := range []string{o.Reason, o.Detail} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if o.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", o.Status))
	}
	if o.Reference != "" {
		parts = append(parts, "reference "+o.Reference)
	}
	return strings.Join(parts, ", ")
}

func evidence(e contract.Evidence) string {
	parts := []string{strings.ReplaceAll(e.Finding, "_", " ")}
	if e.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", e.Status))
	}
	if e.Reference != "" {
		parts = append(parts, "reference "+e.Reference)
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	return strings.Join(parts, ", ")
}
