package contract

// APIs that models are called by.
const (
	OpenAI    = "openai"    // chat completions, of OpenAI or of a server compatible with it
	Anthropic = "anthropic" // messages
)

// Model is how a model operation calls its provider.
type Model struct {
	API  string  `json:"api"`
	URL  string  `json:"url"` // below which the API lies
	Name string  `json:"name"`
	Key  *Secret `json:"key,omitempty"` // nil: none is sent
	// MaxTokens bounds one answer; a payload may ask for fewer.
	MaxTokens int64 `json:"max_tokens"`
	Stream    bool  `json:"stream,omitempty"`
	// Tokens is the resource of the operation's cost that is settled with the
	// tokens that were really used; empty: none.
	Tokens string `json:"tokens,omitempty"`
	TLS    *TLS   `json:"tls,omitempty"`
}

// ModelAnswer is the result of a model operation.
type ModelAnswer struct {
	Text   string     `json:"text"`
	Finish string     `json:"finish"` // stop, length, or the provider's own word
	Model  string     `json:"model,omitempty"`
	Usage  ModelUsage `json:"usage"`
}

// ModelUsage counts tokens as the provider does.
type ModelUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}
