package activities

import (
	"context"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"headgate/config"
	"headgate/contract"
)

// callOpenAI makes a chat completion. The service is made without a client: that
// would read keys and addresses from the environment.
func callOpenAI(ctx context.Context, e *modelEffect) (completion, error) {
	options := []openaioption.RequestOption{
		openaioption.WithBaseURL(e.spec.URL), openaioption.WithHTTPClient(e.wire), openaioption.WithMaxRetries(0),
		openaioption.WithHeader(e.requestID()),
	}
	if e.key != "" {
		options = append(options, openaioption.WithAPIKey(e.key))
	}
	service := openai.NewChatCompletionService(options...)
	params := openai.ChatCompletionNewParams{Model: e.spec.Name}
	if e.prompt.System != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(e.prompt.System))
	}
	for _, m := range e.prompt.Messages {
		if m.Role == "assistant" {
			params.Messages = append(params.Messages, openai.AssistantMessage(m.Content))
		} else {
			params.Messages = append(params.Messages, openai.UserMessage(m.Content))
		}
	}
	// OpenAI's own models want the new name, and compatible servers know the old one.
	if e.spec.URL == config.DefaultModelURLs[contract.OpenAI] {
		params.MaxCompletionTokens = openai.Int(e.prompt.MaxTokens)
	} else {
		params.MaxTokens = openai.Int(e.prompt.MaxTokens)
	}
	if e.prompt.Temperature != nil {
		params.Temperature = openai.Float(*e.prompt.Temperature)
	}
	if e.spec.Stream {
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		return streamOpenAI(ctx, &service, params)
	}
	answer, err := service.New(ctx, params)
	if err != nil {
		return completion{}, err
	}
	out := completion{id: answer.ID, model: answer.Model, usage: contract.ModelUsage{Input: answer.Usage.PromptTokens, Output: answer.Usage.CompletionTokens}}
	if len(answer.Choices) > 0 {
		choice := answer.Choices[0]
		out.text, out.refusal, out.finish = choice.Message.Content, choice.Message.Refusal, choice.FinishReason
	}
	return out.filtered(), nil
}

func streamOpenAI(ctx context.Context, service *openai.ChatCompletionService, params openai.ChatCompletionNewParams) (completion, error) {
	stream := service.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	var out completion
	var text, refusal strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		out.id, out.model = chunk.ID, chunk.Model
		if chunk.Usage.PromptTokens > 0 { // the last chunk alone has it
			out.usage = contract.ModelUsage{Input: chunk.Usage.PromptTokens, Output: chunk.Usage.CompletionTokens}
		}
		for _, choice := range chunk.Choices {
			if choice.Index != 0 {
				continue
			}
			text.WriteString(choice.Delta.Content)
			refusal.WriteString(choice.Delta.Refusal)
			if choice.FinishReason != "" {
				out.finish = choice.FinishReason
			}
		}
	}
	out.text, out.refusal = text.String(), refusal.String()
	return out.filtered(), stream.Err()
}

// filtered tells an answer that the provider's filter has ended.
func (c completion) filtered() completion {
	if c.finish == "content_filter" && c.refusal == "" {
		c.refusal = "content_filter"
	}
	return c
}

// callAnthropic creates a message.
func callAnthropic(ctx context.Context, e *modelEffect) (completion, error) {
	options := []anthropicoption.RequestOption{
		anthropicoption.WithBaseURL(e.spec.URL), anthropicoption.WithHTTPClient(e.wire), anthropicoption.WithMaxRetries(0),
		anthropicoption.WithHeader(e.requestID()),
	}
	if deadline, ok := ctx.Deadline(); ok { // else the client has one of its own
		options = append(options, anthropicoption.WithRequestTimeout(deadline.Sub(e.now())))
	}
	if e.key != "" {
		options = append(options, anthropicoption.WithAPIKey(e.key))
	}
	service := anthropic.NewMessageService(options...)
	params := anthropic.MessageNewParams{Model: e.spec.Name, MaxTokens: e.prompt.MaxTokens}
	if e.prompt.System != "" {
		params.System = []anthropic.TextBlockParam{{Text: e.prompt.System}}
	}
	for _, m := range e.prompt.Messages {
		block := anthropic.NewTextBlock(m.Content)
		if m.Role == "assistant" {
			params.Messages = append(params.Messages, anthropic.NewAssistantMessage(block))
		} else {
			params.Messages = append(params.Messages, anthropic.NewUserMessage(block))
		}
	}
	if e.prompt.Temperature != nil {
		service.Options = append(service.Options, anthropicoption.WithJSONSet("temperature", *e.prompt.Temperature))
	}
	var answer anthropic.Message
	if !e.spec.Stream {
		whole, err := service.New(ctx, params)
		if err != nil {
			return completion{}, err
		}
		return fromAnthropic(whole), nil
	}
	stream := service.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	ended := false
	for stream.Next() {
		event := stream.Current()
		if err := answer.Accumulate(event); err != nil {
			return completion{}, err
		}
		ended = ended || event.Type == "message_stop"
	}
	out := fromAnthropic(&answer)
	if !ended {
		out.finish = ""
	}
	return out, stream.Err()
}

func fromAnthropic(m *anthropic.Message) completion {
	u := m.Usage
	out := completion{id: m.ID, model: m.Model, finish: string(m.StopReason),
		usage: contract.ModelUsage{Input: u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens, Output: u.OutputTokens}}
	var text strings.Builder
	for _, block := range m.Content {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	out.text = text.String()
	switch m.StopReason {
	case anthropic.StopReasonEndTurn, anthropic.StopReasonStopSequence:
		out.finish = "stop"
	case anthropic.StopReasonMaxTokens:
		out.finish = "length"
	case anthropic.StopReasonRefusal:
		out.refusal = "refusal"
		if out.text != "" {
			out.refusal = out.text
		}
	}
	return out
}
