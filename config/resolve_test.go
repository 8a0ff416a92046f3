package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) *time.Time {
	t := noon.Add(d)
	return &t
}

func testConfig(t *testing.T) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(`
budget:
  resources:
    calls: {concurrent: 4}
    tokens: {per: 1m, amount: 1000}
operations:
  charge:
    type: http
    request: {method: POST, url: "http://psp.example/"}
    cost: {calls: 1}
  summarise:
    type: http
    request: {method: POST, url: "http://model.example/"}
    cost: {tokens: "estimate_tokens(payload.prompt) + payload.max_tokens", calls: 2}
  heavy:
    type: http
    request: {method: POST, url: "http://model.example/"}
    cost: {calls: "payload.list.all(a, payload.list.all(b, a == b || a != b)) ? 1 : 2"}
  loose:
    type: http
    request: {method: POST, url: "http://model.example/"}
    cost: {tokens: "payload.n"}
  free:
    type: http
    request: {method: GET, url: "http://page.example/"}
    cost: {}
`))
	require.NoError(t, err)
	return c
}

func input(operation, payload string) contract.TaskInput {
	return contract.TaskInput{Tenant: "acme", Key: "inv-42", Operation: operation, Payload: json.RawMessage(payload)}
}

func TestResolve(t *testing.T) {
	c := testConfig(t)
	in := input("summarise", `{"prompt":"12345", "max_tokens":1e2}`)
	in.Agent, in.Priority, in.Budget = "billing-1", admission.Critical, contract.DefaultBudget
	in.NotBefore, in.Deadline = after(time.Hour), after(2*time.Hour)
	got, err := c.ResolveE(in, noon)
	require.Nil(t, err)
	require.Equal(t, `{"max_tokens":100,"prompt":"12345"}`, string(got.Payload))
	require.Equal(t, Hash("summarise", got.Payload), got.Hash)
	require.Equal(t, []admission.Cost{{Resource: "calls", Amount: 2}, {Resource: "tokens", Amount: 102}}, got.Operation.Cost)
	require.Empty(t, got.Refused)
	require.Equal(t, got, c.Resolve(in, noon))

	// What is pinned is the declaration, and the Config keeps its own.
	op, _ := c.Operation("summarise")
	require.Nil(t, op.Declared.Cost)
	pinned := *got.Operation
	require.True(t, pinned.Doubts)
	require.Equal(t, contract.OnFindingRecord, pinned.OnFinding)
	pinned.Cost, pinned.Doubts, pinned.OnFinding = nil, false, ""
	require.Equal(t, op.Declared, pinned)
}

func TestResolveTakes(t *testing.T) {
	c := testConfig(t)
	for name, in := range map[string]contract.TaskInput{
		"no payload":           input("charge", ""),
		"null":                 input("charge", "null"),
		"no cost":              input("free", "{}"),
		"deadline in the past": {Tenant: "a", Key: "k", Operation: "charge", Deadline: after(-time.Hour)},
		"not before the past":  {Tenant: "a", Key: "k", Operation: "charge", NotBefore: after(-time.Hour)},
		"distant deadline":     {Tenant: "a", Key: "k", Operation: "charge", Deadline: after(40 * 365 * 24 * time.Hour)},
		"key of a header":      {Tenant: "a", Key: `order "7"/ retry`, Operation: "charge"},
		"its own hash":         {Tenant: "a", Key: "k", Operation: "charge", Hash: Hash("charge", []byte("null"))},
		"largest payload":      input("charge", `"`+strings.Repeat("x", contract.MaxPayload-2)+`"`),
		"much white space":     input("charge", strings.Repeat(" ", 2*contract.MaxPayload)+"1"),
		"largest cost":         input("loose", `{"n":1000}`),
	} {
		_, err := c.ResolveE(in, noon)
		require.Nil(t, err, name)
	}
	empty, absent := c.Resolve(input("charge", "null"), noon), c.Resolve(input("charge", ""), noon)
	require.Equal(t, "null", string(empty.Payload))
	require.Equal(t, empty, absent)
}

