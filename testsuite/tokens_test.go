package testsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// Per task: 600 bytes of prompt are estimated at 150 tokens and are 200, and of the
// longest answer, 20, half is used. So 170 are reserved and 210 used.
const (
	tokenRate  = 500 // a second
	tokenBurst = 600
	tokenTasks = 24
	tokenUse   = 210
	tokenError = tokenUse - 170
)

var tokenOperations = fmt.Sprintf(`
budget: {resources: {model_tokens: {per: 10s, amount: %d, burst: %d}, model_calls: {concurrent: 4}}}
tenants: {default: {weight: 1, max_in_flight: 8, max_queued: 100}}
operations:
  summarise:
    type: model
    model: {api: anthropic, url: "http://127.0.0.1:7291/", name: small, max_tokens: 20, stream: true, tokens: model_tokens}
    cost: {model_tokens: "estimate_tokens(payload.prompt) + payload.max_tokens", model_calls: 1}
    timeout: 20s
    heartbeat: 5s
    retry: {max_attempts: 8, base: 100ms, max: 1s, max_age: 5m}
    replay: {class: safe}
network: {private: "127.0.0.1/32"}
`, 10*tokenRate, tokenBurst)

// TestTokenBudget: every estimate is too low by a quarter, some answers are
// refused with 429, and yet the tokens that the model really used are never above
// what the budget has given out so far plus the error of one estimate.
func TestTokenBudget(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	s := &samples{newWorld(ctx, t)}
	loaded := s.use(ctx, t, tokenOperations)
	s.runModel(ctx, t, loaded)
	for _, key := range []string{"task-5", "task-11"} {
		s.fault(ctx, t, key, provider.Fault{Kind: provider.Status, On: provider.OnModel, Status: 429, RetryAfter: "0.2"})
	}
	payload := fmt.Sprintf(`{"max_tokens": 20, "prompt": %q}`, strings.Repeat("x", 600))
	began := time.Now()
	for i := range tokenTasks {
		s.submit(ctx, t, fmt.Sprintf("task-%d", i), "summarise", payload)
	}
	for i := range tokenTasks {
		view := s.until(ctx, t, fmt.Sprintf("task-%d", i), contract.PhaseSucceeded)
		var answer contract.ModelAnswer
		require.NoError(t, json.Unmarshal(view.Result, &answer))
		require.EqualValues(t, tokenUse, answer.Usage.Input+answer.Usage.Output)
	}
	entries, err := s.Provider.Ledger(ctx, "*")
	require.NoError(t, err)
	used, worst, answers := 0, 0.0, 0
	var last time.Time
	for _, e := range entries {
		if e.Event != provider.EventEffect {
			continue
		}
		answers++
		used += e.Tokens
		allowed := tokenBurst + tokenRate*e.Time.Sub(began).Seconds()
		worst, last = max(worst, float64(used)-allowed), e.Time
	}
	require.Equal(t, tokenTasks, answers)
	require.Equal(t, tokenTasks*tokenUse, used)
	t.Logf("%d tokens in %s; most above the limit: %.0f, error of one estimate: %d", used, last.Sub(began).Round(time.Millisecond), max(worst, 0), tokenError)
	require.LessOrEqual(t, worst, float64(tokenError))
	// Without settlement, 170 a task, it would have been over sooner.
	require.Greater(t, last.Sub(began).Seconds(), float64(tokenTasks*tokenUse-tokenBurst-tokenUse)/tokenRate)

	view, err := s.Door.Queue(ctx)
	require.NoError(t, err)
	require.Zero(t, view.InFlight, "every lease is back")

	answer, err := s.Door.Submit(ctx, "never-fits", contract.SubmitRequest{Tenant: sampleTenant, Operation: "summarise",
		Payload: json.RawMessage(fmt.Sprintf(`{"max_tokens": 20, "prompt": %q}`, strings.Repeat("x", 21000)))})
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, answer.Status)
	require.Empty(t, answer.RetryAfter, "what can never fit is not to be tried again")
}
