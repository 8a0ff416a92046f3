package config

import (
	"slices"
	"strings"

	"headgate/admission"
	"headgate/contract"
)

// readProbe reads how the provider tells what happened: at least one of a
// look-up, a cancel and a callback.
func readProbe(s *section, budget admission.Policy, d contract.Operation, own []string) *contract.Probe {
	out := &contract.Probe{}
	lookup, looks := s.field("lookup")
	cancel, cancels := s.field("cancel")
	callback, calls := s.field("callback")
	itself := slices.Contains(own, d.Type) && s.truth("own")
	if d.Type == browserType {
		visit, visits := s.field("visit")
		if visits {
			readVisit(s.childOf(visit), out)
		}
		if visits && looks {
			s.errorAt(lookup, "there are two look-ups: write lookup or visit")
		}
		looks = looks || visits
	}
	switch {
	case looks && itself:
		s.errorAt(lookup, "the type looks up by itself: remove lookup or own")
	case out.Visit != nil:
	case looks:
		readLookup(s.childOf(lookup), out)
	case itself:
		looks, out.URL = true, contract.TypeProbe+d.Type
	case !cancels && !calls:
		s.need("lookup", "{url: \"https://.../?key={key}\", happened: \"status == 200\"}")
	}
	if cancels {
		out.Cancel = readCancel(s.childOf(cancel))
	}
	if calls {
		out.Callback = readCallback(s.childOf(callback))
		if cancels && out.Cancel.Then == contract.ThenRetry {
			s.errorAt(cancel, "a callback does not tell a cancelled effect from the one that was sent again: write `then: fail`, or remove callback")
		}
	}
	if f, ok := s.field("list"); ok {
		out.List = readList(s.childOf(f))
	}
	out.Settle = s.span("settle", DefaultSettle, 0, maxSettle)
	out.Timeout = s.span("timeout", DefaultProbeTimeout, minTimeout, maxProbeTimeout)
	out.Attempts = int(s.whole("attempts", DefaultProbeAttempts, 1, maxProbeAttempts))
	out.Base, out.Max = s.waits(contract.Duration(DefaultProbeBase), contract.Duration(DefaultProbeMax))
	out.Verify = s.truth("verify")
	if f, ok := s.field("verify"); ok && out.Verify && !looks && !calls {
		s.errorAt(f, "nothing can verify a success: write lookup or callback")
	}
	if f, ok := s.field("cost"); ok {
		out.Cost = readProbeCost(s.childOf(f), budget)
	}
	s.done()
	return out
}

func readLookup(l *section, out *contract.Probe) {
	if f, ok := l.need("url", "\"https://.../?key={key}\""); ok {
		out.URL = l.url(f, placeholders)
	}
	out.Headers = l.headers("")
	out.Happened, out.DidNotHappen = l.findings("happened", "\"status == 200\"")
	out.Reference = l.reference("reference")
	out.Count = l.reference("count")
	l.done()
}

// findings are the two rules about an answer; need is the one that must be there.
func (s *section) findings(need, sample string) (happened, didNot string) {
	s.need(need, sample)
	happened, didNot = s.rule("happened"), s.rule("did_not_happen")
	if f, ok := s.field("did_not_happen"); ok && didNot != "" && didNot == happened {
		s.errorAt(f, "it is the same rule as happened: an answer that both accept says nothing; correct one of them")
	}
	return happened, didNot
}

func readCancel(s *section) *contract.Cancel {
	out := &contract.Cancel{}
	if _, ok := s.need("method", "POST"); ok {
		out.Method = s.oneOf("method", "", "POST", "PUT", "PATCH", "DELETE")
	}
	if f, ok := s.need("url", "\"https://.../{key}/cancel\""); ok {
		out.URL = s.url(f, placeholders)
	}
	out.Headers = s.headers("")
	out.Happened, out.DidNotHappen = s.findings("did_not_happen", "\"status == 200 && body.state == 'cancelled'\"")
	out.Reference = s.reference("reference")
	out.Then = s.oneOf("then", DefaultThen, contract.ThenFail, contract.ThenRetry)
	s.done()
	return out
}

