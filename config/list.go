package config

import (
	"strings"

	"headgate/contract"
)

// readList reads how a provider lists its effects.
func readList(s *section) *contract.List {
	out := &contract.List{}
	if f, ok := s.need("url", "\"https://.../?after={cursor}\""); ok {
		if t := s.textOf(f); !strings.Contains(t, "{cursor}") && s.has("next") {
			s.errorAt(f, "%q would read the first page for ever: write {cursor} where the provider expects it", t)
		}
		out.URL = s.listURL(f)
	}
	out.Headers = s.headers("")
	if f, ok := s.need("keys", "\"body.data.map(e, e.key)\""); ok {
		if out.Keys = s.textOf(f); out.Keys != "" {
			if _, err := CompileTexts(out.Keys); err != nil {
				s.errorAt(f, "%v", err)
			}
		}
	}
	out.Next = s.reference("next")
	s.done()
	return out
}

// listURL is a URL whose only placeholder is the cursor, which it may leave out.
func (s *section) listURL(f field) string {
	t := s.textOf(f)
	if t == "" {
		return ""
	}
	places := []string{"cursor"}
	if !strings.Contains(t, "{") {
		places = nil
	}
	if err := checkURL(t, places); err != nil {
		s.errorAt(f, "%v", err)
	}
	return t
}
