package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
)

const (
	testPrompt  = `{"max_tokens":100,"prompt":"What is the capital of France, and why?"}` // 39 bytes: 13 tokens, as the provider counts
	testModelIn = 13
)

// modelProvider is a provider whose model can misbehave.
func modelProvider(t *testing.T) (*provider.Server, string) {
	s := provider.New(provider.Options{})
	url, err := s.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, url
}

func modelInput(url, api string, stream bool, change ...func(m *contract.Model)) contract.EffectInput {
	base := url + "/"
	if api == contract.OpenAI {
		base += "v1/"
	}
	m := &contract.Model{API: api, URL: base, Name: "small", Key: &contract.Secret{Env: "HEADGATE_TEST_KEY"}, MaxTokens: 100, Stream: stream, Tokens: "model_tokens"}
	for _, c := range change {
		c(m)
	}
	return testInput(contract.Operation{Name: "summarise", Type: ModelType, Timeout: contract.Duration(testTimeout), Heartbeat: contract.Duration(testHeartbeat),
		Model: m, Cost: []admission.Cost{{Resource: "model_tokens", Amount: 110}}}, testPrompt)
}

func callModel(t *testing.T, in contract.EffectInput, within time.Duration) contract.Outcome {
	t.Helper()
	prepared, err := (&Model{Network: loopback}).Prepare(t.Context(), in)
	require.NoError(t, err)
	defer func() { require.NoError(t, prepared.(io.Closer).Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return prepared.Effect(ctx, openGuard())
}

// variants are all ways in which a model is called.
func variants(t *testing.T, run func(t *testing.T, api string, stream bool)) {
	t.Helper()
	for _, api := range []string{contract.OpenAI, contract.Anthropic} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%t", api, stream), func(t *testing.T) { run(t, api, stream) })
		}
	}
}

func real(tokens int64) []admission.Cost {
	return []admission.Cost{{Resource: "model_tokens", Amount: tokens}}
}

func TestModelAnswers(t *testing.T) {
	t.Setenv("HEADGATE_TEST_KEY", "sk-test")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/") // nothing is read from there
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")
	variants(t, func(t *testing.T, api string, stream bool) {
		s, url := modelProvider(t)
		in := modelInput(url, api, stream)
		o := callModel(t, in, testTimeout)
		require.Equal(t, admission.Succeeded, o.Class, "%s %s", o.Reason, o.Detail)
		require.Equal(t, real(testModelIn+50), o.Cost, "what was used, not what was reserved")
		require.Equal(t, "ch_1", o.Reference)
		var answer contract.ModelAnswer
		require.NoError(t, json.Unmarshal(o.Result, &answer))
		require.Equal(t, strings.TrimSpace(strings.Repeat("so ", 50)), answer.Text)
		require.Equal(t, "stop", answer.Finish)
		require.Equal(t, "small", answer.Model)
		require.Equal(t, contract.ModelUsage{Input: testModelIn, Output: 50}, answer.Usage)
		counts, err := s.Effects(t.Context(), in.ProviderKey)
		require.NoError(t, err)
		require.Equal(t, 1, counts.Requests, "the provider is told whose call it is")
	})
}

