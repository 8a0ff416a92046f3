package workers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/config"
)

// Each lease, and the one that is announced behind it.
func TestSlotsNeverExceedWhatTheBudgetLeases(t *testing.T) {
	for _, c := range []struct {
		name, operations string
		told, want       int
	}{
		{"no bound", "a: {type: http, request: R, cost: {tokens: 1}}", 0, DefaultSlots},
		{"one resource", "a: {type: http, request: R, cost: {calls: 1}}", 0, 8},
		{"told fewer", "a: {type: http, request: R, cost: {calls: 1}}", 3, 3},
		{"told more", "a: {type: http, request: R, cost: {calls: 1}}", 100, 8},
		{"a cost of two", "a: {type: http, request: R, cost: {calls: 2}}", 0, 4},
		{"the scarcest decides", "a: {type: http, request: R, cost: {calls: 1, sessions: 1, tokens: 5}}", 0, 4},
		{"shared", "a: {type: http, request: R, cost: {calls: 2}}\n  b: {type: http, request: R, cost: {calls: 1}}", 0, 8},
		{"two resources", "a: {type: http, request: R, cost: {calls: 1}}\n  b: {type: http, request: R, cost: {sessions: 1}}", 0, 12},
		{"one without a bound", "a: {type: http, request: R, cost: {calls: 1}}\n  b: {type: http, request: R, cost: {}}", 0, DefaultSlots},
		{"of another type", "a: {type: http, request: R, cost: {calls: 1}}\n  b: {type: model, model: {api: openai, name: m, max_tokens: 1}, cost: {sessions: 1}}", 0, 8},
		{"an expression", "a: {type: http, request: R, cost: {calls: \"payload.n\"}}", 0, 8},
		{"none of the type", "b: {type: model, model: {api: openai, name: m, max_tokens: 1}, cost: {sessions: 1}}", 0, DefaultSlots},
	} {
		t.Run(c.name, func(t *testing.T) {
			checked, err := config.Parse("test.yaml", []byte("budget: {resources: {calls: {concurrent: 4}, sessions: {concurrent: 2}, tokens: {per: 1m, amount: 100}}}\noperations:\n  "+
				replaceRequest(c.operations)+"\n"))
			require.NoError(t, err)
			o := testOptions(t)
			o.Config, o.Slots = checked, c.told
			o, err = o.normalize()
			require.NoError(t, err)
			chosen, err := choose([]string{"http"}, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, chosen[0].options(o).MaxConcurrentActivityExecutionSize)
		})
	}
}

func replaceRequest(text string) string {
	return strings.ReplaceAll(text, "request: R", `request: {method: GET, url: "http://psp.example/"}`)
}
