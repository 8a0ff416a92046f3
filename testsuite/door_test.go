package testsuite

import (
	"context"
	"testing"
	"time"

	"headgate/testsuite/drill"
)

// TestDoor comes to the door of a real world as clients do, good and bad ones.
func TestDoor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	world := newWorld(ctx, t)
	declare(ctx, t, world, doorTenants, doorOperations)
	for _, part := range []struct {
		name string
		test func(ctx context.Context, t *testing.T, world *drill.World)
	}{
		{"what is refused is not stored", testRefusals},
		{"a plain client takes a lease and counts against the tenant", testDirectCounts},
		{"a plain client is refused when the queue is full", testDirectFull},
		{"a plain client is refused what is not valid", testDirectInvalid},
		{"no answer before the task is durable", testPromises},
		{"every phase is read without workers and after a restart", testReads},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(ctx, t, world) })
	}
}

// doorTenants are added to those of the drill.
const doorTenants = `
  caps: {weight: 1, max_in_flight: 1, max_queued: 2}
  phases: {weight: 1, max_in_flight: 3, max_queued: 40}
`

// doorOperations are added to those of the drill.
const doorOperations = `
  # The payload says how many calls it takes.
  charge_many:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: "payload.calls"}
    timeout: 3s
    heartbeat: 2s
  # A worker may be dead for so long before anybody takes its attempt for lost.
  charge_patient:
    type: http
    request: {method: POST, url: "PROVIDER/charges"}
    cost: {provider_calls: 1}
    timeout: 60s
    heartbeat: 10s
    retry: {max_attempts: 8, base: 200ms, max: 1s, max_age: 5m}
    replay: {class: never}
    probe:
      lookup:
        url: "PROVIDER/charges?key={key}"
        happened: "status == 200 && body.state == 'captured'"
        did_not_happen: "status == 404"
      settle: 100ms
      timeout: 2s
      attempts: 20
      base: 200ms
      max: 1s
`
