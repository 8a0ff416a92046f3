package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// modelAPI is one way to ask the model: chat completions as OpenAI has them, or
// messages as Anthropic has them.
type modelAPI string

const (
	chatCompletions modelAPI = "chat"
	messages        modelAPI = "messages"
)

// modelCall is one call in hand.
type modelCall struct {
	api           modelAPI
	stream, usage bool // a stream of chat completions tells the usage if it is asked to
	model         string
	input, output int // tokens
}

// postModel is an effect: an answer that costs tokens. The key is in the header
// X-Client-Request-Id, and deduplicates nothing.
//
// The model counts a token for three bytes of a prompt, where most people guess
// four, and its answer has half of what it may have. The ledger's effect says how
// many tokens were used.
func (s *Server) postModel(api modelAPI) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, call, refusal := readModelCall(api, r)
		s.serve(w, r, v, func() answer {
			if v.malformed {
				return refusal
			}
			return s.complete(v, call)
		})
	}
}

func readModelCall(api modelAPI, r *http.Request) (*visit, modelCall, answer) {
	v := &visit{on: OnModel, key: r.Header.Get("X-Client-Request-Id"), tenant: r.Header.Get("X-Tenant")}
	if len(v.key) > maxKey {
		v.key = v.key[:maxKey]
	}
	call := modelCall{api: api}
	var in struct {
		Model               string
		Stream              bool
		System              json.RawMessage
		Messages            []struct{ Content json.RawMessage }
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	refuse := func(status int, word string) (*visit, modelCall, answer) {
		v.malformed = true
		return v, call, modelFault(status, word, "")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		return refuse(http.StatusRequestEntityTooLarge, "request_too_large")
	}
	limit := 0
	if err == nil {
		err = json.Unmarshal(body, &in)
		limit = max(in.MaxTokens, in.MaxCompletionTokens)
	}
	if err != nil || in.Model == "" || len(in.Messages) == 0 || limit < 1 {
		return refuse(http.StatusBadRequest, "invalid_request_error")
	}
	size := len(prose(in.System))
	for _, m := range in.Messages {
		size += len(prose(m.Content))
	}
	call.model, call.stream, call.usage = in.Model, in.Stream, api == messages || in.StreamOptions.IncludeUsage
	call.input, call.output = (size+2)/3, (limit+1)/2
	return v, call, answer{}
}

// prose is the text of a content: a text, or a list of blocks with one each.
func prose(raw json.RawMessage) string {
	var blocks []struct{ Text string }
	if json.Unmarshal(raw, &blocks) != nil {
		return text(raw)
	}
	var all strings.Builder
	for _, b := range blocks {
		_, _ = all.WriteString(b.Text)
	}
	return all.String()
}

// complete makes the effect.
func (s *Server) complete(v *visit, call modelCall) answer {
	kind := Kind("")
	if v.fault != nil {
		kind = v.fault.Kind
	}
	if kind == SpendCap {
		s.delivered(v)
		return modelFault(http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota")
	}
	s.mu.Lock()
	made := s.make(v, time.Now(), call.input+call.output)
	s.mu.Unlock()
	switch kind {
	case Refuse, WrongUsage, NoUsage, StreamFault:
		s.delivered(v)
	}
	told := [2]int{call.input, call.output}
	switch kind {
	case WrongUsage:
		told = [2]int{-7, 0}
	case NoUsage:
		told, call.usage = [2]int{}, false
	}
	said := strings.TrimSpace(strings.Repeat("so ", min(call.output, 500)))
	if call.api == messages {
		return call.message(made.ID, said, kind, told)
	}
	return call.completion(made.ID, said, kind, told)
}

type object = map[string]any

func (c modelCall) completion(id, said string, kind Kind, told [2]int) answer {
	usage := object{"prompt_tokens": told[0], "completion_tokens": told[1], "total_tokens": told[0] + told[1]}
	head := func(name string) object { return object{"id": id, "object": name, "created": 1, "model": c.model} }
	if !c.stream {
		message := object{"role": "assistant", "content": said, "refusal": nil}
		if kind == Refuse {
			message = object{"role": "assistant", "content": nil, "refusal": "I will not do that."}
		}
		a := head("chat.completion")
		a["choices"] = []object{{"index": 0, "message": message, "finish_reason": "stop", "logprobs": nil}}
		if kind != NoUsage {
			a["usage"] = usage
		}
		return reply(http.StatusOK, a)
	}
	var out events
	chunk := func(delta object, finish any) {
		a := head("chat.completion.chunk")
		a["choices"] = []object{{"index": 0, "delta": delta, "finish_reason": finish}}
		out.add("", a)
	}
	if kind == Refuse {
		chunk(object{"role": "assistant", "refusal": "I will not "}, nil)
		chunk(object{"refusal": "do that."}, nil)
	} else {
		for _, part := range halves(said) {
			chunk(object{"role": "assistant", "content": part}, nil)
		}
	}
	if kind == StreamFault {
		out.add("", object{"error": object{"message": "try again", "type": "server_error", "code": "overloaded"}})
		return out.answer()
	}
	chunk(object{}, "stop")
	if c.usage {
		a := head("chat.completion.chunk")
		a["choices"], a["usage"] = []object{}, usage
		out.add("", a)
	}
	_, _ = out.text.WriteString("data: [DONE]\n\n")
	return out.answer()
}

func (c modelCall) message(id, said string, kind Kind, told [2]int) answer {
	stop := "end_turn"
	if kind == Refuse {
		said, stop = "I will not do that.", "refusal"
	}
	usage := object{"input_tokens": told[0], "output_tokens": told[1]}
	message := object{"id": id, "type": "message", "role": "assistant", "model": c.model, "content": []object{{"type": "text", "text": said}},
		"stop_reason": stop, "stop_sequence": nil, "usage": usage}
	if !c.stream {
		if kind == NoUsage {
			delete(message, "usage")
		}
		return reply(http.StatusOK, message)
	}
	var out events
	message["content"], message["stop_reason"], message["usage"] = []object{}, nil, object{"input_tokens": told[0], "output_tokens": min(told[1], 1)}
	out.add("message_start", object{"type": "message_start", "message": message})
	out.add("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})
	for _, part := range halves(said) {
		out.add("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": part}})
	}
	if kind == StreamFault {
		out.add("error", object{"type": "error", "error": object{"type": "overloaded_error", "message": "Overloaded"}})
		return out.answer()
	}
	out.add("content_block_stop", object{"type": "content_block_stop", "index": 0})
	out.add("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": told[1]}})
	out.add("message_stop", object{"type": "message_stop"})
	return out.answer()
}

// modelFault is an error as both APIs write it, as far as a client can tell.
func modelFault(status int, word, code string) answer {
	if word == "" {
		word = map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
			429: "rate_limit_error", 503: "server_error", 529: "overloaded_error"}[status]
	}
	fault := object{"type": word, "message": "fault " + strconv.Itoa(status), "param": nil, "code": nil}
	if code != "" {
		fault["code"] = code
	}
	return reply(status, object{"type": "error", "error": fault})
}

// events are a stream that is written at once.
type events struct{ text bytes.Buffer }

func (e *events) add(name string, data object) {
	line, err := json.Marshal(data)
	if err != nil {
		panic(err) // texts and numbers of ours
	}
	if name != "" {
		fmt.Fprintf(&e.text, "event: %s\n", name)
	}
	fmt.Fprintf(&e.text, "data: %s\n\n", line)
}

func (e *events) answer() answer {
	return answer{status: http.StatusOK, body: e.text.Bytes(), stream: true}
}

func halves(s string) []string { return []string{s[:len(s)/2], s[len(s)/2:]} }
