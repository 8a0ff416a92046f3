// Package conform tries an operation's declaration against its provider: what
// the file says about keys, look-ups and cancels is compared with what the
// provider does.
//
// It makes real effects, under keys of a tenant of its own, and none of them
// goes through a budget or has a history. It is for a provider's sandbox.
package conform

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"headgate/activities"
	"headgate/contract"
)

// Tenant is whose effects a trial makes.
const Tenant = "conform"

// Verdict is what a check came to.
type Verdict string

// The verdicts. Unverifiable is no fault: something is not declared, or cannot
// be seen from outside.
const (
	Match        Verdict = "match"
	Mismatch     Verdict = "mismatch"
	Unverifiable Verdict = "unverifiable"
)

// Line is one check.
type Line struct {
	Check    string  `json:"check"`
	Verdict  Verdict `json:"verdict"`
	Declared string  `json:"declared,omitempty"`
	Seen     string  `json:"seen"`
}

// Report is a whole trial.
type Report struct {
	Operation  string `json:"operation"`
	Digest     string `json:"digest"`
	Version    string `json:"version,omitempty"` // of the provider's declaration
	Run        string `json:"run"`
	Effects    int    `json:"effects"` // that the provider confirmed, repetitions not counted
	Lines      []Line `json:"lines"`
	Mismatches int    `json:"mismatches"`
}

// Options of a trial. Operation, Payload and Run are required.
type Options struct {
	Operation contract.Operation
	Payload   json.RawMessage // canonical: of an effect that the provider makes
	Other     json.RawMessage // canonical: another good one; nil: no body is exchanged
	Failing   json.RawMessage // canonical: one that the provider answers with an error; nil: none
	// Run names the trial: the request keys are Run-a and so on.
	Run string
	// Network is where the provider may be. The zero value: at public addresses.
	Network activities.Network
	// Patience is the longest wait for one thing. Zero: 30s.
	Patience time.Duration
}

// trial is a trial being made.
type trial struct {
	Options
	report Report
	probes *activities.Effects
	first  contract.Outcome // the effect that the other checks are about
	made   time.Time        // when it was confirmed
}

// Run makes a trial. An error means that it was broken off.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	t := &trial{Options: o, probes: &activities.Effects{Network: o.Network, Worker: Tenant, Log: zap.NewNop()}}
	t.report = Report{Operation: o.Operation.Name, Digest: o.Operation.Digest, Run: o.Run, Lines: []Line{}}
	if o.Operation.Provider != nil {
		t.report.Version = o.Operation.Provider.Version
	}
	// 1. Nothing is there before the effect.
	t.absentBefore(ctx)
	// 2. The effect that the rest is about.
	if t.effect(ctx) {
		// 3. It is found, in time and each time.
		t.found(ctx)
		// 4. Its key stands for it.
		t.sameKey(ctx, "duplicate_key", "a repeated request is the same effect")
		t.otherBody(ctx)
		t.window(ctx)
	}
	// 5. What an error does to its key.
	t.errorsCached(ctx)
	// 6. Calling an effect off.
	t.cancel(ctx)
	t.unseen()
	return t.report, ctx.Err()
}

func (t *trial) add(check string, v Verdict, declared, seen string) {
	t.report.Lines = append(t.report.Lines, Line{Check: check, Verdict: v, Declared: declared, Seen: seen})
	if v == Mismatch {
		t.report.Mismatches++
	}
}

func (t *trial) key(name string) string { return t.Run + "-" + name }

// send makes one request as an attempt would.
func (t *trial) send(ctx context.Context, name string, payload json.RawMessage) contract.Outcome {
	return activities.Try(ctx, &activities.HTTP{Network: t.Network}, contract.EffectInput{Tenant: Tenant, Key: t.key(name), Attempt: 1,
		ProviderKey: contract.ProviderKey(Tenant, t.key(name)), Operation: t.Operation, Payload: payload})
}

// ask makes one probe as a reconciliation would.
func (t *trial) ask(ctx context.Context, name, kind string) contract.Evidence {
	e, _ := t.probes.Probe(ctx, contract.ProbeInput{Tenant: Tenant, Key: t.key(name), Attempt: 1, // it never fails
		ProviderKey: contract.ProviderKey(Tenant, t.key(name)), Probe: *t.Operation.Probe, Kind: kind})
	return e
}

func (t *trial) looks() bool { return t.Operation.Probe != nil && t.Operation.Probe.URL != "" }

// keyWindow is for how long the file says that a key stands for one effect;
// zero: it does not say so.
func (t *trial) keyWindow() time.Duration {
	if p := t.Operation.Provider; p != nil {
		return p.KeyWindow.D()
	}
	return t.Operation.Replay.Window.D()
}

// pause waits, and tells whether it did to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
