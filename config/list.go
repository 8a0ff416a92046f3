package config

import (
	"strings"

	"headgate/contract"
)

// readList reads how a provider lists its effects.
func readList(s *section) *contract.List {
	out := &contract.List{}
	if f, ok := s.need("url", "\"https://.../?after={cursor}\""); ok {
		var places []string // the cursor, which the URL may leave out
		if strings.Contains(f.value.text, "{") {
			places = []string{"cursor"}
		}
		out.URL = s.url(f, places)
		if out.URL != "" && !strings.Contains(out.URL, "{cursor}") && s.has("next") {
			s.errorAt(f, "%q would read the first page for ever: write {cursor} where the provider expects it", out.URL)
		}
	}
	out.Headers = s.headers("")
	if f, ok := s.need("keys", "\"body.data.map(e, e.key)\""); ok {
		out.Keys = s.expressionOf(f, lists)
	}
	out.Next = s.reference("next")
	s.done()
	return out
}