// E5 and E6: whatever the model does, it is classified, and is one request.
func TestModelMisbehaves(t *testing.T) {
	t.Setenv("HEADGATE_TEST_KEY", "sk-test")
	for _, c := range []struct {
		name   string
		fault  provider.Fault
		class  admission.Class
		reason string
		after  time.Duration
		cost   []admission.Cost
		stream int // 1: streams only
	}{
		{name: "429 with seconds", fault: provider.Fault{Kind: provider.Status, Status: 429, RetryAfter: "7"}, class: admission.Refused, reason: "rate_limited", after: 7 * time.Second, cost: real(0)},
		{name: "429 with nothing", fault: provider.Fault{Kind: provider.Status, Status: 429}, class: admission.Refused, reason: "rate_limited", cost: real(0)},
		{name: "429 with junk", fault: provider.Fault{Kind: provider.Status, Status: 429, RetryAfter: "1e12"}, class: admission.Refused, reason: "rate_limited", after: maxRetryAfter, cost: real(0)},
		{name: "529", fault: provider.Fault{Kind: provider.Status, Status: 529, RetryAfter: "3"}, class: admission.Refused, reason: "overloaded", after: 3 * time.Second, cost: real(0)},
		{name: "503", fault: provider.Fault{Kind: provider.Status, Status: 503}, class: admission.Refused, reason: "overloaded", cost: real(0)},
		{name: "spend cap", fault: provider.Fault{Kind: provider.SpendCap}, class: admission.Failed, reason: "spend_cap", cost: real(0)},
		{name: "402", fault: provider.Fault{Kind: provider.Status, Status: 402}, class: admission.Failed, reason: "spend_cap", cost: real(0)},
		{name: "401", fault: provider.Fault{Kind: provider.Status, Status: 401}, class: admission.Failed, reason: "not_authorised", cost: real(0)},
		{name: "400", fault: provider.Fault{Kind: provider.Status, Status: 400}, class: admission.Failed, reason: "rejected_by_provider", cost: real(0)},
		{name: "500", fault: provider.Fault{Kind: provider.Status, Status: 500}, class: admission.Unknown, reason: "provider_error"},
		{name: "500 after the answer was made", fault: provider.Fault{Kind: provider.Status, Status: 500, Commit: true}, class: admission.Unknown, reason: "provider_error"},
		{name: "408", fault: provider.Fault{Kind: provider.Status, Status: 408}, class: admission.Unknown, reason: "provider_busy"},
		{name: "409", fault: provider.Fault{Kind: provider.Status, Status: 409}, class: admission.Unknown, reason: "provider_busy"},
		{name: "refusal", fault: provider.Fault{Kind: provider.Refuse}, class: admission.Failed, reason: "refused_by_model", cost: real(testModelIn + 50)},
		{name: "wrong usage", fault: provider.Fault{Kind: provider.WrongUsage}, class: admission.Succeeded},
		{name: "no usage", fault: provider.Fault{Kind: provider.NoUsage}, class: admission.Succeeded},
		{name: "cut", fault: provider.Fault{Kind: provider.Cut}, class: admission.Unknown, reason: "answer_cut"},
		{name: "half an answer that ends well", fault: provider.Fault{Kind: provider.Garbage}, class: admission.Unknown, reason: "answer_cut"},
		{name: "error in the stream", fault: provider.Fault{Kind: provider.StreamFault}, class: admission.Unknown, reason: "answer_cut", stream: 1},
		{name: "reset before", fault: provider.Fault{Kind: provider.Before}, class: admission.Unknown, reason: "no_answer"},
		{name: "reset after", fault: provider.Fault{Kind: provider.After}, class: admission.Unknown, reason: "no_answer"},
		{name: "hangs", fault: provider.Fault{Kind: provider.Hang}, class: admission.Unknown, reason: "no_answer"},
		{name: "stalls in the answer", fault: provider.Fault{Kind: provider.Drip}, class: admission.Unknown, reason: "answer_cut"},
	} {
		t.Run(c.name, func(t *testing.T) {
			variants(t, func(t *testing.T, api string, stream bool) {
				if c.stream == 1 && !stream {
					return
				}
				s, url := modelProvider(t)
				c.fault.Key, c.fault.On = "*", provider.OnModel
				_, err := s.Inject(t.Context(), c.fault)
				require.NoError(t, err)
				within := testTimeout
				if c.fault.Kind == provider.Hang || c.fault.Kind == provider.Drip {
					within = 200 * time.Millisecond
				}
				o := callModel(t, modelInput(url, api, stream), within)
				require.Equal(t, c.class, o.Class, "%s %s", o.Reason, o.Detail)
				require.Equal(t, c.reason, o.Reason, o.Detail)
				require.Equal(t, c.after, o.RetryAfter.D())
				require.Equal(t, c.cost, o.Cost, "nil: as reserved")
				counts, err := s.Effects(t.Context(), "*")
				require.NoError(t, err)
				require.Equal(t, 1, counts.Requests, "one request on the wire")
				for _, f := range faults(t, s) {
					require.False(t, f.Undelivered(), "%s", f.Kind)
				}
			})
		})
	}
}

