package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

const modelBase = `budget: {resources: {model_tokens: {per: 1m, amount: 120000, burst: 20000}, calls: {concurrent: 2}}}
operations:
  summarise:
    type: model
    model: {api: openai, url: "https://models.example/v1", name: small, key: {file: /run/key}, max_tokens: 1000, stream: true, tokens: model_tokens}
    cost: {model_tokens: "estimate_tokens(payload.prompt) + payload.max_tokens"}
    replay: {class: safe}
`

func TestModel(t *testing.T) {
	c, err := Parse("test.yaml", []byte(modelBase))
	require.NoError(t, err)
	op, _ := c.Operation("summarise")
	require.Equal(t, &contract.Model{API: "openai", URL: "https://models.example/v1/", Name: "small", Key: &contract.Secret{File: "/run/key"},
		MaxTokens: 1000, Stream: true, Tokens: "model_tokens"}, op.Declared.Model)
	require.Nil(t, op.Declared.Request)
	in := contract.TaskInput{Tenant: "acme", Key: "k", Operation: "summarise", Payload: []byte(`{"prompt":"hello","max_tokens":10}`)}
	resolved, refused := c.ResolveE(in, noon)
	require.Nil(t, refused)
	require.Equal(t, []admission.Cost{{Resource: "model_tokens", Amount: 12}}, resolved.Operation.Cost)
	for payload, why := range map[string]string{
		`{"prompt":"hello"}`:                                                        "no such key: max_tokens",
		`{"prompt":"hello","max_tokens":1001}`:                                      "the operation allows 1 to 1000",
		`{"prompt":"hello","max_tokens":10,"tools":[]}`:                             "unknown field",
		`{"prompt":7,"max_tokens":10}`:                                              "no such overload",
		`{"prompt":"x","max_tokens":10,"messages":[{"role":"user","content":"x"}]}`: "send one of them",
	} {
		in.Payload = []byte(payload)
		_, refused := c.ResolveE(in, noon)
		require.NotNil(t, refused, payload)
		require.Equal(t, InvalidPayload, refused.Code)
		require.Contains(t, refused.Detail, why)
	}

	c, err = Parse("test.yaml", []byte(strings.Replace(modelBase, ` url: "https://models.example/v1",`, "", 1)))
	require.NoError(t, err)
	op, _ = c.Operation("summarise")
	require.Equal(t, "https://api.openai.com/v1/", op.Declared.Model.URL)
}

func TestPrompts(t *testing.T) {
	m := &contract.Model{MaxTokens: 50}
	p, err := ReadPrompt(m, []byte(`{"system":"be brief","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"temperature":0}`))
	require.NoError(t, err)
	zero := 0.0
	require.Equal(t, Prompt{System: "be brief", Messages: []Message{{"user", "a"}, {"assistant", "b"}}, MaxTokens: 50, Temperature: &zero}, p)
	for _, payload := range []string{`{}`, `{"messages":[]}`, `{"prompt":""}`, `{"messages":[{"role":"system","content":"x"}]}`, `{"prompt":"x","max_tokens":-1}`, `[]`, `"x"`} {
		_, err := ReadPrompt(m, []byte(payload))
		require.Error(t, err, payload)
	}
}

func TestTokensOfLists(t *testing.T) {
	c, err := Parse("test.yaml", []byte(strings.Replace(modelBase, "estimate_tokens(payload.prompt) + payload.max_tokens", "estimate_tokens(payload.messages)", 1)))
	require.NoError(t, err)
	_, refused := c.ResolveE(contract.TaskInput{Tenant: "acme", Key: "k", Operation: "summarise",
		Payload: []byte(`{"messages":[{"role":"user","content":"12345678"},{"role":"assistant","content":""}]}`)}, noon)
	require.Equal(t, InvalidPayload, refused.Code, "a message is empty")
	resolved, refused := c.ResolveE(contract.TaskInput{Tenant: "acme", Key: "k", Operation: "summarise",
		Payload: []byte(`{"messages":[{"role":"user","content":"12345678"},{"role":"assistant","content":"1"}]}`)}, noon)
	require.Nil(t, refused)
	require.EqualValues(t, 4+3+4+3, resolved.Operation.Cost[0].Amount)
}

func TestRefuseModels(t *testing.T) {
	for name, c := range map[string]struct{ old, new, text string }{
		"api":                 {"api: openai", "api: opnai", `did you mean "openai"?`},
		"no name":             {"name: small, ", "", "name is missing"},
		"no bound":            {"max_tokens: 1000, ", "", "max_tokens is missing"},
		"bound":               {"max_tokens: 1000, ", "max_tokens: 0, ", "write 1 to 1000000"},
		"key in the file":     {"key: {file: /run/key}", "key: sk-1", "want a mapping"},
		"a request":           {"    model: {", "    request: {method: GET, url: \"http://a/\"}\n    model: {", `there is no field "request"`},
		"tokens not reserved": {"tokens: model_tokens}", "tokens: other}", "nothing to settle"},
		"tokens of slots":     {"tokens: model_tokens}\n    cost: {", "tokens: calls}\n    cost: {calls: 1, ", "calls is a concurrent resource"},
		"keyed":               {"class: safe", "class: keyed, window: 1h", "no model's provider deduplicates by key"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, modelBase, c.old)
			_, err := Parse("test.yaml", []byte(strings.Replace(modelBase, c.old, c.new, 1)))
			require.ErrorContains(t, err, c.text)
		})
	}
}
