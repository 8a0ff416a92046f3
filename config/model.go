package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headgate/admission"
	"headgate/contract"
)

// DefaultModelURLs are model.url, by API.
var DefaultModelURLs = map[string]string{
	contract.OpenAI:    "https://api.openai.com/v1/",
	contract.Anthropic: "https://api.anthropic.com/",
}

// maxModelTokens bounds model.max_tokens.
const maxModelTokens = 1_000_000

func readModel(s *section) *contract.Model {
	out := &contract.Model{}
	if _, ok := s.need("api", contract.OpenAI); ok {
		out.API = s.oneOf("api", "", contract.OpenAI, contract.Anthropic)
	}
	out.URL = DefaultModelURLs[out.API]
	if f, ok := s.field("url"); ok {
		if out.URL = s.url(f, nil); out.URL != "" && !strings.HasSuffix(out.URL, "/") {
			out.URL += "/"
		}
	}
	if f, ok := s.need("name", "\"...\""); ok {
		out.Name = s.textOf(f)
	}
	if k := s.child("key"); k != nil {
		out.Key = k.secret()
		k.done()
	}
	if _, ok := s.need("max_tokens", "1000"); ok {
		out.MaxTokens = s.whole("max_tokens", 1, 1, maxModelTokens)
	}
	out.Stream = s.truth("stream")
	out.Tokens = s.text("tokens")
	s.done()
	return out
}

// checkTokens: what is settled must have been reserved, by the interval.
func (s *section) checkTokens(d contract.Operation, costs []Cost, budget admission.Policy) {
	if d.Model.Tokens == "" {
		return
	}
	f, _ := s.field("model")
	at := f.value.place
	r, known := budget.Resource(d.Model.Tokens)
	switch {
	case !slices.ContainsFunc(costs, func(c Cost) bool { return c.Resource == d.Model.Tokens }):
		s.add(at, join(s.path, "model.tokens"), "the cost takes no %s, so there is nothing to settle: add it to cost, or name another resource", d.Model.Tokens)
	case known && r.Per == 0:
		s.add(at, join(s.path, "model.tokens"), "%s is a concurrent resource: tokens are counted per interval", d.Model.Tokens)
	}
}

// Prompt is the payload of a model operation.
type Prompt struct {
	System   string    `json:"system"`
	Messages []Message `json:"messages"` // a prompt alone is one message of the user
	// MaxTokens is at most, and if it is left out, the operation's.
	MaxTokens   int64    `json:"max_tokens"`
	Temperature *float64 `json:"temperature"`
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // user or assistant
	Content string `json:"content"`
}

// ReadPrompt reads a payload: {"prompt": "..."} or {"messages": [...]}, and beside
// it system, max_tokens and temperature.
func ReadPrompt(m *contract.Model, payload []byte) (Prompt, error) {
	var in struct {
		Prompt
		Text *string `json:"prompt"`
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return Prompt{}, fmt.Errorf("a model's payload has prompt or messages, system, max_tokens and temperature: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	p := in.Prompt
	switch {
	case in.Text != nil && p.Messages != nil:
		return p, errors.New("the payload has a prompt and messages: send one of them")
	case in.Text != nil:
		p.Messages = []Message{{Role: "user", Content: *in.Text}}
	}
	if len(p.Messages) == 0 {
		return p, errors.New("the payload has neither a prompt nor messages")
	}
	for i, one := range p.Messages {
		if one.Role != "user" && one.Role != "assistant" || one.Content == "" {
			return p, fmt.Errorf("message %d: want a role, user or assistant, and a content", i+1)
		}
	}
	if p.MaxTokens == 0 {
		p.MaxTokens = m.MaxTokens
	}
	if p.MaxTokens < 0 || p.MaxTokens > m.MaxTokens {
		return p, fmt.Errorf("max_tokens is %d: the operation allows 1 to %d", p.MaxTokens, m.MaxTokens)
	}
	return p, nil
}
