package config

import (
	"slices"
	"strings"
)

// Rights of people. Each is separate: who may approve may not resolve by that.
const (
	RightApprove = "approve" // approve or decline an effect before it is dispatched
	RightResolve = "resolve" // say what happened to an unknown outcome
	RightPause   = "pause"   // pause, freeze, and let go on again
)

var rights = []string{RightApprove, RightPause, RightResolve}

// People are those who decide, sorted by name. Empty: the section is not there,
// and everybody who comes to the door may do everything.
type People []Person

// Person is one actor and its rights.
type Person struct {
	Name   string   `json:"name"`
	Rights []string `json:"rights"` // sorted
}

// May tells whether an actor holds a right. Names are not proven to the gateway
// as long as it knows no keys.
func (p People) May(actor, right string) bool {
	if len(p) == 0 {
		return true
	}
	i, ok := slices.BinarySearchFunc(p, actor, func(one Person, name string) int { return strings.Compare(one.Name, name) })
	return ok && slices.Contains(p[i].Rights, right)
}

// maxActor bounds the name of an actor, in bytes.
const maxActor = 128

func readPeople(s *section) People {
	if s == nil || s.n == nil {
		return nil
	}
	var out People
	if len(s.n.fields) == 0 {
		s.add(s.place, s.path, "nobody is named, so that nobody could decide anything: name somebody, or remove the section")
	}
	for _, f := range s.n.fields {
		if len(f.name) == 0 || len(f.name) > maxActor {
			s.add(f.place, s.path, "a name has 1 to %d bytes", maxActor)
		}
		one := Person{Name: f.name}
		for _, word := range s.words(f) {
			switch {
			case !slices.Contains(rights, word):
				s.errorAt(f, "%q is no right: write %s", word, strings.Join(rights, ", "))
			case slices.Contains(one.Rights, word):
				s.errorAt(f, "%s is there twice", word)
			default:
				one.Rights = append(one.Rights, word)
			}
		}
		slices.Sort(one.Rights)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Person) int { return strings.Compare(a.Name, b.Name) })
	return out
}
