package testsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// auditedOperations are one whose findings freeze it, and one whose provider can
// be listed, a few effects on a page.
const auditedOperations = `
  charge_audited:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 60s
    heartbeat: 2s
    retry: {max_attempts: 1, base: 200ms, max: 1s, max_age: 5m}
    replay: {class: never}
    on_finding: freeze
    probe:
      lookup:
        url: "PROVIDER/charges?key={key}"
        happened: "status == 200 && body.state == 'captured'"
        did_not_happen: "status == 404"
        count: "body.count"
      settle: 300ms
      timeout: 2s
      attempts: 20
      base: 200ms
      max: 1s
  charge_listed:
    type: http
    request: {method: POST, url: "PROVIDER/charges", idempotency_header: Idempotency-Key}
    cost: {provider_calls: 1}
    timeout: 3s
    heartbeat: 2s
    replay: {class: keyed, window: 1h}
    probe:
      lookup:
        url: "PROVIDER/charges?key={key}"
        happened: "status == 200 && body.state == 'captured'"
        did_not_happen: "status == 404"
        count: "body.count"
      list:
        url: "PROVIDER/charges?limit=4&after={cursor}"
        keys: "body.charges.map(c, c.key)"
        next: "has(body.next) ? body.next : ''"
      settle: 300ms
      timeout: 2s
`

// TestFindings is F4 and F10 of the list of failures against live processes.
func TestFindings(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	world := newWorld(ctx, t)
	declare(ctx, t, world, "", auditedOperations)
	t.Run("F10 effects out of band", func(t *testing.T) { testOrphans(ctx, t, world) })
	t.Run("F4 settled absent, then it was there", func(t *testing.T) { testContradicted(ctx, t, world) })
	if t.Failed() {
		t.Log(world.Logs(25))
	}
}

// audit runs `headgate audit` and gives its report and its exit status.
func audit(ctx context.Context, t *testing.T, world *drill.World, operation string) (contract.AuditView, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, world.Program, "audit", operation, "--json", "--gateway", world.Door.URL)
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if c.ProcessState == nil {
		require.NoError(t, err)
	}
	var view contract.AuditView
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &view), "%s %s", stdout.String(), stderr.String())
	return view, c.ProcessState.ExitCode()
}

func findings(ctx context.Context, t *testing.T, world *drill.World, operation string) []contract.Finding {
	t.Helper()
	answer, err := send(ctx, world, http.MethodGet, "/v1/operations/"+operation+"/findings", nil, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.status, "%s", answer.body)
	var view contract.FindingsView
	require.NoError(t, json.Unmarshal(answer.body, &view))
	return view.Findings
}

// plant makes an effect that no task has asked for.
func plant(ctx context.Context, t *testing.T, world *drill.World, key string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, third(world)+"/charges", strings.NewReader(`{"amount": 1}`))
	require.NoError(t, err)
	request.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusCreated, answer.StatusCode)
}

func testOrphans(ctx context.Context, t *testing.T, world *drill.World) {
	for i := range 6 {
		answer, err := world.Door.Submit(ctx, fmt.Sprint("k", i), contract.SubmitRequest{Tenant: "listed", Operation: "charge_listed", Payload: charge("listed", fmt.Sprint("k", i))})
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, answer.Status)
	}
	for i := range 6 {
		eventually(ctx, t, "the tasks have succeeded", func() bool {
			answer, err := world.Door.Task(ctx, "listed", fmt.Sprint("k", i))
			return err == nil && answer.Task.Phase == contract.PhaseSucceeded
		})
	}
	// The index must show them closed, else they are open to the audit.
	eventually(ctx, t, "the index has caught up", func() bool {
		view, status := audit(ctx, t, world, "charge_listed")
		require.Zero(t, status, "%+v", view)
		require.Equal(t, contract.AuditClean, view.Verdict)
		require.Equal(t, contract.ListingComplete, view.Report.Listing)
		return view.Report.Agreed == 6 && view.Report.Listed == 6
	})

	// Effects out of band: with keys of ours, and with others'.
	var planted []string
	for i := range 5 {
		key := fmt.Sprint("hg-planted-", i)
		if i == 4 {
			key = "somebody-else"
		} else {
			planted = append(planted, key)
		}
		plant(ctx, t, world, key)
	}
	view, status := audit(ctx, t, world, "charge_listed")
	require.Equal(t, 10, status)
	require.Equal(t, contract.AuditFound, view.Verdict)
	var orphans []string
	for _, f := range view.Report.Findings {
		require.Equal(t, contract.FindingOrphaned, f.Kind)
		orphans = append(orphans, f.Effect)
	}
	require.Equal(t, planted, orphans)

	// Told twice is found once, and kept.
	_, status = audit(ctx, t, world, "charge_listed")
	require.Equal(t, 10, status)
	eventually(ctx, t, "the findings are kept", func() bool { return len(findings(ctx, t, world, "charge_listed")) == len(planted) })

	// A listing that fails is not clean, and takes nothing back.
	_, err := world.Provider.Inject(ctx, provider.Fault{Key: "*", On: provider.OnList, Kind: provider.Status, Status: 503})
	require.NoError(t, err)
	view, status = audit(ctx, t, world, "charge_listed")
	require.Equal(t, 8, status)
	require.Equal(t, contract.AuditUnknown, view.Verdict)
	require.Equal(t, contract.ListingFailed, view.Report.Listing)
	require.Len(t, findings(ctx, t, world, "charge_listed"), len(planted))
}