func faults(t *testing.T, s *provider.Server) []provider.FaultReport {
	t.Helper()
	all, err := s.Faults(t.Context())
	require.NoError(t, err)
	return all
}

func TestModelIsNotCalled(t *testing.T) {
	s, url := modelProvider(t)
	t.Setenv("HEADGATE_TEST_KEY", "sk-test")
	prepare := func(change func(in *contract.EffectInput)) error {
		in := modelInput(url, contract.OpenAI, false)
		change(&in)
		p, err := (&Model{Network: loopback}).Prepare(t.Context(), in)
		require.Nil(t, p)
		return err
	}
	for name, c := range map[string]struct {
		change func(in *contract.EffectInput)
		reason string
	}{
		"no model":        {func(in *contract.EffectInput) { in.Operation.Model = nil }, "invalid_operation"},
		"unknown API":     {func(in *contract.EffectInput) { in.Operation.Model.API = "x" }, "invalid_operation"},
		"payload":         {func(in *contract.EffectInput) { in.Payload = []byte(`{"promt":"x"}`) }, "invalid_payload"},
		"too many tokens": {func(in *contract.EffectInput) { in.Payload = []byte(`{"max_tokens":101,"prompt":"x"}`) }, "invalid_payload"},
	} {
		var refusal *Refusal
		require.ErrorAs(t, prepare(c.change), &refusal, name)
		require.Equal(t, admission.Failed, refusal.Class)
		require.Equal(t, c.reason, refusal.Reason)
	}
	require.ErrorContains(t, prepare(func(in *contract.EffectInput) { in.Operation.Model.Key.Env = "HEADGATE_TEST_NONE" }), "HEADGATE_TEST_NONE is not set")
	_, err := new(Model).Prepare(t.Context(), modelInput(url, contract.Anthropic, true))
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "address_refused", refusal.Reason)
	counts, err := s.Effects(t.Context(), "*")
	require.NoError(t, err)
	require.Zero(t, counts)

	prepared, err := (&Model{Network: loopback}).Prepare(t.Context(), modelInput(url, contract.OpenAI, true))
	require.NoError(t, err)
	late := &Guard{now: time.Now, sendBy: time.Now().Add(-time.Second)}
	o := prepared.Effect(t.Context(), late)
	require.Equal(t, admission.NotDispatched, o.Class)
	require.Equal(t, "send_by_passed", o.Reason)
}

func TestModelRetryAfter(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		header map[string]string
		want   time.Duration
	}{
		{nil, 0},
		{map[string]string{"Retry-After": "5", "Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		{map[string]string{"Retry-After-Ms": "NaN", "Retry-After": "2"}, 2 * time.Second},
		{map[string]string{"Retry-After-Ms": "1e300"}, maxRetryAfter},
		{map[string]string{"Retry-After": "-3"}, 0},
		{map[string]string{"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "1m2s", "X-Ratelimit-Remaining-Requests": "7", "X-Ratelimit-Reset-Requests": "9m"}, 62 * time.Second},
		{map[string]string{"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "soon"}, 0},
		{map[string]string{"Anthropic-Ratelimit-Output-Tokens-Remaining": "0", "Anthropic-Ratelimit-Output-Tokens-Reset": "2026-12-01T12:00:30Z"}, 30 * time.Second},
		{map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2027-12-01T12:00:30Z"}, maxRetryAfter},
		{map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2025-12-01T12:00:30Z"}, 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		require.Equal(t, c.want, modelRetryAfter(h, now), "%v", c.header)
	}
}