func TestResolveRefuses(t *testing.T) {
	c := testConfig(t)
	change := func(f func(*contract.TaskInput)) contract.TaskInput {
		in := input("charge", "{}")
		f(&in)
		return in
	}
	for _, r := range []struct {
		name string
		in   contract.TaskInput
		code string
		want string
	}{
		{"no tenant", change(func(in *contract.TaskInput) { in.Tenant = "" }), InvalidName, "the tenant is empty"},
		{"tenant", change(func(in *contract.TaskInput) { in.Tenant = "a/b" }), InvalidName, "tenant"},
		{"agent", change(func(in *contract.TaskInput) { in.Agent = "ü" }), InvalidName, "agent"},
		{"operation", change(func(in *contract.TaskInput) { in.Operation = "" }), InvalidName, "operation"},
		{"budget", change(func(in *contract.TaskInput) { in.Budget = "other" }), InvalidName, `there is no budget "other"`},
		{"priority", change(func(in *contract.TaskInput) { in.Priority = 3 }), InvalidName, "priority(3)"},
		{"no key", change(func(in *contract.TaskInput) { in.Key = "" }), InvalidKey, "empty"},
		{"key", change(func(in *contract.TaskInput) { in.Key = "a\n" }), InvalidKey, "0x0a"},
		{"long key", change(func(in *contract.TaskInput) { in.Key = strings.Repeat("k", 256) }), InvalidKey, "256"},
		{"unknown", change(func(in *contract.TaskInput) { in.Operation = "refund" }), UnknownOperation, `"refund"`},
		{"times in the wrong order", change(func(in *contract.TaskInput) { in.NotBefore, in.Deadline = after(2), after(1) }), InvalidTime, "nothing could ever run"},
		{"times equal", change(func(in *contract.TaskInput) { in.NotBefore, in.Deadline = after(1), after(1) }), InvalidTime, "not before the deadline"},
		{"zero deadline", change(func(in *contract.TaskInput) { in.Deadline = &time.Time{} }), InvalidTime, "deadline"},
		{"distant not_before", change(func(in *contract.TaskInput) { in.NotBefore = after(367 * 24 * time.Hour) }), InvalidTime, "366 days"},
		{"not JSON", input("charge", "{"), InvalidPayload, "not I-JSON"},
		{"large number", input("charge", `{"amount":9007199254740993}`), InvalidPayload, "send it as a string"},
		{"other hash", change(func(in *contract.TaskInput) { in.Hash = "sha256:00" }), InvalidPayload, "the hash is not the payload's"},
		{"too large", input("charge", `"`+strings.Repeat("x", contract.MaxPayload-1)+`"`), PayloadTooLarge, "262145 bytes in its canonical form"},
		{"far too large", input("charge", strings.Repeat(" ", 4*contract.MaxPayload+1)), PayloadTooLarge, "1048577 bytes"},
		{"cost above the limit", input("summarise", `{"prompt":"","max_tokens":1001}`), CostAboveLimit, "a cost of 1001 tokens can never fit: the limit is 1000"},
		{"cost of zero", input("loose", `{"n":0}`), InvalidPayload, "comes out as 0"},
		{"cost below zero", input("summarise", `{"prompt":"","max_tokens":-1}`), InvalidPayload, "comes out as -1"},
		{"a payload that fits", input("heavy", `{"list":[]}`), "", ""},
		{"cost is text", input("loose", `{"n":"7"}`), InvalidPayload, "gives string, want a whole number"},
		{"cost is a fraction", input("loose", `{"n":1.5}`), InvalidPayload, "gives double, want a whole number"},
		{"cost is missing", input("summarise", `{"prompt":"x"}`), InvalidPayload, "no such key: max_tokens"},
		{"cost of no payload", input("summarise", ""), InvalidPayload, "the cost of tokens cannot be told from the payload"},
		{"cost of another type", input("summarise", `{"prompt":7,"max_tokens":1}`), InvalidPayload, "cannot be told"},
		{"cost too expensive", input("heavy", `{"list":[`+strings.Repeat("1,", 999)+`1]}`), InvalidPayload, "too much work"},
	} {
		t.Run(r.name, func(t *testing.T) {
			got, err := c.ResolveE(r.in, noon)
			if r.code == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Equal(t, contract.Resolved{}, got)
			require.Equal(t, r.code, err.Code)
			require.Contains(t, err.Detail, r.want)
			require.Less(t, len(err.Detail), 600)
			require.Equal(t, contract.Resolved{Refused: r.code + ": " + err.Detail}, c.Resolve(r.in, noon))
		})
	}
}

// Codes are part of the HTTP contract.
func TestCodes(t *testing.T) {
	require.Equal(t, []string{"unknown_operation", "invalid_payload", "payload_too_large", "invalid_key", "invalid_name", "invalid_time", "cost_above_limit"},
		[]string{UnknownOperation, InvalidPayload, PayloadTooLarge, InvalidKey, InvalidName, InvalidTime, CostAboveLimit})
	require.EqualError(t, &ResolveError{Code: InvalidKey, Detail: "x"}, "invalid_key: x")
}

func TestEstimateTokens(t *testing.T) {
	for text, want := range map[string]int64{"": 1, "a": 2, "abcd": 2, "abcde": 3, "éé": 2, "ééé": 3, strings.Repeat("x", 400): 101} {
		c := Cost{Resource: "tokens", Expression: "estimate_tokens(payload) + 1"}
		require.NoError(t, c.compile())
		got, err := c.amount(map[string]any{"payload": text}, testConfig(t).Budget)
		require.Nil(t, err)
		require.Equal(t, want, got.Amount, text)
	}
}

func TestResolveIsSafeForConcurrentUse(t *testing.T) {
	c := testConfig(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				n := int64(i*50 + j + 1)
				got, err := c.ResolveE(input("summarise", fmt.Sprintf(`{"prompt":"","max_tokens":%d}`, n)), noon)
				if err != nil || got.Operation.Cost[1].Amount != n {
					t.Errorf("%d: %v %v", n, got, err)
				}
			}
		})
	}
	group.Wait()
}
