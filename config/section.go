package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/contract"
)

// section reads one mapping of the file, field by field. Each reader gives a
// field's value, or the default if it is not there or wrong; what is wrong is in
// the report by then. done refuses the fields that no reader asked for.
type section struct {
	*report
	place        // of the key that the mapping belongs to
	path  string // of the mapping
	n     *node  // nil: not a mapping, already reported
	known []string
}

func newSection(r *report, at place, path string, n *node) *section {
	if n.kind != mapping {
		r.wrong(n, path, mapping, "name: value")
		n = nil
	}
	return &section{report: r, place: at, path: path, n: n}
}

// wrong reports a value of the wrong kind.
func (r *report) wrong(n *node, path string, want kind, sample string) {
	switch {
	case n.kind == nothing:
		r.add(n.place, path, "it is empty: fill it in, such as `%s`, or remove it", sample)
	case n.kind == mapping:
		r.add(n.place, path, "want %s, such as `%s`, not %s", want, sample, n.kind)
	case want == text:
		r.add(n.place, path, "want text, not %s: put %s in quotes if it is meant", n.kind, n.text)
	default:
		r.add(n.place, path, "want %s, such as `%s`, not %s %q", want, sample, n.kind, n.text)
	}
}

func (s *section) errorAt(f field, format string, args ...any) {
	s.add(f.value.place, join(s.path, f.name), format, args...)
}

// field finds a field, and remembers that it is one.
func (s *section) field(name string) (field, bool) {
	s.known = append(s.known, name)
	if s.n == nil {
		return field{}, false
	}
	i := slices.IndexFunc(s.n.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return s.n.fields[i], true
}

// has tells whether a field is written.
func (s *section) has(name string) bool {
	_, ok := s.field(name)
	return ok
}

// need is field for one that must be there.
func (s *section) need(name, sample string) (field, bool) {
	f, ok := s.field(name)
	if !ok && s.n != nil {
		s.add(s.place, s.path, "%s is missing: write `%s: %s`", name, name, sample)
	}
	return f, ok
}

// fields are all fields of a mapping with free names, each name checked.
func (s *section) fields(what string) []field {
	if s.n == nil {
		return nil
	}
	for _, f := range s.n.fields {
		s.known = append(s.known, f.name)
		if err := contract.CheckName(what, f.name); err != nil {
			s.add(f.place, s.path, "%v", err)
		}
	}
	return s.n.fields
}

// child is a mapping inside this one; nil: it is not there.
func (s *section) child(name string) *section {
	f, ok := s.field(name)
	if !ok {
		return nil
	}
	return s.childOf(f)
}

func (s *section) childOf(f field) *section {
	return newSection(s.report, f.place, join(s.path, f.name), f.value)
}

// text is a field of text that is not empty.
func (s *section) text(name string) string {
	f, ok := s.field(name)
	if !ok {
		return ""
	}
	return s.textOf(f)
}

func (s *section) textOf(f field) string {
	if f.value.kind != text {
		s.wrong(f.value, join(s.path, f.name), text, f.name+": \"...\"")
		return ""
	}
	t := strings.TrimSpace(f.value.text)
	if t == "" {
		s.errorAt(f, "it is empty: fill it in or remove it")
	}
	return t
}

// words are those of a text, with commas or blanks between them.
func (s *section) words(f field) []string {
	return strings.FieldsFunc(s.textOf(f), func(r rune) bool { return r == ',' || r == ' ' })
}

// oneOf is a field of text from a fixed set.
func (s *section) oneOf(name, otherwise string, words ...string) string {
	f, ok := s.field(name)
	if !ok {
		return otherwise
	}
	t := s.textOf(f)
	if t == "" || slices.Contains(words, t) {
		return t
	}
	if w := nearest(strings.ToLower(t), lower(words)); w != "" {
		s.errorAt(f, "%q is not known: did you mean %q?", t, words[slices.Index(lower(words), w)])
	} else {
		s.errorAt(f, "%q is not known: write %s", t, strings.Join(words, ", "))
	}
	return otherwise
}

// whole is a field of a plain decimal number between two bounds.
func (s *section) whole(name string, otherwise, low, high int64) int64 {
	f, ok := s.field(name)
	if !ok {
		return otherwise
	}
	n, ok := s.wholeOf(f, low, high)
	if !ok {
		return otherwise
	}
	return n
}

func (s *section) wholeOf(f field, low, high int64) (int64, bool) {
	if f.value.kind != whole {
		s.wrong(f.value, join(s.path, f.name), whole, f.name+": "+strconv.FormatInt(max(low, 1), 10))
		return 0, false
	}
	n, err := strconv.ParseInt(f.value.text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != f.value.text {
		s.errorAt(f, "%q is not a plain decimal number: write digits only, such as 1000", f.value.text)
		return 0, false
	}
	if n < low || n > high {
		hint := ""
		if n == 0 && low == 1 {
			hint = " (leave the field out for its default)"
		}
		s.errorAt(f, "%d is out of range: write %d to %d%s", n, low, high, hint)
		return 0, false
	}
	return n, true
}

// truth is a field that is true or false; false if it is not there.
func (s *section) truth(name string) bool {
	f, ok := s.field(name)
	if !ok {
		return false
	}
	if f.value.kind != truth {
		s.wrong(f.value, join(s.path, f.name), truth, name+": true")
		return false
	}
	return strings.EqualFold(f.value.text, "true")
}

// span is a field of a duration between two bounds.
func (s *section) span(name string, otherwise, low, high time.Duration) contract.Duration {
	f, ok := s.field(name)
	if !ok {
		return contract.Duration(otherwise)
	}
	if f.value.kind == whole || f.value.kind == fraction {
		s.errorAt(f, "%s has no unit: write a duration such as %ss or %sm", f.value.text, f.value.text, f.value.text)
		return contract.Duration(otherwise)
	}
	if f.value.kind != text {
		s.wrong(f.value, join(s.path, f.name), "a duration", name+": 30s")
		return contract.Duration(otherwise)
	}
	d, err := time.ParseDuration(f.value.text)
	if err != nil {
		s.errorAt(f, "%q is not a duration: write a number with a unit (ms, s, m or h), such as 30s or 5m", f.value.text)
		return contract.Duration(otherwise)
	}
	if d < low || d > high {
		s.errorAt(f, "%s is out of range: write %s to %s", f.value.text, brief(low), brief(high))
		return contract.Duration(otherwise)
	}
	return contract.Duration(d)
}

// done refuses the fields that were not asked for.
func (s *section) done() {
	if s.n == nil {
		return
	}
	for _, f := range s.n.fields {
		if slices.Contains(s.known, f.name) {
			continue
		}
		if w := nearest(f.name, s.known); w != "" {
			s.add(f.place, s.path, "there is no field %q: did you mean %q?", f.name, w)
		} else {
			slices.Sort(s.known)
			s.add(f.place, s.path, "there is no field %q here: remove it or use one of %s", f.name, strings.Join(slices.Compact(s.known), ", "))
		}
	}
}

// brief writes a duration without its zero parts: 24h, not 24h0m0s.
func brief(d time.Duration) string {
	t := d.String()
	if strings.HasSuffix(t, "m0s") {
		t = strings.TrimSuffix(t, "0s")
	}
	if strings.HasSuffix(t, "h0m") {
		t = strings.TrimSuffix(t, "0m")
	}
	return t
}

func lower(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.ToLower(w)
	}
	return out
}
