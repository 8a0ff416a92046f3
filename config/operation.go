package config

import (
	"math"
	"slices"
	"strings"

	"headgate/admission"
	"headgate/contract"
)

// operationTypes are the built-in operation types. The file may name others in
// its section types.
var operationTypes = []string{"http", "browser", "model"}

// readOperations also puts into the budget what admission must know of them.
func readOperations(root *section, budget *admission.Policy, own []string) []Operation {
	f, ok := root.need("operations", "{charge_card: {type: http, ...}}")
	if !ok {
		return nil
	}
	s := root.childOf(f)
	fields := s.fields("operation")
	if len(fields) == 0 && s.n != nil {
		root.errorAt(f, "there is no operation: declare at least one")
	}
	var out []Operation
	for _, f := range fields {
		o := s.childOf(f)
		if gate, ok := readGate(f.name, o); ok {
			budget.Operations = append(budget.Operations, gate)
		}
		out = append(out, readOperation(f.name, o, *budget, own))
	}
	slices.SortFunc(out, func(a, b Operation) int { return strings.Compare(a.Declared.Name, b.Declared.Name) })
	return out
}

// readOperation goes on after an error, as if the field were not there, so that
// all errors of an operation come at once.
func readOperation(name string, s *section, budget admission.Policy, own []string) Operation {
	d := contract.Operation{Name: name, Type: operationTypes[0]}
	if _, ok := s.need("type", operationTypes[0]); ok {
		d.Type = s.oneOf("type", operationTypes[0], append(slices.Clone(operationTypes), own...)...)
	}
	d.Timeout = s.span("timeout", DefaultTimeout, minTimeout, maxTimeout)
	d.Heartbeat = s.span("heartbeat", DefaultHeartbeat, minHeartbeat, maxHeartbeat)
	d.Retry = readRetry(s.child("retry"))
	s.readWhat(&d, own)
	d.Replay = readReplay(s.child("replay"), d)
	d.OnFinding = s.oneOf("on_finding", "", contract.OnFindingRecord, contract.OnFindingFreeze)
	checkReads(s, d)
	if p := s.child("probe"); p != nil {
		d.Probe = readProbe(p, budget, d, own)
		checkCancel(p, d)
	}
	readTLS(s.child("tls"), &d)
	if d.Request != nil {
		f, _ := s.field("request")
		s.checkRedirects(f, d)
	}
	if p := s.child("provider"); p != nil {
		d.Provider = readProvider(p, d)
	}
	d.EscalateAfter = s.span("escalate_after", 0, minEscalateAfter, maxEscalateAfter)
	d.Approval = readApproval(s.child("approval"), budget)
	d.Intent = readIntent(s.child("intent"))
	var costs []Cost
	if f, ok := s.need("cost", "{calls: 1}, or {} if it uses no resource"); ok {
		costs = readCosts(s.childOf(f), budget)
	}
	if d.Model != nil {
		s.checkTokens(d, costs, budget)
	}
	s.done()
	op := Operation{Declared: d, Costs: costs}
	op.Declared.Digest = op.digest()
	return op
}

// readWhat reads the part that depends on the type: what the effect is.
func (s *section) readWhat(d *contract.Operation, own []string) {
	switch {
	case slices.Contains(own, d.Type):
		d.With = readSettings(s.child("with"))
	case d.Type == "model":
		if f, ok := s.need("model", "{api: openai, name: ..., max_tokens: 1000}"); ok {
			d.Model = readModel(s.childOf(f))
		}
	case d.Type == browserType:
		if f, ok := s.need("browser", "{read_only: \"https://host/**\", steps: {open: {goto: \"https://...\"}}}"); ok {
			d.Browser = readBrowser(s.childOf(f))
		}
	default:
		if f, ok := s.need("request", "{method: POST, url: \"https://...\"}"); ok {
			d.Request = readRequest(s.childOf(f))
		}
	}
}

// digest covers all that the file says about an operation; the costs of one task
// are not in it, the expressions that they come from are.
func (o Operation) digest() string {
	o.Declared.Digest, o.Declared.Cost = "", nil
	return digest(o)
}

