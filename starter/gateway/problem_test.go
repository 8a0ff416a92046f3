package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

func TestVerdictProblem(t *testing.T) {
	const sec = admission.Duration(time.Second)
	for _, c := range []struct {
		verdict admission.Verdict
		status  int
		slug    string
		after   int
		next    string
	}{
		{admission.Verdict{Reason: admission.Expired}, 400, "deadline-passed", 0, "do_not_retry"},
		{admission.Verdict{Reason: admission.CostAboveLimit}, 400, "cost-above-limit", 0, "do_not_retry"},
		{admission.Verdict{Reason: admission.KeyReused}, 422, "key-reused", 0, "do_not_retry"},
		{admission.Verdict{Reason: admission.TenantLimit, RetryAfter: sec}, 429, "tenant-limit", 1, "retry_later"},
		{admission.Verdict{Reason: admission.AgentLimit, RetryAfter: sec / 2}, 429, "agent-limit", 1, "retry_later"},
		{admission.Verdict{Reason: admission.QueueFull, RetryAfter: 3*sec + 1}, 429, "queue-full", 4, "retry_later"},
		{admission.Verdict{Reason: admission.OverShare, RetryAfter: 3 * sec}, 429, "over-share", 3, "retry_later"},
		{admission.Verdict{Reason: admission.TenantLimit}, 429, "tenant-limit", 0, "do_not_retry"},
		{admission.Verdict{Reason: admission.StaleBacklog, RetryAfter: 5 * sec}, 503, "stale-backlog", 5, "retry_later"},
		{admission.Verdict{Reason: admission.TenantClosed}, 503, "tenant-closed", 0, "do_not_retry"},
		{admission.Verdict{Reason: admission.TenantClosed, RetryAfter: 60 * sec}, 503, "tenant-closed", 60, "retry_later"},
		{admission.Verdict{Reason: admission.DeadlineUnattainable}, 503, "deadline-unattainable", 0, "do_not_retry"},
		{admission.Verdict{Reason: admission.DeadlineUnattainable, OwnBacklog: true}, 429, "deadline-unattainable", 0, "do_not_retry"},
		{admission.Verdict{Reason: admission.DownstreamUnavailable, RetryAfter: 9 * sec}, 503, "downstream-unavailable", 9, "retry_later"},
		{admission.Verdict{Reason: admission.UnknownResource}, 503, "unknown-resource", 0, "ask_human"},
		{admission.Verdict{Reason: "a_reason_of_tomorrow", RetryAfter: sec}, 503, "refused", 1, "retry_later"},
	} {
		p := verdictProblem(c.verdict).Problem
		assert.Equal(t, c.status, p.Status, c.slug)
		assert.Equal(t, "https://headgate.dev/problems/"+c.slug, p.Type)
		assert.Equal(t, string(c.verdict.Reason), p.Reason, "the budget's own word")
		assert.Equal(t, c.after, p.RetryAfter, c.slug)
		assert.Equal(t, c.next, p.NextAction, c.slug)
		assert.NotEmpty(t, p.Title)
		assert.NotEmpty(t, p.Detail)
	}
}

func TestResolveProblem(t *testing.T) {
	for code, status := range map[string]int{
		"unknown_operation": 400, "invalid_payload": 400, "invalid_key": 400, "invalid_name": 400,
		"cost_above_limit": 400, "invalid_time": 400, "payload_too_large": 413, "code_of_tomorrow": 400,
	} {
		p := resolveProblem(&config.ResolveError{Code: code, Detail: "because"})
		assert.Equal(t, status, p.Status, code)
		assert.Equal(t, "because", p.Detail)
		assert.Zero(t, p.RetryAfter)
	}
}

// Retry-After is an integer of at least one, never rounded down.
func TestRetryAfter(t *testing.T) {
	for after, seconds := range map[time.Duration]int{
		-time.Hour: 1, 0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, 59500 * time.Millisecond: 60, 24 * time.Hour: 86400,
	} {
		assert.Equal(t, seconds, refuse("queue_full", "").later(after).RetryAfter, after)
	}
	for range 100 {
		assert.Contains(t, []int{1, 2, 3}, refuse("gateway_busy", "").soon().RetryAfter)
	}
}

func TestCatalogue(t *testing.T) {
	for reason, k := range kinds {
		p := refuse(reason, "detail").Problem
		assert.Equal(t, reason, strings.ToLower(reason))
		assert.NotContains(t, p.Type, "_")
		assert.NotEmpty(t, k.title, reason)
		assert.NotEmpty(t, k.next, reason)
		assert.GreaterOrEqual(t, k.status, 400, reason)
		text, err := json.Marshal(p)
		assert.NoError(t, err)
		assert.Contains(t, string(text), `"status":`)
	}
	for _, r := range []admission.Reason{admission.Expired, admission.TenantClosed, admission.TenantLimit, admission.AgentLimit,
		admission.StaleBacklog, admission.DeadlineUnattainable, admission.QueueFull, admission.OverShare,
		admission.CostAboveLimit, admission.UnknownResource, admission.KeyReused, admission.DownstreamUnavailable} {
		assert.Contains(t, kinds, string(r), "every refusal of the budget has its own words")
	}
	assert.Equal(t, contract.NextRetryLater, refuse("internal", "").NextAction)
}
