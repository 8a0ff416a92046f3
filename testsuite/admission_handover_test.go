package testsuite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// testHandover: places pass from task to task in the worker that holds them. The
// provider, which counts by itself, never has more than the limit; a pause calls
// back who stands by; a killed worker takes nobody's place with it.
func testHandover(ctx context.Context, t *testing.T, h *house) {
	const limit, tasks = 4, 14
	h.Workers[1].Kill() // what one worker holds is handed over in it
	h.hold(ctx, t)
	key := func(i int) string { return fmt.Sprintf("k%d", i) }
	tenant := func(i int) string { return fmt.Sprintf("handover-%d", i%2) }
	for i := range tasks {
		h.accept(ctx, t, tenant(i), key(i), "charge_slow_lookup", func(r *contract.SubmitRequest) { r.Priority = admission.Critical })
	}
	eventually(ctx, t, "somebody stands by", func() bool {
		view, err := h.Door.Queue(ctx)
		return err == nil && view.Standby > 0
	})
	h.goOn(ctx, t)
	h.slowly(ctx, t, 700*time.Millisecond)

	// One tenant is paused: once what runs has ended, nothing of it leaves any more.
	require.NoError(t, h.Door.Pause(ctx, tenant(0), "to look"))
	eventually(ctx, t, "nothing of the paused tenant runs or stands by", func() bool {
		view, err := h.Door.Queue(ctx)
		return err == nil && !slices.ContainsFunc(view.Tenants, func(v admission.TenantView) bool {
			return v.Name == tenant(0) && v.InFlight+v.Standby > 0
		})
	})
	before := h.sent(ctx, t, tenant(0), tasks)
	for i := 1; i < tasks; i += 2 {
		h.until(ctx, t, tenant(i), key(i), contract.PhaseSucceeded)
	}
	require.Equal(t, before, h.sent(ctx, t, tenant(0), tasks), "a paused tenant's task was sent")
	require.NoError(t, h.Door.Resume(ctx, tenant(0)))

	// The worker dies with places, and with those who stand by for them.
	if before < tasks/2 {
		eventually(ctx, t, "somebody runs again", func() bool {
			view, err := h.Door.Queue(ctx)
			return err == nil && view.InFlight > 0
		})
	}
	require.NoError(t, h.Workers[1].Start(ctx))
	h.Workers[0].Kill()

	handed := 0
	ended := func(tenant, key string) {
		h.until(ctx, t, tenant, key, contract.PhaseSucceeded)
		h.once(ctx, t, tenant, key)
		story, err := h.Door.Explain(ctx, tenant, key)
		require.NoError(t, err)
		if slices.ContainsFunc(story.Events, func(e contract.Event) bool { return strings.Contains(e.Detail, "handed over to lease") }) {
			handed++
		}
	}
	for i := range tasks {
		ended(tenant(i), key(i))
	}
	// Where successors were late before, few are chosen until they are in time
	// again: more work has to come by.
	for round := 0; handed == 0 && ctx.Err() == nil; round++ {
		more := func(i int) string { return fmt.Sprintf("more-%d-%d", round, i) }
		for i := range tasks {
			h.accept(ctx, t, tenant(i), more(i), "charge_slow_lookup", func(r *contract.SubmitRequest) { r.Priority = admission.Critical })
		}
		for i := range tasks {
			ended(tenant(i), more(i))
		}
	}
	require.NotZero(t, handed, "no place was handed over")
	most, err := h.Provider.Concurrency(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, most.Max, limit, "the provider had more at once than the limit")
}

// sent counts the requests of a tenant that the provider has heard of.
func (h *house) sent(ctx context.Context, t *testing.T, tenant string, tasks int) (n int) {
	t.Helper()
	for i := range tasks {
		counts, err := h.Provider.Effects(ctx, contract.ProviderKey(tenant, fmt.Sprintf("k%d", i)))
		require.NoError(t, err)
		n += counts.Requests
	}
	return n
}
