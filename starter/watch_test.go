package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/starter/gateway"
)

func TestWatchIsPlainWhereNobodyLooks(t *testing.T) {
	view := gateway.QueueView{View: admission.View{Depth: 5, InFlight: 2, OldestAge: admission.Duration(90 * time.Second),
		Tenants: []admission.TenantView{{TenantPolicy: admission.TenantPolicy{Name: "acme"}, Queued: 5, WaitingOn: admission.Capacity, Resource: "psp_calls"}},
		Gates:   []admission.GateView{{Operation: "charge_card", State: admission.BreakerOpen}},
		Doubts:  []admission.DoubtView{{Tasks: 3}}}}
	newCannedGateway(t, map[string][]canned{"GET /v1/queue": {{200, view}, problem(503, "budget_unavailable", contract.NextRetryLater, 1), {200, gateway.QueueView{}}}})
	got := command("", "watch", "--every", "1s", "--looks", "3")
	require.Equal(t, exitDone, got.status, got.errors)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 3)
	assert.NotContains(t, got.out, "\x1b")
	for i, want := range []string{
		"5 wait, 2 run, the oldest for 1m30s; acme: 5 wait on capacity psp_calls; charge_card: breaker_open; 3 in doubt (headgate unknown)",
		"Title of it (budget_unavailable): because so",
		"0 wait, 0 run",
	} {
		_, text, _ := strings.Cut(lines[i], "  ")
		assert.Equal(t, want, text)
	}
	assert.Equal(t, exitUsage, command("", "watch", "--every", "10ms").status)
}

func TestWatchTellsHowItEnded(t *testing.T) {
	newCannedGateway(t, map[string][]canned{"GET /v1/queue": {problem(503, "budget_unavailable", contract.NextRetryLater, 1)}})
	assert.Equal(t, exitLater, command("", "watch", "--looks", "1").status)
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := command("", "completion", shell)
		require.Equal(t, exitDone, got.status, got.errors)
		assert.Contains(t, got.out, "headgate")
	}
	got := command("", "__complete", "sub")
	assert.Contains(t, got.out, "submit\tAsk for a side effect")
	got = command("", "__complete", "submit", "--fi")
	assert.Contains(t, got.out, "--file")
}

func TestShortDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Microsecond: "2ms", 9900 * time.Millisecond: "9.9s", time.Minute: "1m", 90 * time.Second: "1m30s",
		100 * time.Second: "1m40s", 10*time.Minute + 10*time.Second: "10m10s", time.Hour: "1h0m", 90 * time.Minute: "1h30m", 72 * time.Hour: "3d",
	} {
		assert.Equal(t, want, short(d), d)
	}
}