// testContradicted stops a worker whose request is in the provider's hands, until
// look-ups have proven that nothing happened and the task has FAILED. Then it does
// happen, and the worker hears of it.
func testContradicted(ctx context.Context, t *testing.T, world *drill.World) {
	kill(world.Workers[1])
	key := contract.ProviderKey("once", "k")
	_, err := world.Provider.Inject(ctx, provider.Fault{Kind: provider.HangBefore, Key: key})
	require.NoError(t, err)
	answer, err := world.Door.Submit(ctx, "k", contract.SubmitRequest{Tenant: "once", Operation: "charge_audited", Payload: charge("once", "k")})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.Status)
	require.NoError(t, world.Provider.WaitFor(ctx, key, provider.Counts{Requests: 1}))
	require.NoError(t, world.Workers[0].Pause(ctx))
	require.NoError(t, world.Workers[1].Start(ctx))
	eventually(ctx, t, "its absence is proven", func() bool {
		answer, err := world.Door.Task(ctx, "once", "k")
		return err == nil && answer.Task.Phase == contract.PhaseFailed
	})
	require.Empty(t, findings(ctx, t, world, "charge_audited"))

	n, err := world.Provider.Release(ctx, key)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, world.Provider.WaitFor(ctx, key, provider.Counts{Requests: 1, Effects: 1, Finished: 1}))
	require.NoError(t, world.Workers[0].Continue())
	eventually(ctx, t, "the operation is frozen", func() bool {
		view, err := world.Door.Queue(ctx)
		return err == nil && slices.ContainsFunc(view.Gates, func(g admission.GateView) bool { return g.Operation == "charge_audited" && g.Frozen != nil })
	})
	found := findings(ctx, t, world, "charge_audited")
	require.Len(t, found, 1)
	require.Equal(t, contract.FindingContradicted, found[0].Kind)
	require.Equal(t, contract.TaskID("once", "k"), found[0].Task)

	// The history is what it was, and nothing is claimed before a person has looked.
	answer, err = world.Door.Task(ctx, "once", "k")
	require.NoError(t, err)
	require.Equal(t, contract.PhaseFailed, answer.Task.Phase)
	answer, err = world.Door.Submit(ctx, "k2", contract.SubmitRequest{Tenant: "once", Operation: "charge_audited", Payload: charge("once", "k2")})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.Status)
	why, err := world.Door.Why(ctx, "once", "k2")
	require.NoError(t, err)
	require.Equal(t, admission.OperationFrozen, why.Reason)

	// An audit comes to the same by itself, and takes nothing back when it sees less.
	eventually(ctx, t, "the audit sees it too", func() bool {
		view, _ := audit(ctx, t, world, "charge_audited")
		return len(view.Report.Findings) == 1 && view.Report.Findings[0].Kind == contract.FindingContradicted
	})
	require.NoError(t, world.Provider.Reset(ctx))
	_, status := audit(ctx, t, world, "charge_audited")
	require.Zero(t, status)
	require.Len(t, findings(ctx, t, world, "charge_audited"), 1)

	_, err = put[contract.FreezeReply](ctx, world, "/v1/operations/charge_audited/unfreeze", `{"actor": "mara"}`)
	require.NoError(t, err)
	eventually(ctx, t, "the operation goes on", func() bool {
		answer, err := world.Door.Task(ctx, "once", "k2")
		return err == nil && answer.Task.Phase == contract.PhaseSucceeded
	})
}
