package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"headgate/contract"
)

// browserType is the type of operations on web pages.
const browserType = "browser"

// maxSteps bounds the steps of one operation or probe.
const maxSteps = 100

// verbs are what a step may do, in the order of the errors.
var verbs = []string{contract.StepGoto, contract.StepFill, contract.StepClick, contract.StepSelect, contract.StepUpload,
	contract.StepWait, contract.StepExpect, contract.StepExtract}

// Where the values of a step come from. A probe has no payload.
var (
	visitPlaces  = []string{"key", "tenant", "request_key"}
	effectPlaces = append(slices.Clone(visitPlaces), payloadPlace)
	payloadField = regexp.MustCompile(`^payload(\.[^.{}\s]+)+$`)
)

const payloadPlace = "payload.NAME"

// artefacts is the name under which a result has the folder of a failure.
const artefacts = "artefacts"

func readBrowser(s *section) *contract.Browser {
	out := &contract.Browser{}
	if f, ok := s.field("effect"); ok {
		if patterns := s.patterns(f); len(patterns) > 1 {
			s.errorAt(f, "an operation has one effect: write one pattern")
		} else if len(patterns) == 1 {
			out.Effect = patterns[0]
		}
	}
	out.ReadOnly = s.readOnly()
	if f, ok := s.field("idempotency_header"); ok {
		if out.IdempotencyHeader = s.textOf(f); out.IdempotencyHeader != "" {
			s.headerName(f.value.place, f.name, out.IdempotencyHeader)
		}
		if !s.has("effect") {
			s.errorAt(f, "only the effect carries a key: write effect, or remove it")
		}
	}
	out.Steps = s.steps(effectPlaces)
	out.Success, out.Harmless = s.rule("success"), s.rule("harmless")
	out.Reference = s.reference("reference")
	s.done()
	return out
}

// checkReads: steps without an effect may be repeated at will, and say so.
func checkReads(s *section, d contract.Operation) {
	if d.Browser == nil || d.Replay.Class == contract.ReplaySafe {
		return
	}
	f, _ := s.field("browser")
	if written := slices.ContainsFunc(f.value.fields, func(f field) bool { return f.name == "effect" }); !written && f.value.kind == mapping {
		s.errorAt(f, "effect is missing: write the request that is the effect, such as `effect: \"POST https://...\"`, or `replay: {class: safe}` if the steps only read")
	}
}

// readVisit reads a look-up in a browser into the probe.
func readVisit(s *section, out *contract.Probe) {
	out.Visit = &contract.Visit{ReadOnly: s.readOnly(), Steps: s.steps(visitPlaces)}
	out.Happened, out.DidNotHappen = s.findings("happened", "\"body.found > 0\"")
	out.Reference = s.reference("reference")
	s.done()
}

func (s *section) readOnly() []string {
	f, ok := s.need("read_only", "\"https://host/**\"")
	if !ok {
		return nil
	}
	return s.patterns(f)
}

// patterns are one or more patterns of requests, with commas between.
func (s *section) patterns(f field) []string {
	var out []string
	for part := range strings.SplitSeq(s.textOf(f), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		p, err := contract.ParseRequestPattern(part)
		if err != nil {
			s.errorAt(f, "%v", err)
			continue
		}
		out = append(out, string(p))
	}
	return out
}

// steps are a mapping of names to steps, in the order in which they are written.
func (s *section) steps(known []string) []contract.Step {
	f, ok := s.need("steps", "{open: {goto: \"https://...\"}}")
	if !ok {
		return nil
	}
	all := s.childOf(f)
	fields := all.fields("step")
	switch {
	case all.n == nil:
		return nil
	case len(fields) == 0:
		s.errorAt(f, "there is no step: write `open: {goto: \"https://...\"}` first")
	case len(fields) > maxSteps:
		s.errorAt(f, "there are %d steps: at most %d are played", len(fields), maxSteps)
	}
	var out []contract.Step
	for i, f := range fields {
		step := readStep(f.name, all.childOf(f), known)
		if i == 0 && step.Do != "" && step.Do != contract.StepGoto {
			all.errorAt(f, "the first step opens a page: write `goto` first")
		}
		if step.Do == contract.StepExtract && step.Name == artefacts {
			all.errorAt(f, "the result has the folder of a failure under this name: choose another")
		}
		out = append(out, step)
	}
	return out
}

