package config

import (
	"strings"
	"testing"
)

func TestRefuseOperations(t *testing.T) {
	const cost, lookup = "cost: {calls: 1}", `{url: "http://psp.example/?key={key}", happened: "status == 200"}`
	for _, c := range []refusal{
		{name: "no type", new: edited("  charge:", "  §charge:", "    type: http\n", ""), texts: []string{"operations.charge: type is missing: write `type: http`"}},
		{name: "type of a later version", old: "type: http", new: "type: §browser", texts: []string{"type browser is not served by this version: write http"}},
		{name: "type unknown", old: "type: http", new: "type: §smtp", texts: []string{`"smtp" is not known: write http`}},
		{name: "type empty", old: "type: http", new: "type:§", texts: []string{"it is empty"}},
		{name: "field misspelt", old: "type: http", new: "type: http\n    §tiemout: 3s", texts: []string{`no field "tiemout": did you mean "timeout"?`}},
		{name: "field not built", old: "type: http", new: "type: http\n    §approval: true", texts: []string{`no field "approval"`}},
		{name: "when full", old: "type: http", new: "type: http\n    when_full: §drop_newest", texts: []string{"write reject, defer, drop_oldest"}},
		{name: "breaker", old: "type: http", new: "type: http\n    breaker: {failures: §-1, open: §2d, §close: 1s}", texts: []string{"write 1 to 1000", "not a duration", `no field "close"`}},
		{name: "unknown ceiling", old: "type: http", new: "type: http\n    unknown_ceiling: §1001", texts: []string{"write 1 to 1000"}},
		{name: "breaker, times", old: "type: http", new: "type: http\n    breaker: {open: 10m, max_open: §1m}", texts: []string{"open (10m) is above max_open (1m)"}},
		{name: "breaker, text", old: "type: http", new: "type: http\n    breaker: §none", texts: []string{"want a mapping"}},
		{name: "name", old: "operations:", new: "operations:\n  §charge card: {type: http, request: {method: GET, url: \"http://a/\"}, cost: {}}", texts: []string{`the operation "charge card" holds ' '`}},
		{name: "all but the name missing", old: "operations:", new: "operations:\n  §§§empty: {}", texts: []string{"type is missing", "request is missing", "cost is missing"}},
		{name: "not a mapping", old: "operations:", new: "operations:\n  empty: §yes", texts: []string{"operations.empty: want a mapping"}},
		{name: "times out of range", old: "type: http", new: "type: http\n    timeout: §25h\n    heartbeat: §500ms", texts: []string{"write 100ms to 24h", "write 1s to 5m"}},
		{name: "timeout negative", old: "type: http", new: "type: http\n    timeout: §-3s", texts: []string{"out of range"}},
		{name: "retry", old: "type: http", new: "type: http\n    retry: {max_attempts: §0, base: §0s, max: §1, max_age: §1000h}", texts: []string{"write 1 to 100", "write 1ms to 24h", "1 has no unit", "write 1s to 720h"}},
		{name: "base above max", old: "type: http", new: "type: http\n    retry: {base: 10s, max: §5s}", texts: []string{"base (10s) is above max (5s)"}},
		{name: "base above the default max", old: "type: http", new: "type: http\n    retry: {base: §2m}", texts: []string{"base (2m) is above max (1m)"}},

		{name: "method", old: "POST", new: "§post", texts: []string{`did you mean "POST"?`}},
		{name: "method unknown", old: "POST", new: "§BREW", texts: []string{"write GET, HEAD"}},
		{name: "no method, no URL", old: `request: {method: POST, url: "http://psp.example/charges", idempotency_header: Idempotency-Key}`, new: "§§request: {idempotency_header: K}", texts: []string{"method is missing", "url is missing"}},
		{name: "relative URL", old: `"http://psp.example/charges"`, new: "§/charges", texts: []string{"not an absolute URL"}},
		{name: "other scheme", old: `"http://psp.example/charges"`, new: `§"ftp://psp.example/"`, texts: []string{"not an absolute URL"}},
		{name: "no host", old: `"http://psp.example/charges"`, new: `§"http:///charges"`, texts: []string{"not an absolute URL"}},
		{name: "space in a URL", old: `"http://psp.example/charges"`, new: `§"http://psp.example/a b"`, texts: []string{"%20"}},
		{name: "fragment", old: `"http://psp.example/charges"`, new: `§"http://psp.example/#a"`, texts: []string{"fragment"}},
		{name: "credential in a URL", old: `"http://psp.example/charges"`, new: `§"http://me:secret@psp.example/"`, texts: []string{"{env: NAME}"}},
		{name: "placeholder in a request", old: `"http://psp.example/charges"`, new: `§"http://psp.example/{key}"`, texts: []string{"this URL has no placeholders"}},
		{name: "header name", old: "idempotency_header: Idempotency-Key", new: `idempotency_header: §"a b"`, texts: []string{"is not a header name"}},
		{name: "header of the transport", old: "idempotency_header: Idempotency-Key", new: "idempotency_header: §content-length", texts: []string{"belongs to the transport"}},
		{name: "headers", old: "idempotency_header: Idempotency-Key", new: "idempotency_header: K, headers: {§\"a:\": x, §k: x, B: y, §b: z, Authorization: §Bearer x, §D: {§emv: X}, E: {env: §1}, F: {env: §A=B}, G: §3, §te: x}",
			texts: []string{"not a header name", "whose value is the task's own", "b is there twice", "a credential in the file", "env is missing", `did you mean "env"?`, "put 1 in quotes", "environment variable", "put 3 in quotes", "belongs to the transport"}},
		{name: "line break in a header", old: "idempotency_header: Idempotency-Key", new: `idempotency_header: K, headers: {A: §"x\ny"}`, texts: []string{"line break"}},
		{name: "success", old: "method: POST,", new: "method: POST, success: §\"status = 200\",", texts: []string{"at character 8"}},
		{name: "success gives text", old: "method: POST,", new: "method: POST, success: §\"'yes'\",", texts: []string{"gives string: it must give true or false"}},
		{name: "harmless", old: "method: POST,", new: "method: POST, harmless: §\"code == 503\",", texts: []string{"undeclared reference to 'code'"}},
		{name: "reference", old: "method: POST,", new: "method: POST, reference: §\"status == 1\",", texts: []string{"it must give text"}},

		{name: "unknown resource", old: cost, new: "cost: {§cals: 1, §other: 1}", texts: []string{`did you mean "calls"?`, "declare it in budget.resources"}},
		{name: "cost above the limit", old: cost, new: "cost: {calls: §5}", texts: []string{"a cost of 5 calls can never fit: the limit is 4"}},
		{name: "expression above the limit", old: cost, new: `cost: {tokens: §"500 + 501"}`, texts: []string{"a cost of 1001 tokens"}},
		{name: "expression of zero", old: cost, new: `cost: {tokens: §"1 - 1"}`, texts: []string{"comes out as 0"}},
		{name: "expression that fails", old: cost, new: `cost: {tokens: §"1 / 0"}`, texts: []string{"cannot be told"}},
		{name: "cost of zero", old: cost, new: "cost: {calls: §0}", texts: []string{"0 is out of range"}},
		{name: "cost is a fraction", old: cost, new: "cost: {calls: §1.5}", texts: []string{"want a whole number or an expression"}},
		{name: "cost is nothing", old: cost, new: "cost: {calls:§}", texts: []string{"it is empty"}},
		{name: "cost is empty", old: cost, new: "cost:§", texts: []string{"it is empty"}},
		{name: "bad expression", old: cost, new: `cost: {tokens: §"payload.a +"}`, texts: []string{"the expression is not valid"}},
		{name: "expression in two lines", old: cost, new: "cost:\n      tokens: §|\n        payload.a +\n        paylod.b", texts: []string{"(did you mean 'payload'?) in line 2, at character 1"}},
		{name: "expression of text", old: cost, new: `cost: {tokens: §"'7'"}`, texts: []string{"it must give a whole number"}},
		{name: "expression of a fraction", old: cost, new: `cost: {tokens: §"size(payload) * 1.5"}`, texts: []string{"the expression is not valid"}},
		{name: "variables of another place", old: cost, new: `cost: {tokens: §"status"}`, texts: []string{"undeclared reference to 'status'"}},
		{name: "expression too long", old: cost, new: `cost: {tokens: §"` + strings.Repeat("1+", maxExpression/2) + `1"}`, texts: []string{"the expression is not valid"}},
		{name: "expression too deep", old: cost, new: `cost: {tokens: §"` + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + `"}`, texts: []string{"the expression is not valid"}},

		{name: "replay class", old: "class: keyed, window: 1h", new: "class: §keyd", texts: []string{`did you mean "keyed"?`}},
		{name: "keyed without a window", old: "replay: {class: keyed, window: 1h}", new: "§replay: {class: keyed}", texts: []string{"window is missing"}},
		{name: "keyed without a key", new: edited(", idempotency_header: Idempotency-Key}", "}", "class: keyed", "class: §keyed"), texts: []string{"write request.idempotency_header"}},
		{name: "window of never", old: "class: keyed, window: 1h", new: "class: never, §window: 1h", texts: []string{"only class keyed has a window"}},
		{name: "window without a class", old: "replay: {class: keyed, window: 1h}", new: "§replay: {window: 1h}", texts: []string{"write `class: keyed`"}},
		{name: "window shorter than the effect", old: "window: 1h", new: "window: §30s", texts: []string{"ends before an effect can (timeout 30s)"}},
		{name: "window without a unit", old: "window: 1h", new: "window: §24", texts: []string{"24 has no unit"}},

		{name: "probe is empty", new: edited("    probe:", "    §probe:", "      lookup: "+lookup, "      settle: 1s"), texts: []string{"lookup is missing"}},
		{name: "look-up is empty", old: "lookup: " + lookup, new: "§§lookup: {}", texts: []string{"url is missing", "happened is missing"}},
		{name: "probe field", old: "    probe:", new: "    probe:\n      §happend: x", texts: []string{`there is no field "happend" here`}},
		{name: "look-up without a key", old: `"http://psp.example/?key={key}"`, new: `§"http://psp.example/"`, texts: []string{"no effect in particular"}},
		{name: "placeholder unknown", old: lookup, new: `{url: §"http://psp.example/{id}", happened: "true"}`, texts: []string{"{id} is no placeholder: write {key}, {tenant}, {request_key}"}},
		{name: "placeholder in the host", old: lookup, new: `{url: §"http://{tenant}.example/{key}", happened: "true"}`, texts: []string{"a placeholder in the host"}},
		{name: "placeholder in the scheme", old: lookup, new: `{url: §"{key}://psp.example/", happened: "true"}`, texts: []string{"not an absolute URL"}},
		{name: "only the tenant", old: lookup, new: `{url: §"http://psp.example/{tenant}", happened: "true"}`, texts: []string{"no effect in particular"}},
		{name: "brace alone", old: lookup, new: `{url: §"http://psp.example/{key}{", happened: "true"}`, texts: []string{"a brace without its partner"}},
		{name: "rules of a look-up", old: lookup, new: `{url: "http://a/{key}", happened: §"status ==", did_not_happen: §"404", reference: §"body +"}`, texts: []string{"not valid", "gives int", "not valid"}},
		{name: "both rules are one", old: lookup, new: `{url: "http://a/{key}", happened: "status < 500", did_not_happen: §"status < 500"}`, texts: []string{"the same rule as happened"}},
		{name: "regular expression", old: lookup, new: `{url: "http://a/{key}", happened: §"body.a.matches('(')"}`, texts: []string{"invalid matches argument at character 16"}},
		{name: "probe times", old: "    probe:", new: "    probe:\n      settle: §-1s\n      timeout: §1h\n      attempts: §1001\n      base: 5m\n      max: §1m", texts: []string{"settle", "timeout", "attempts", "base (5m) is above max (1m)"}},
	} {
		t.Run(c.name, c.run)
	}
}
