package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// decode gives a body as callers may: with plain floats, and with json.Number.
func decode(t *testing.T, text string) []any {
	t.Helper()
	if text == "" {
		return []any{nil}
	}
	var plain, exact any
	require.NoError(t, json.Unmarshal([]byte(text), &plain))
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	require.NoError(t, d.Decode(&exact))
	return []any{plain, exact}
}

func TestRuleMatch(t *testing.T) {
	for _, c := range []struct {
		rule   string
		status int
		body   string
		want   bool
		wrong  string // part of the error
	}{
		{rule: "status == 200", status: 200, want: true},
		{rule: "status == 200", status: 404},
		{rule: "status >= 200 && status < 300", status: 299, want: true},
		{rule: "status in [200, 409]", status: 409, want: true},
		{rule: "status == 200 && body.state == 'captured'", status: 200, body: `{"state":"captured"}`, want: true},
		{rule: "status == 200 && body.state == 'captured'", status: 200, body: `{"state":"open"}`},
		{rule: "body.state == 'captured'", status: 200, body: `{}`, wrong: "no such key: state"},
		{rule: "body.state != 'captured'", status: 200, body: `{}`, wrong: "no such key: state"},
		{rule: "body.state == 'captured'", status: 200, wrong: "body.state"},
		{rule: "body.state == 'captured'", status: 200, body: `"captured"`, wrong: "body.state"},
		{rule: "body.state == 'captured'", status: 200, body: `[]`, wrong: "body.state"},
		{rule: "body.a.b.c == 1", status: 200, body: `{"a":{}}`, wrong: "no such key: b"},
		{rule: "status == 404 || body.state == 'void'", status: 404, want: true},
		{rule: "body.state == 'void' || status == 404", status: 404, want: true},
		{rule: "body.state == 'void' && status == 404", status: 200, body: `{}`},
		{rule: "!has(body.state)", body: `{}`, want: true},
		{rule: "has(body.state) && body.state == 'x'", body: `{}`},
		{rule: "body == null", want: true},
		{rule: "body == null", body: `{}`},
		{rule: "body.n == 3", body: `{"n":3}`, want: true},
		{rule: "body.n == 3", body: `{"n":3.0}`, want: true},
		{rule: "body.n == 3.0", body: `{"n":3}`, want: true},
		{rule: "body.n > 2.5 && body.n < 3.5", body: `{"n":3}`, want: true},
		{rule: "body.n + 1 == 4", body: `{"n":3.0}`, want: true},
		{rule: "body.n * 2.0 == 5.0", body: `{"n":2.5}`, want: true},
		{rule: "body.n == '3'", body: `{"n":3}`},
		{rule: "size(body.items) == 1", body: `{"items":[{"id":1}]}`, want: true},
		{rule: "body.items.exists(i, i.key == 'k')", body: `{"items":[{"key":"j"},{"key":"k"}]}`, want: true},
		{rule: "body[0].ok", body: `[{"ok":true}]`, want: true},
		{rule: "body[0].ok", body: `[]`, wrong: "index out of bounds"},
		{rule: "body.ok", body: `{"ok":"yes"}`, wrong: "want true or false"},
		{rule: "body.ok", body: `{"ok":null}`, wrong: "want true or false"},
		{rule: "body.id.matches('^ch_[0-9]+$')", body: `{"id":"ch_12"}`, want: true},
		{rule: "true", want: true},
	} {
		t.Run(fmt.Sprintf("%s/%d/%s", c.rule, c.status, c.body), func(t *testing.T) {
			rule, err := CompileRule(c.rule)
			require.NoError(t, err)
			for _, body := range decode(t, c.body) {
				got, err := rule.Match(c.status, body)
				require.Equal(t, c.want, got)
				if c.wrong == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.wrong)
				}
			}
		})
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ expr, body, want, wrong string }{
		{expr: "body.id", body: `{"id":"ch_1"}`, want: "ch_1"},
		{expr: "body.id", body: `{"id":17}`, want: "17"},
		{expr: "body.id", body: `{"id":null}`, wrong: "want text"},
		{expr: "body.id", body: `{"id":1.5}`, wrong: "want text"},
		{expr: "body.id", body: `{}`, wrong: "no such key"},
		{expr: "body.id", wrong: "body.id"},
		{expr: "'s' + string(status)", want: "s201"},
		{expr: "status", want: "201"},
		{expr: "has(body.id) ? body.id : body.name", body: `{"name":"n"}`, want: "n"},
		{expr: "body.items[0].id", body: `{"items":[{"id":"x"}]}`, want: "x"},
		{expr: "body.id", body: `{"id":"` + strings.Repeat("x", MaxReference) + `"}`, want: strings.Repeat("x", MaxReference)},
		{expr: "body.id", body: `{"id":"` + strings.Repeat("x", MaxReference+1) + `"}`, wrong: "at most 1024"},
	} {
		text, err := CompileText(c.expr)
		require.NoError(t, err)
		for _, body := range decode(t, c.body) {
			got, err := text.Text(201, body)
			require.Equal(t, c.want, got)
			if c.wrong == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.wrong)
			}
		}
	}
}

