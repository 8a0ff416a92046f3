package config

import (
	"slices"
	"strings"

	"headgate/contract"
)

// readTypes reads the names of operation types that workers of yours serve. They
// are declared, so that a misspelt type is an error and not a task that nobody
// takes.
func readTypes(root *section) []string {
	f, ok := root.field("types")
	if !ok {
		return nil
	}
	var out []string
	for _, name := range root.words(f) {
		switch err := contract.CheckName("type", name); {
		case err != nil:
			root.errorAt(f, "%v", err)
		case name == "control" || name == "browser" || slices.Contains(operationTypes, name):
			root.errorAt(f, "%s is a role of Headgate's own: give the type another name", name)
		case slices.Contains(out, name):
			root.errorAt(f, "%s is there twice", name)
		default:
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// readSettings are what a declaration says to a type of your own: texts, numbers
// and truths, as they are written.
func readSettings(s *section) []contract.Field {
	if s == nil || s.n == nil {
		return nil
	}
	var out []contract.Field
	for _, f := range s.n.fields {
		s.known = append(s.known, f.name)
		if f.value.kind == mapping || f.value.kind == nothing {
			s.wrong(f.value, join(s.path, f.name), text, f.name+": \"...\"")
			continue
		}
		out = append(out, contract.Field{Name: f.name, Value: f.value.text})
	}
	slices.SortFunc(out, func(a, b contract.Field) int { return strings.Compare(a.Name, b.Name) })
	return out
}
