package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// base is a good file. The tables replace one part of it by another, in which
// each § stands before the place of one expected error.
const base = `budget:
  resources:
    calls: {concurrent: 4}
    tokens: {per: 1m, amount: 1000}
  queue: {soft: 8, hard: 10}
tenants:
  default: {weight: 1}
operations:
  charge:
    type: http
    request: {method: POST, url: "http://psp.example/charges", idempotency_header: Idempotency-Key}
    cost: {calls: 1}
    replay: {class: keyed, window: 1h}
    probe:
      lookup: {url: "http://psp.example/?key={key}", happened: "status == 200"}
`

type refusal struct {
	name     string
	old, new string   // old must be in base exactly once; empty: new is the whole file
	texts    []string // part of each error, in the order of the file
}

func (c refusal) run(t *testing.T) {
	t.Helper()
	marked := c.new
	if c.old != "" {
		require.Equal(t, 1, strings.Count(base, c.old), "%q must be in the base once", c.old)
		marked = strings.Replace(base, c.old, c.new, 1)
	}
	var want []place
	for i, line := range strings.Split(marked, "\n") {
		column := 1
		for _, r := range line {
			if r == '§' {
				want = append(want, place{i + 1, column})
				continue
			}
			column++
		}
	}
	require.Len(t, want, len(c.texts), "one § an error")
	config, err := Parse("test.yaml", []byte(strings.ReplaceAll(marked, "§", "")))
	require.Error(t, err)
	require.Nil(t, config)
	var all Errors
	require.True(t, errors.As(err, &all))
	var got []place
	for _, e := range all {
		require.Equal(t, "test.yaml", e.File)
		got = append(got, place{e.Line, e.Column})
	}
	require.Equal(t, want, got, "%v", err)
	for i := range all {
		require.Contains(t, all[i].Error(), c.texts[i])
	}
}

