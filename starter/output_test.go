package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/starter/gateway"
)

// What people see, as golden files.
func TestOutput(t *testing.T) {
	full := task(contract.PhaseSucceeded)
	full.Agent, full.Priority, full.Ended, full.Attempts = "billing-1", admission.High, at(9), 3
	full.Retries = []contract.Count{{Class: "worker_lost", N: 1}, {Class: "rate_limited", N: 1}}
	full.Result, full.Available, full.Reference = json.RawMessage(`{"id":"ch_1"}`), true, "ch_1"
	full.Evidence = []contract.Evidence{{Kind: contract.EvidenceLookup, Finding: contract.Happened, Reference: "ch_1"}}

	waiting := task(contract.PhaseAccepted)
	waiting.WaitingOn, waiting.Position, waiting.EstimatedStart = []contract.Waiting{{Reason: "capacity", Resource: "psp_calls"}}, 3, at(20)
	waiting.CancelRequested = true

	unknown := task(contract.PhaseUnknown)
	unknown.Attempts, unknown.ErrorClass = 1, "no_answer"
	unknown.Reconciliation = &contract.Stand{Version: 3, Phase: contract.PhaseUnknown, Reason: "no_answer", Since: *at(0), Probes: 5, NextProbe: at(40)}

	hostile := task(contract.PhaseFailed)
	hostile.ErrorClass, hostile.Detail = "rejected_by_provider", "line one\nline two\x1b[31m\tred\u009b"

	view := admission.View{Now: *at(30), Depth: 12, Soft: 800, Hard: 1000, OldestAge: admission.Duration(83 * time.Second), InFlight: 2,
		Interval: admission.Duration(450 * time.Millisecond),
		Resources: []admission.ResourceView{
			{Resource: admission.Resource{Name: "outbound_messages", Per: admission.Duration(time.Minute), Amount: 30, Burst: 5}, Level: -3, Next: at(41)},
			{Resource: admission.Resource{Name: "psp_calls", Concurrent: 4}, Limit: 3, Held: at(35), Used: 2}},
		Gates: []admission.GateView{{Operation: "charge_card", State: admission.BreakerOpen, Until: at(45)},
			{Operation: "refund_card", State: admission.BreakerProbe, Probe: "task/acme/inv/42"}},
		Tenants: []admission.TenantView{
			{TenantPolicy: admission.TenantPolicy{Name: "acme", Weight: 3, MaxInFlight: 4, MaxQueued: 400}, Queued: 10, InFlight: 2,
				ByPriority: []admission.PriorityDepth{{Priority: admission.Low}, {Priority: admission.Normal, Queued: 9}, {Priority: admission.Critical, Queued: 1}},
				OldestAge:  admission.Duration(83 * time.Second), WaitingOn: admission.Capacity, Resource: "psp_calls"},
			{TenantPolicy: admission.TenantPolicy{Name: "globex", Weight: 1}, Queued: 2,
				WaitingOn: admission.TenantPaused, Pause: &admission.Pause{Dispatch: true, Actor: "mara", Reason: "audit", Since: *at(1), Until: at(59)}},
			{TenantPolicy: admission.TenantPolicy{Name: "initech", Weight: 1}, Pause: &admission.Pause{Dispatch: true, Admission: true, Actor: "joe", Since: *at(2)}}},
		Leases: []admission.LeaseView{{Lease: admission.Lease{ID: "lease-1", Granted: *at(25)}, Task: "task/acme/inv/42", Attempt: 1, Tenant: "acme",
			Operation: "charge_card", Cost: []admission.Cost{{Resource: "psp_calls", Amount: 1}}, Grace: true}}}

	doubtful := admission.View{Now: *at(30), Soft: 800, Hard: 1000,
		Gates: []admission.GateView{{Operation: "charge_card", State: admission.OperationFrozen, Stopping: 1,
			Frozen: &admission.Freeze{Actor: "mara", Reason: "charged twice", Since: *at(20)}}},
		Doubts: []admission.DoubtView{{Operation: "charge_card", Tenant: "acme", Tasks: 2, Ceiling: 2, Since: *at(10),
			Held: []admission.Cost{{Resource: "model_tokens", Amount: 900}}}, {Operation: "refund_card", Tenant: "acme", Tasks: 1, Ceiling: 20, Since: *at(29)}}}
	found := []contract.Finding{{Kind: contract.FindingOrphaned, Effect: "hg-planted", Count: 1, Detail: "no stored task has its key", Actor: "audit by http@host:1", At: *at(5)}}

	explanation := contract.Explanation{Task: full, Sentence: "It SUCCEEDED: the provider answered.", Events: []contract.Event{
		{At: *at(0), Name: "accepted", Detail: "charge_card, high priority", Actor: "gateway@host"},
		{At: *at(1), Name: "claimed", Attempt: 1, Actor: "worker-1"},
		{At: *at(2), Name: "answer", Attempt: 1, Detail: "succeeded, status 201"}}}

	wrong := contract.Explanation{Task: full, Sentence: explanation.Sentence, Findings: []contract.Finding{{Kind: contract.FindingDuplicate,
		Task: full.Task, Count: 2, Detail: "the provider counts 2 effects", Actor: "audit by http@host:1", At: *at(5)}}, FindingsUnread: true}

	lease := admission.Lease{ID: "lease-1", Granted: *at(1)}
	asks := contract.ApprovalView{Task: task(contract.PhaseAccepted), Payload: json.RawMessage(`{"amount":1200}`), Rule: "payload.amount > 1000"}
	asks.Task.Approval = &contract.ApprovalStand{Version: 1, Since: *at(0), Expires: *at(59), Hash: "sha256:0123456789abcdef", Digest: "sha256:fedcba"}
	type shown struct {
		args []string
		path string
		body any
	}
	why := func(w admission.Why, until *time.Time, first string) shown {
		return shown{[]string{"why", "acme", "inv/42"}, taskRoute + "/why", gateway.WhyView{Why: w, Until: until, First: first}}
	}
	for name, c := range map[string]shown{
		"status-succeeded": {[]string{"status", "acme", "inv/42"}, taskRoute, full},
		"status-waiting":   {[]string{"status", "acme/inv/42"}, taskRoute, waiting},
		"status-unknown":   {[]string{"status", "task/acme/inv/42"}, taskRoute, unknown},
		"status-hostile":   {[]string{"status", "acme", "inv/42"}, taskRoute, hostile},
		"status-json":      {[]string{"status", "acme", "inv/42", "--json"}, taskRoute, waiting},
		"explain":          {[]string{"explain", "acme", "inv/42"}, taskRoute + "/explain", explanation},
		"explain-found":    {[]string{"explain", "acme", "inv/42"}, taskRoute + "/explain", wrong},
		"queue":            {[]string{"queue"}, "GET /v1/queue", gateway.QueueView{View: view}},
		"queue-leases":     {[]string{"queue", "--leases"}, "GET /v1/queue", gateway.QueueView{View: view}},
		"queue-empty":      {[]string{"queue"}, "GET /v1/queue", gateway.QueueView{View: admission.View{Now: *at(0), Soft: 800, Hard: 1000}}},
		"queue-policy": {[]string{"queue"}, "GET /v1/queue", gateway.QueueView{File: "sha256:0123456789abcdef",
			View: admission.View{Now: *at(0), Soft: 800, Hard: 1000, Policy: "sha256:fedcba9876543210"}}},
		"why-queued": why(admission.Why{Stand: "queued", Attempt: 2, Reason: admission.Capacity,
			Resource: "psp_calls", Since: at(3), Position: 4, Estimate: admission.Duration(95 * time.Second)}, nil, ""),
		"why-paused": why(admission.Why{Stand: "queued", Attempt: 1, Reason: admission.TenantPaused, Detail: "paused by mara: audit", Since: at(1), Position: 1}, at(59), ""),
		"why-held":   why(admission.Why{Stand: "queued", Attempt: 1, Reason: admission.BreakerProbe, Since: at(1), Position: 1}, nil, "task/acme/inv-1"),
		"why-leased": why(admission.Why{Stand: "leased", Attempt: 1, Lease: &lease}, nil, ""),
		"why-absent": why(admission.Why{Stand: admission.StandAbsent}, nil, ""),
		"why-ended":  why(admission.Why{Stand: admission.StandAbsent, Attempt: 1, Reason: admission.Superseded, Detail: "a newer task of its kind took its place"}, nil, ""),
		"resolve": {[]string{"resolve", "acme", "inv/42", "happened", "--version", "3", "--evidence", "seen"}, "POST /v1/tasks/acme/inv%2F42/resolve",
			contract.ResolveReply{Verdict: contract.VerdictHappened, Version: 4}},
		"queue-doubt":    {[]string{"queue"}, "GET /v1/queue", gateway.QueueView{View: doubtful}},
		"freeze":         {[]string{"freeze", "charge_card", "--reason", "charged twice"}, "PUT /v1/operations/charge_card/freeze", contract.FreezeReply{Operation: "charge_card", Freeze: &admission.Freeze{Actor: "mara"}}},
		"freeze-slow":    {[]string{"freeze", "charge_card", "--reason", "charged twice"}, "PUT /v1/operations/charge_card/freeze", contract.FreezeReply{Operation: "charge_card", Freeze: &admission.Freeze{Actor: "mara"}, Stopping: 2}},
		"unfreeze":       {[]string{"unfreeze", "charge_card"}, "PUT /v1/operations/charge_card/unfreeze", contract.FreezeReply{Operation: "charge_card"}},
		"findings":       {[]string{"findings", "charge_card"}, "GET /v1/operations/charge_card/findings", contract.FindingsView{Operation: "charge_card", Findings: found}},
		"findings-none":  {[]string{"findings", "charge_card"}, "GET /v1/operations/charge_card/findings", contract.FindingsView{Operation: "charge_card"}},
		"pause":          {[]string{"pause", "acme", "--until", "1h"}, "POST /v1/tenants/acme/pause", contract.PauseRequest{Tenant: "acme", Dispatch: true, Until: at(59)}},
		"pause-both":     {[]string{"pause", "acme", "--admission"}, "POST /v1/tenants/acme/pause", contract.PauseRequest{Tenant: "acme", Dispatch: true, Admission: true}},
		"resume":         {[]string{"resume", "acme"}, "POST /v1/tenants/acme/resume", contract.PauseRequest{Tenant: "acme"}},
		"unknown-none":   {[]string{"unknown"}, "GET /v1/unknown", contract.TaskPage{}},
		"approvals-none": {[]string{"approvals"}, "GET /v1/approvals", contract.TaskPage{}},
		"approval":       {[]string{"approvals", "acme", "inv/42"}, taskRoute + "/approval", asks},
		"help-exit":      {[]string{"help", "exit-codes"}, "", nil},
		"help":           {[]string{"help"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			newCannedGateway(t, map[string][]canned{c.path: {{200, c.body}}})
			got := command("", c.args...)
			require.Equal(t, exitDone, got.status, got.errors)
			assert.Empty(t, got.errors)
			golden(t, name, got.out)
		})
	}
}