// A number past 2^53 is exact if the decoder kept it.
func TestLargeNumbersInABody(t *testing.T) {
	text, err := CompileText("body.id")
	require.NoError(t, err)
	got, err := text.Text(200, decode(t, `{"id":1234567890123456789}`)[1])
	require.NoError(t, err)
	require.Equal(t, "1234567890123456789", got)
}

func TestCompileRefuses(t *testing.T) {
	for expr, want := range map[string]string{
		"":                 "not valid",
		"status ==":        "not valid",
		"status = 1":       "not valid",
		"payload.a == 1":   "undeclared reference to 'payload'",
		"env('HOME')":      "undeclared reference to 'env'",
		"status":           "it must give true or false",
		"status == 'x'":    "no matching overload",
		"'a'.matches('[')": "invalid matches argument",
		strings.Repeat("status == 1 || ", 400) + "true": "not valid",
	} {
		_, err := CompileRule(expr)
		require.ErrorContains(t, err, want, expr)
	}
	_, err := CompileText("status == 1")
	require.ErrorContains(t, err, "it must give text")
}

// No expression and no body can keep a worker busy.
func TestRulesAreBounded(t *testing.T) {
	list := make([]any, 3_000)
	for i := range list {
		list[i] = float64(i)
	}
	body := map[string]any{"list": list, "text": strings.Repeat("é", 50_000)}
	for _, expr := range []string{
		"body.list.all(a, body.list.all(b, a != b || a == b))",
		"body.list.exists(a, body.list.exists(b, body.list.exists(c, a + b + c < 0)))",
		"body.list.all(a, body.text.contains('x' + string(a)) == false)",
		"body.list.all(a, size(body.text) > 0)",
		"body.list.map(a, body.text + body.text).size() > 0",
		"body.list.map(a, bytes(body.text)).size() > 0",
		"body.list.all(a, a in body.list)",
		"body.list.all(a, body.list == body.list)",
		"body.list.all(a, !body.text.matches('(a|é)*$' + string(a)))",
	} {
		rule, err := CompileRule(expr)
		require.NoError(t, err)
		got, err := rule.Match(200, body)
		require.ErrorIs(t, err, ErrTooExpensive, expr)
		require.False(t, got)
	}
}

func TestCacheIsBounded(t *testing.T) {
	for i := range 2*maxPrograms + 1 {
		_, err := CompileRule(fmt.Sprintf("status == %d", i))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(rules.programs), maxPrograms)
	first, err := CompileRule("status == 1")
	require.NoError(t, err)
	second, err := CompileRule("status == 1")
	require.NoError(t, err)
	require.Same(t, first.p, second.p)
}

func TestRulesAreSafeForConcurrentUse(t *testing.T) {
	body := map[string]any{"n": 3.0, "items": []any{1.0, 2.0}}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				rule, err := CompileRule(fmt.Sprintf("status == %d && body.items.exists(i, i == 2)", j))
				if err != nil {
					t.Error(err)
					return
				}
				if ok, err := rule.Match(i, body); err != nil || ok != (i == j) {
					t.Errorf("%d %d: %v %v", i, j, ok, err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, map[string]any{"n": 3.0, "items": []any{1.0, 2.0}}, body)
}