func readRetry(s *section) contract.Retry {
	out := contract.Retry{
		MaxAttempts: DefaultMaxAttempts,
		Base:        contract.Duration(DefaultRetryBase),
		Max:         contract.Duration(DefaultRetryMax),
		MaxAge:      contract.Duration(DefaultMaxAge),
	}
	if s == nil {
		return out
	}
	out.MaxAttempts = int(s.whole("max_attempts", DefaultMaxAttempts, 1, maxAttempts))
	out.Base, out.Max = s.waits(out.Base, out.Max)
	out.MaxAge = s.span("max_age", DefaultMaxAge, minMaxAge, maxMaxAge)
	s.done()
	return out
}

// waits are the first and the longest wait of something that is repeated.
func (s *section) waits(base, longest contract.Duration) (contract.Duration, contract.Duration) {
	first := s.span("base", base.D(), minWait, maxWait)
	last := s.span("max", longest.D(), minWait, maxWait)
	if first > last {
		f, ok := s.field("max")
		if !ok {
			f, _ = s.field("base")
		}
		s.errorAt(f, "base (%s) is above max (%s): write base <= max", brief(first.D()), brief(last.D()))
	}
	return first, last
}

// readReplay needs the rest of the operation: a key is worth nothing if it is not
// sent, or forgotten before an attempt can end.
func readReplay(s *section, d contract.Operation) contract.Replay {
	if s == nil {
		return contract.Replay{Class: DefaultReplay}
	}
	defer s.done()
	out := contract.Replay{Class: s.oneOf("class", DefaultReplay, contract.ReplaySafe, contract.ReplayKeyed, contract.ReplayNever)}
	window, ok := s.field("window")
	if out.Class != contract.ReplayKeyed {
		if ok && s.has("class") {
			s.add(window.place, s.path, "only class keyed has a window: remove it, or write `class: keyed`")
		} else if ok {
			s.add(s.place, s.path, "a window without a class: write `class: keyed`")
		}
		return out
	}
	class, _ := s.field("class")
	if d.Model != nil {
		s.errorAt(class, "no model's provider deduplicates by key: write `class: safe` if a second answer does no harm but its price, else `class: never`")
	}
	if d.Browser != nil && d.Browser.IdempotencyHeader == "" {
		s.errorAt(class, "a keyed operation sends a key: write browser.idempotency_header, or `class: never`")
	}
	if d.Request != nil && d.Request.IdempotencyHeader == "" && d.Request.Webhook == nil {
		s.errorAt(class, "a keyed operation sends a key: write request.idempotency_header or request.webhook, or `class: never`")
	}
	if !ok {
		s.add(s.place, s.path, "window is missing: write for how long the provider remembers a key, such as `window: 24h`")
		return out
	}
	out.Window = s.span("window", 0, 1, maxWindow)
	if out.Window > 0 && out.Window <= d.Timeout {
		s.errorAt(window, "a window of %s ends before an effect can (timeout %s): write a longer window or a shorter timeout",
			brief(out.Window.D()), brief(d.Timeout.D()))
	}
	return out
}

func readCosts(s *section, budget admission.Policy) []Cost {
	var out []Cost
	for _, f := range s.fields("resource") {
		resource, known := budget.Resource(f.name)
		if !known {
			s.unknownResource(f, budget)
		}
		c := Cost{Resource: f.name}
		switch f.value.kind {
		case whole:
			n, ok := s.wholeOf(f, 1, math.MaxInt64)
			if !ok {
				continue
			}
			c.Amount = n
		case text:
			if c.Expression = s.textOf(f); c.Expression == "" {
				continue
			}
			if err := c.compile(); err != nil {
				s.errorAt(f, "%v", err)
				continue
			}
		default:
			s.wrong(f.value, join(s.path, f.name), "a whole number or an expression", f.name+": 1")
			continue
		}
		// A resource that is wrong itself has no limit to compare with.
		if known && (resource.Concurrent > 0 || resource.Amount > 0) && c.constant() {
			if _, err := c.amount(nil, budget); err != nil {
				s.errorAt(f, "%s", err.Detail)
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Cost) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

func (s *section) unknownResource(f field, budget admission.Policy) {
	var names []string
	for _, r := range budget.Resources {
		names = append(names, r.Name)
	}
	if w := nearest(f.name, names); w != "" {
		s.add(f.place, s.path, "there is no resource %q: did you mean %q?", f.name, w)
		return
	}
	s.add(f.place, s.path, "there is no resource %q: declare it in budget.resources", f.name)
}