// checkCancel needs the request: an effect is sent again under a key only if that
// goes with it, so that a first request which arrives late meets it.
func checkCancel(s *section, d contract.Operation) {
	sends := d.Request == nil || d.Request.IdempotencyHeader != ""
	if d.Browser != nil {
		sends = d.Browser.IdempotencyHeader != ""
	}
	if d.Probe.Cancel == nil || d.Probe.Cancel.Then != contract.ThenRetry || sends {
		return
	}
	f, _ := s.field("cancel")
	s.errorAt(f, "a cancelled effect is sent again by its key only: write request.idempotency_header, or `then: fail`")
}

func readCallback(s *section) *contract.Callback {
	out := &contract.Callback{}
	if f, ok := s.need("secret", "{env: NAME}"); ok {
		v := s.childOf(f)
		if e, ok := v.need("env", "NAME"); ok {
			out.Secret = v.envOf(e)
		}
		v.done()
	}
	out.Tenant, out.RequestKey, out.Key = s.reference("tenant"), s.reference("request_key"), s.reference("key")
	byKey, byName := s.has("key"), s.has("tenant") && s.has("request_key")
	if s.n != nil && byKey == byName || byKey && s.has("request_key") {
		s.add(s.place, s.path, "write where the body names the task: tenant and request_key, or key (the key that the provider was sent)")
	}
	out.Happened, out.DidNotHappen = s.findings("happened", "\"body.type == 'charge.captured'\"")
	out.Reference = s.reference("reference")
	out.Within = s.span("within", DefaultWithin, minWithin, maxWithin)
	s.done()
	return out
}

// readProbeCost reads whole numbers only: a probe has no payload.
func readProbeCost(s *section, budget admission.Policy) []admission.Cost {
	var out []admission.Cost
	for _, f := range s.fields("resource") {
		resource, known := budget.Resource(f.name)
		if !known {
			s.unknownResource(f, budget)
		}
		n, ok := s.wholeOf(f, 1, admission.MaxAmount)
		if !ok {
			continue
		}
		c := Cost{Resource: f.name, Amount: n}
		if known && (resource.Concurrent > 0 || resource.Amount > 0) {
			if _, err := c.amount(nil, budget); err != nil {
				s.errorAt(f, "%s", err.Detail)
			}
		}
		out = append(out, admission.Cost{Resource: f.name, Amount: n})
	}
	slices.SortFunc(out, func(a, b admission.Cost) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// readProvider reads what the provider really does. It needs the rest of the
// operation: what is asked of a provider must be what it does.
func readProvider(s *section, d contract.Operation) *contract.Provider {
	out := &contract.Provider{}
	if f, ok := s.need("version", "\"2026-12-01\""); ok {
		if out.Version = s.textOf(f); len(out.Version) > maxVersion {
			s.errorAt(f, "it has %d bytes: at most %d are allowed", len(out.Version), maxVersion)
		}
	}
	out.KeyWindow = s.span("key_window", 0, 1, maxWindow)
	out.ErrorsCached = s.truth("errors_cached")
	if f, ok := s.field("errors_cached"); ok && out.ErrorsCached && !s.has("key_window") {
		s.errorAt(f, "errors are stored under a key: write key_window, or remove it")
	}
	if s.n != nil && d.Replay.Class == contract.ReplayKeyed && d.Replay.Window > out.KeyWindow {
		s.add(s.place, s.path, "replay.window is %s, and the provider remembers a key for %s (key_window): write a window that is not longer",
			brief(d.Replay.Window.D()), brief(out.KeyWindow.D()))
	}
	if f, ok := s.field("lookup"); ok {
		out.Lookup = readLookups(s.childOf(f))
		if !d.Probe.Looks() {
			s.errorAt(f, "the operation has no look-up: write probe.lookup, or remove it")
		}
	}
	s.done()
	return out
}

func readLookups(s *section) *contract.Lookups {
	out := &contract.Lookups{
		Covers:     s.oneOf("covers", DefaultCovers, contract.CoversAll, contract.CoversSucceeded),
		Consistent: s.truth("consistent"),
		Keeps:      s.span("keeps", 0, 1, maxWindow),
	}
	if f, ok := s.field("lag"); ok && (f.value.kind != text || f.value.text != "unknown") {
		lag := s.span("lag", 0, 0, maxLag)
		out.Lag = &lag
	}
	s.done()
	return out
}