// edited is the base with more than one part replaced.
func edited(pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(base, pairs[i]) != 1 {
			panic("must be in the base once: " + pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(base)
}

func TestBaseIsGood(t *testing.T) {
	_, err := Parse("test.yaml", []byte(base))
	require.NoError(t, err)
}

// The marks are only as good as this: one error whose place is counted by hand.
func TestErrorText(t *testing.T) {
	_, err := Parse("dir/test.yaml", []byte(strings.Replace(base, "concurrent: 4", "concurent: 4", 1)))
	require.EqualError(t, err, "dir/test.yaml:3:5: budget.resources.calls: it has no limit: write `concurrent: 4`, or `per: 1m` and `amount: 100`\n"+
		"dir/test.yaml:3:13: budget.resources.calls: there is no field \"concurent\": did you mean \"concurrent\"?")
	_, err = Parse("test.yaml", []byte(strings.Replace(base, "type: http", "type: htpp", 1)))
	require.EqualError(t, err, `test.yaml:10:11: operations.charge.type: "htpp" is not known: did you mean "http"?`)
}

func TestRefuseYAML(t *testing.T) {
	for _, c := range []refusal{
		{name: "empty", new: "§", texts: []string{"the file is empty"}},
		{name: "only comments", new: "§# nothing\n", texts: []string{"the file is empty"}},
		{name: "text", new: "§budget\n", texts: []string{"the file is text"}},
		{name: "a number", new: "§7\n", texts: []string{"the file is a whole number"}},
		{name: "tab", old: "  queue:", new: "§\tqueue:", texts: []string{"this is not YAML"}},
		{name: "open quote", old: `"status == 200"}`, new: `§"status == 200}`, texts: []string{"this is not YAML"}},
		{name: "open brace", old: "{calls: 1}\n    replay", new: "{calls: 1\n    §replay", texts: []string{"this is not YAML"}},
		{name: "two colons", old: "type: http", new: "type: §a: b", texts: []string{"this is not YAML"}},
		{name: "reserved character", old: "type: http", new: "type: §@http", texts: []string{"this is not YAML"}},
		{name: "twice", old: "    type: http", new: "    type: http\n    §type: http", texts: []string{"first in line 10"}},
		{name: "twice on top", old: "tenants:", new: "§budget: {}\ntenants:", texts: []string{"budget: it is there twice, first in line 1"}},
		{name: "twice in braces", old: "{calls: 1}", new: "{calls: 1, §calls: 2, §calls: 3}", texts: []string{"first in line 12", "first in line 12"}},
		{name: "twice in quotes", old: "{calls: 1}", new: `{calls: 1, §"calls": 2}`, texts: []string{"it is there twice"}},
		{name: "anchor and alias", old: "type: http", new: "type: §&t http\n    timeout: §*t", texts: []string{"anchors, aliases", "anchors, aliases"}},
		{name: "merge", old: "type: http", new: "§<<: {type: http}", texts: []string{"merge keys"}},
		{name: "tag", old: "type: http", new: "type: §!!str http", texts: []string{"tags"}},
		{name: "block list", old: "cost: {calls: 1}", new: "cost:\n      §- calls", texts: []string{"no field takes a list"}},
		{name: "flow list", old: "{calls: 1}", new: "§[calls]", texts: []string{"no field takes a list"}},
		{name: "question mark", old: "type: http", new: "§? type\n    : http", texts: []string{"write `name: value`"}},
		{name: "two documents", old: "tenants:", new: "§---\ntenants:", texts: []string{"one document"}},
		{name: "directive", new: "§%YAML 1.2\n§---\n" + base, texts: []string{"directives", "one document"}},
		{name: "not UTF-8", old: "type: http", new: "type: §\xff", texts: []string{"not UTF-8"}},
		{name: "NUL", old: "type: http", new: "type: §\x00", texts: []string{"U+0000"}},
		{name: "after an umlaut", old: "  default: {weight: 1}", new: "  default: {weight: 1} # für\n  §ü: {}", texts: []string{`tenants: the tenant "ü"`}},
		{name: "carriage returns", new: strings.ReplaceAll(strings.Replace(base, "type: http", "type: §htpp", 1), "\n", "\r\n"), texts: []string{`did you mean "http"`}},
		{name: "too long", new: "§#" + strings.Repeat("x", maxBytes), texts: []string{"more than 1048576 bytes"}},
		{name: "too many empty lines", new: strings.Repeat("\n", maxBlank) + "§\n" + base, texts: []string{"empty lines"}},
		{name: "too many words", new: strings.Repeat("a: 1\n", maxTokens/3) + "§a: 1\n", texts: []string{"more than 30000 words"}},
		{name: "too deep", new: strings.Repeat("{a: ", maxDepth) + "§{" + strings.Repeat("}", maxDepth+1), texts: []string{"nested deeper than 16"}},
	} {
		t.Run(c.name, c.run)
	}
}

func TestRefuseBudgetAndTenants(t *testing.T) {
	for _, c := range []refusal{
		{name: "nothing", new: "§§{}\n", texts: []string{"budget is missing: write `budget:", "operations is missing"}},
		{name: "unknown section", old: "tenants:", new: "§tenant:", texts: []string{`there is no field "tenant": did you mean "tenants"?`}},
		{name: "unknown section, far off", old: "tenants:\n  default: {weight: 1}", new: "§plugins: {}", texts: []string{"use one of budget, gateway, network, operations, people, temporal, tenants"}},
		{name: "empty section", old: "tenants:\n  default: {weight: 1}", new: "tenants:§", texts: []string{"tenants: it is empty: fill it in"}},
		{name: "no resources", new: edited("budget:", "§budget:", "  resources:\n    calls: {concurrent: 4}\n    tokens: {per: 1m, amount: 1000}\n", "", "{calls: 1}", "{}"), texts: []string{"budget: resources is missing"}},
		{name: "resources empty", new: edited("  resources:\n    calls: {concurrent: 4}\n    tokens: {per: 1m, amount: 1000}", "  resources: §{}", "{calls: 1}", "{}"), texts: []string{"there is no resource"}},
		{name: "neither kind", old: "calls: {concurrent: 4}", new: "§calls: {}", texts: []string{"it has no limit"}},
		{name: "both kinds", old: "calls: {concurrent: 4}", new: "§calls: {concurrent: 4, per: 1m, amount: 3}", texts: []string{"it is either concurrent or per interval"}},
		{name: "zero", old: "concurrent: 4", new: "concurrent: §0", texts: []string{"0 is out of range: write 1 to"}},
		{name: "negative", old: "concurrent: 4", new: "concurrent: §-4", texts: []string{"-4 is out of range"}},
		{name: "fraction", old: "concurrent: 4", new: "concurrent: §4.5", texts: []string{`not a number "4.5"`}},
		{name: "octal", old: "concurrent: 4", new: "concurrent: §010", texts: []string{"plain decimal"}},
		{name: "hexadecimal", old: "amount: 1000", new: "amount: §0x10", texts: []string{"plain decimal"}},
		{name: "underscore", old: "amount: 1000", new: "amount: §1_000", texts: []string{"plain decimal"}},
		{name: "quoted number", old: "amount: 1000", new: `amount: §"1000"`, texts: []string{"want a whole number"}},
		{name: "beyond 64 bits", old: "amount: 1000", new: "amount: §99999999999999999999", texts: []string{"want a whole number"}},
		{name: "too large", old: "amount: 1000", new: "amount: §2000000000000", texts: []string{"out of range"}},
		{name: "no unit", old: "per: 1m", new: "per: §60", texts: []string{"60 has no unit: write a duration such as 60s"}},
		{name: "unit of days", old: "per: 1m", new: "per: §1d", texts: []string{`"1d" is not a duration`}},
		{name: "no amount", old: "tokens: {per: 1m, amount: 1000}", new: "§tokens: {per: 1m}", texts: []string{"amount is missing"}},
		{name: "no per", old: "tokens: {per: 1m, amount: 1000}", new: "§tokens: {amount: 1000, burst: 10}", texts: []string{"per is missing"}},
		{name: "adapt", old: "{concurrent: 4}", new: "{concurrent: 4, adapt: {min: §5, §max: 6}}", texts: []string{"write 1 to 4", `no field "max"`}},
		{name: "adapt of an interval", old: "amount: 1000}", new: "amount: 1000, §adapt: {}}", texts: []string{"only a concurrent resource adapts"}},
		{name: "name of a resource", old: "    tokens:", new: "    §a/b: {concurrent: 1}\n    tokens:", texts: []string{`the resource "a/b"`}},
		{name: "soft above hard", old: "soft: 8", new: "soft: §11", texts: []string{"above the hard limit of 10"}},
		{name: "soft above the default hard", old: "{soft: 8, hard: 10}", new: "{soft: §1001}", texts: []string{"above the hard limit of 1000"}},
		{name: "reserve", old: "hard: 10", new: "hard: 10, critical_reserve: §-1", texts: []string{"write 0 to"}},
		{name: "age", old: "hard: 10", new: "hard: 10, max_age: §soon", texts: []string{`"soon" is not a duration`}},
		{name: "queue field", old: "{soft: 8,", new: "{§sof: 8,", texts: []string{`did you mean "soft"?`}},
		{name: "queue is a number", old: "{soft: 8, hard: 10}", new: "§10", texts: []string{"budget.queue: want a mapping"}},
		{name: "weight", old: "weight: 1", new: "weight: §0", texts: []string{"leave the field out"}},
		{name: "cap of zero", old: "{weight: 1}", new: "{max_in_flight: §0, max_queued: §-1, agents: {max_in_flight: §0}}", texts: []string{"max_in_flight: 0 is", "max_queued: -1 is", "agents.max_in_flight: 0"}},
		{name: "agent field", old: "{weight: 1}", new: "{agents: {§weight: 3}}", texts: []string{`tenants.default.agents: there is no field "weight"`}},
		{name: "name of a tenant", old: "  default:", new: "  §-acme: {}\n  default:", texts: []string{`the tenant "-acme"`}},
		{name: "listen", old: "tenants:", new: "gateway: {listen: §localhost}\ntenants:", texts: []string{"write host:port"}},
		{name: "listen, port", old: "tenants:", new: "gateway: {listen: §\"localhost:70000\", §port: 3}\ntenants:", texts: []string{"write host:port", `no field "port"`}},
		{name: "temporal", old: "tenants:", new: "temporal: {address: §7233, namespace: §\"\", §tls: true}\ntenants:", texts: []string{"put 7233 in quotes", "it is empty", `no field "tls"`}},
		{name: "temporal's web UI", old: "tenants:", new: "temporal: {ui: §\"127.0.0.1:8233\"}\ntenants:", texts: []string{"write something like http://127.0.0.1:8233"}},
	} {
		t.Run(c.name, c.run)
	}
}