// Ages depend on the clock, so the lists are checked below it.
func TestLists(t *testing.T) {
	unknown := task(contract.PhaseUnknown)
	unknown.Attempts, unknown.ErrorClass = 1, "no_answer"
	unknown.Reconciliation = &contract.Stand{Version: 3, Since: *at(0), Probes: 5}
	g := newCannedGateway(t, map[string][]canned{
		"GET /v1/tasks": {{200, contract.TaskPage{Tasks: []contract.TaskView{task(contract.PhaseAccepted)}, Cursor: "next"}},
			{200, contract.TaskPage{Cursor: "last"}}, {200, contract.TaskPage{Tasks: []contract.TaskView{unknown}}}},
		"GET /v1/unknown": {{200, contract.TaskPage{Tasks: []contract.TaskView{unknown}, Cursor: "more"}}},
	})
	got := command("", "list", "--tenant", "acme", "--limit", "7", "--json")
	require.Equal(t, exitDone, got.status, got.errors)
	var page contract.TaskPage
	require.NoError(t, json.Unmarshal([]byte(got.out), &page))
	assert.Len(t, page.Tasks, 2, "an empty page is not the end")
	assert.Equal(t, []string{"GET /v1/tasks?limit=7&tenant=acme", "GET /v1/tasks?cursor=next&limit=6&tenant=acme", "GET /v1/tasks?cursor=last&limit=6&tenant=acme"},
		[]string{g.requests[0].line, g.requests[1].line, g.requests[2].line})

	got = command("", "unknown", "--limit", "1")
	require.Equal(t, exitDone, got.status)
	assert.Regexp(t, `(?m)^acme +inv/42 +charge_card +1 +no_answer +\S+ +5 +3 +- +-$`, got.out)
	assert.Contains(t, got.errors, "headgate resolve TENANT KEY")
	assert.Contains(t, got.errors, "There may be more")
}

