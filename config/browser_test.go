package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

const pageBase = `budget: {resources: {browser_sessions: {concurrent: 2}}}
operations:
  book_slot:
    type: browser
    browser:
      effect: "POST https://clinic.example/bookings"
      read_only: "https://clinic.example/**, HEAD https://cdn.example/*.js"
      idempotency_header: Idempotency-Key
      steps:
        open: {goto: "https://clinic.example/slots?day={payload.day}&ref={key}"}
        pick: {select: "#slot", value: "{payload.slot}"}
        name: {fill: "#name", value: "{payload.who.name}", timeout: 3s}
        letter: {upload: "#letter", content: "{payload.letter}", file: letter.txt}
        there: {wait: "#book", state: attached}
        book: {click: "#book"}
        done: {expect: "#confirmation", text: Booked}
        reference: {extract: "#reference", attribute: title}
      success: "status == 200 && body.reference != ''"
      reference: body.reference
    cost: {browser_sessions: 1}
    replay: {class: never}
    probe:
      visit:
        read_only: "https://clinic.example/find?**"
        steps:
          open: {goto: "https://clinic.example/find?ref={key}"}
          found: {extract: ".booking", count: true}
          first: {extract: ".booking", optional: true}
        happened: body.found > 0
        did_not_happen: body.found == 0
        reference: body.first
`

func TestBrowserOperation(t *testing.T) {
	c, err := Parse("test.yaml", []byte(pageBase))
	require.NoError(t, err)
	op, ok := c.Operation("book_slot")
	require.True(t, ok)
	b := op.Declared.Browser
	require.Equal(t, "browser", op.Declared.Type)
	require.Nil(t, op.Declared.Request)
	require.Equal(t, "POST https://clinic.example/bookings", b.Effect)
	require.Equal(t, []string{"https://clinic.example/**", "HEAD https://cdn.example/*.js"}, b.ReadOnly)
	var order []string
	for _, s := range b.Steps {
		order = append(order, s.Name+" "+s.Do)
	}
	require.Equal(t, []string{"open goto", "pick select", "name fill", "letter upload", "there wait", "book click", "done expect", "reference extract"}, order)
	require.Equal(t, contract.Step{Name: "name", Do: "fill", Target: "#name", Value: "{payload.who.name}", Timeout: contract.Duration(3 * time.Second)}, b.Steps[2])
	require.Equal(t, contract.Duration(DefaultStepTimeout), b.Steps[0].Timeout)
	visit := op.Declared.Probe.Visit
	require.Len(t, visit.Steps, 3)
	require.True(t, visit.Steps[1].Count)
	require.True(t, visit.Steps[2].Optional)
	require.True(t, op.Declared.Reads().Covers, "absence can be concluded as from a look-up by request")
}

func TestRefuseBrowserOperations(t *testing.T) {
	const effect = "effect: \"POST https://clinic.example/bookings\"\n"
	for _, c := range []struct {
		name, old, new string
		texts          []string
	}{
		{"no effect", "      " + effect + "      read_only: \"https://clinic.example/**, HEAD https://cdn.example/*.js\"\n      idempotency_header: Idempotency-Key\n", "      §read_only: \"https://clinic.example/**\"\n", []string{"effect is missing"}},
		{"two effects", effect, "effect: §\"POST https://a.example/x, POST https://a.example/y\"\n", []string{"one effect"}},
		{"a key without an effect", effect, "\n", nil},
		{"no read_only", "      read_only: \"https://clinic.example/**, HEAD https://cdn.example/*.js\"\n", "", nil},
		{"an open host", "POST https://clinic.example/bookings", "POST https://*.example/bookings", []string{"host written out"}},
		{"a verb", "{click: \"#book\"}", "{§clik: \"#book\"}", nil},
		{"two verbs", "{click: \"#book\"}", "{click: \"#book\", fill: §\"#name\"}", []string{"a step does one thing"}},
		{"a value in a selector", "{click: \"#book\"}", "{click: §\"#{payload.id}\"}", []string{"would let a value choose the element"}},
		{"a value in the host", "https://clinic.example/slots?day={payload.day}&ref={key}", "https://{payload.host}/slots", []string{"not an absolute address"}},
		{"no placeholder", "{payload.slot}", "{slot}", []string{"{slot} is no placeholder here: write {key}, {tenant}, {request_key}, {payload.NAME}"}},
		{"a probe has no payload", "find?ref={key}", "find?ref={payload.ref}", []string{"is no placeholder here: write {key}, {tenant}, {request_key}"}},
		{"half a brace", "{payload.slot}", "{payload.slot", []string{"a brace without its partner"}},
		{"a path for a file", "file: letter.txt", "file: §/etc/passwd", []string{"not the name of a file"}},
		{"a reserved name", "reference: {extract: \"#reference\", attribute: title}", "artefacts: {extract: \"#reference\"}", []string{"choose another"}},
		{"a number of attributes", "count: true}", "count: §true, attribute: id}", []string{"has no attribute"}},
		{"a state", "state: attached", "state: §gone", []string{"write visible, hidden"}},
		{"not a page first", "open: {goto: \"https://clinic.example/find?ref={key}\"}\n", "\n", []string{"the first step opens a page"}},
		{"a rule", "success: \"status == 200 && body.reference != ''\"", "success: §\"payload.x\"", []string{"undeclared reference"}},
		{"a keyed one without a header", "      idempotency_header: Idempotency-Key\n", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(pageBase, c.old), c.old)
			marked := strings.Replace(pageBase, c.old, c.new, 1)
			if c.name == "a keyed one without a header" {
				marked = strings.Replace(marked, "{class: never}", "{class: §keyed, window: 1h}", 1)
				c.texts = []string{"write browser.idempotency_header"}
			}
			_, err := Parse("test.yaml", []byte(strings.ReplaceAll(marked, "§", "")))
			require.Error(t, err)
			for _, text := range c.texts {
				require.ErrorContains(t, err, text)
			}
			var all Errors
			require.ErrorAs(t, err, &all)
			for i, line := range strings.Split(marked, "\n") {
				if before, _, found := strings.Cut(line, "§"); found {
					require.Equal(t, i+1, all[0].Line, "%v", err)
					require.Equal(t, len(before)+1, all[0].Column, "%v", err)
				}
			}
		})
	}
}