func readStep(name string, s *section, known []string) contract.Step {
	out := contract.Step{Name: name}
	for _, verb := range s.verbs() {
		switch {
		case out.Do != "":
			s.errorAt(verb, "a step does one thing, and this one does %s: write another step", out.Do)
		case verb.name == contract.StepGoto:
			out.Do, out.Target = verb.name, s.page(verb, known)
		default:
			out.Do, out.Target = verb.name, s.selector(verb)
		}
	}
	switch out.Do {
	case contract.StepFill, contract.StepSelect:
		out.Value = s.value("value", known, true)
	case contract.StepUpload:
		out.Value = s.value("content", known, true)
		if f, ok := s.need("file", "letter.txt"); ok {
			if out.File = s.textOf(f); strings.ContainsAny(out.File, `/\{}`) {
				s.errorAt(f, "%q is not the name of a file: write letter.txt", out.File)
			}
		}
	case contract.StepWait:
		out.State = s.oneOf("state", "visible", "visible", "hidden", "attached", "detached")
	case contract.StepExpect:
		out.Value = s.value("text", known, false)
	case contract.StepExtract:
		out.Attribute = s.text("attribute")
		out.Count, out.Optional = s.truth("count"), s.truth("optional")
		if f, ok := s.field("count"); ok && out.Count && (out.Attribute != "" || out.Optional) {
			s.errorAt(f, "a number of elements has no attribute, and is always there: remove the other")
		}
	}
	out.Timeout = s.span("timeout", DefaultStepTimeout, 100*time.Millisecond, 10*time.Minute)
	before := len(s.errors)
	s.done()
	if out.Do == "" && s.n != nil && len(s.errors) == before {
		s.add(s.place, s.path, "it does nothing: write one of %s", strings.Join(verbs, ", "))
	}
	return out
}

// verbs are the fields of a step that say what it does, as they are written.
func (s *section) verbs() (out []field) {
	s.known = append(s.known, verbs...)
	if s.n == nil {
		return nil
	}
	for _, f := range s.n.fields {
		if slices.Contains(verbs, f.name) {
			out = append(out, f)
		}
	}
	return out
}

// page is what goto opens: a fixed host, and values in the path and the query.
func (s *section) page(f field, known []string) string {
	t := s.textOf(f)
	if t == "" {
		return ""
	}
	if err := checkPlaces(t, known); err != nil {
		s.errorAt(f, "%v", err)
		return t
	}
	scheme, rest, _ := strings.Cut(t, "://")
	host, path, slash := strings.Cut(rest, "/")
	// A pattern has the same form, but for braces and stars.
	plain := scheme + "://" + host + "/" + strings.ReplaceAll(placeholder.ReplaceAllString(path, "x"), "*", "x")
	if _, err := contract.ParseRequestPattern(plain); err != nil || !slash || strings.Contains(t, " ") {
		s.errorAt(f, "%q is not an absolute address: write https://host/path, with values in the path and the query only", t)
	}
	return t
}

// selector names an element. It is the declaration's own: no value goes into it.
func (s *section) selector(f field) string {
	t := s.textOf(f)
	for _, m := range placeholder.FindAllStringSubmatch(t, -1) {
		if slices.Contains(visitPlaces, m[1]) || payloadField.MatchString(m[1]) {
			s.errorAt(f, "{%s} in a selector would let a value choose the element: name the element itself", m[1])
		}
	}
	return t
}

func (s *section) value(name string, known []string, needed bool) string {
	f, ok := s.field(name)
	switch {
	case !ok && needed:
		s.need(name, "\"{payload.name}\"")
		return ""
	case !ok:
		return ""
	}
	if f.value.kind == whole || f.value.kind == fraction {
		return f.value.text
	}
	t := s.textOf(f)
	if err := checkPlaces(t, known); err != nil {
		s.errorAt(f, "%v", err)
	}
	return t
}

func checkPlaces(t string, known []string) error {
	for _, m := range placeholder.FindAllStringSubmatch(t, -1) {
		if !slices.Contains(known, m[1]) && (!slices.Contains(known, payloadPlace) || !payloadField.MatchString(m[1])) {
			return fmt.Errorf("{%s} is no placeholder here: write {%s}", m[1], strings.Join(known, "}, {"))
		}
	}
	if strings.ContainsAny(placeholder.ReplaceAllString(t, "x"), "{}") {
		return fmt.Errorf("%q has a brace without its partner: write {key}", t)
	}
	return nil
}