func TestOrdersSend(t *testing.T) {
	for line, c := range map[string]struct {
		args []string
		body string
	}{
		"POST /v1/tenants/acme/pause":  {[]string{"pause", "acme", "--reason", "audit"}, `{"dispatch": true, "reason": "audit", "actor": "mara"}`},
		"POST /v1/tenants/acme/resume": {[]string{"resume", "acme"}, `{"actor": "mara"}`},
		"POST /v1/tasks/acme/a%2Fb/resolve": {[]string{"resolve", "acme", "a/b", "failed", "--version", "2", "--evidence", "seen", "--id", "d-1"},
			`{"id": "d-1", "actor": "mara", "outcome": "failed", "evidence": "seen", "version": 2}`},
		"POST /v1/tasks/acme/a%2Fb/cancel": {[]string{"cancel", "acme/a/b", "--reason", "typo"}, `{"actor": "mara", "reason": "typo"}`},
	} {
		t.Run(line, func(t *testing.T) {
			g := newCannedGateway(t, map[string][]canned{line: {{200, map[string]any{}}}})
			require.Equal(t, exitDone, command("", c.args...).status)
			require.Len(t, g.requests, 1)
			assert.JSONEq(t, c.body, g.requests[0].body)
		})
	}
}

// An approval is of what the person has seen: a part of its hash is repeated, and
// the rest comes from the task.
func TestApproveSends(t *testing.T) {
	asks := contract.ApprovalView{Task: task(contract.PhaseAccepted)}
	asks.Task.Approval = &contract.ApprovalStand{Version: 1, Hash: "sha256:0123456789abcdef", Digest: "sha256:op"}
	for _, name := range []string{"approve", "decline"} {
		line := "POST /v1/tasks/acme/inv%2F42/" + name
		g := newCannedGateway(t, map[string][]canned{taskRoute + "/approval": {{200, asks}}, line: {{200, contract.ApprovalReply{Outcome: "done"}}}})
		args := []string{name, "acme", "inv/42", "--version", "1", "--evidence", "seen", "--id", "d-1", "--actor", "mara", "--payload-hash"}
		got := command("", append(args, "sha256:0123456789ab")...)
		require.Equal(t, exitDone, got.status, got.errors)
		assert.Equal(t, "task/acme/inv/42: done\n", got.out)
		require.Len(t, g.requests, 2)
		assert.JSONEq(t, `{"id": "d-1", "actor": "mara", "evidence": "seen", "version": 1, "payload_hash": "sha256:0123456789abcdef", "operation_digest": "sha256:op"}`, g.requests[1].body)

		g = newCannedGateway(t, map[string][]canned{taskRoute + "/approval": {{200, asks}}})
		assert.Equal(t, exitRefused, command("", append(args, "sha256:ba9876543210")...).status)
		assert.Equal(t, exitUsage, command("", append(args, "sha256:0123")...).status, "too short to mean one payload")
		assert.Len(t, g.requests, 1)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0s", 0: "0s", 1500 * time.Microsecond: "2ms", 12345 * time.Millisecond: "12.3s", 83 * time.Second: "1m23s",
		120 * time.Second: "2m", 3 * time.Hour: "3h0m", 100 * time.Hour: "4d",
	} {
		assert.Equal(t, want, short(d))
	}
}
