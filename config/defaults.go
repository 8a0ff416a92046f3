package config

import (
	"time"

	"headgate/contract"
)

// What a field means when the file leaves it out, and what it may say. The
// budget's own defaults (queue, burst, caps, weights, when_full, breaker,
// unknown_ceiling) are those of admission.Policy; adapt.min is 1, handover is on.
const (
	// DefaultListen is gateway.listen: this machine only.
	DefaultListen = "127.0.0.1:7280"

	// DefaultTimeout is operation.timeout: 100ms to 24h.
	DefaultTimeout = 30 * time.Second
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = 24 * time.Hour

	// DefaultHeartbeat is operation.heartbeat, the lease time: 1s to 5m.
	DefaultHeartbeat = 10 * time.Second
	minHeartbeat     = time.Second
	maxHeartbeat     = 5 * time.Minute

	// DefaultStepTimeout is that of one step of a browser operation: 100ms to 10m.
	DefaultStepTimeout = 10 * time.Second

	// DefaultMaxAttempts is retry.max_attempts: 1 to 100.
	DefaultMaxAttempts = 5
	maxAttempts        = 100
	// DefaultRetryBase is retry.base: 1ms to 24h, at most retry.max.
	DefaultRetryBase = time.Second
	// DefaultRetryMax is retry.max: 1ms to 24h.
	DefaultRetryMax = time.Minute
	minWait         = time.Millisecond
	maxWait         = 24 * time.Hour
	// DefaultMaxAge is retry.max_age: 1s to 30 days.
	DefaultMaxAge = 15 * time.Minute
	minMaxAge     = time.Second
	maxMaxAge     = 30 * 24 * time.Hour

	// request.redirects: none by default.
	maxRedirects = 10
	// DefaultMaxResponse is request.max_response, in bytes; it is also the most.
	DefaultMaxResponse = maxResponse
	maxResponse        = 256 << 10

	// DefaultReplay is replay.class: without a word from the file, a possible
	// effect is never sent again.
	DefaultReplay = contract.ReplayNever
	// replay.window has no default: more than the operation's timeout, at most
	// a year.
	maxWindow = 366 * 24 * time.Hour

	// DefaultSettle is probe.settle: 0s to 24h.
	DefaultSettle = 2 * time.Second
	maxSettle     = 24 * time.Hour
	// DefaultProbeTimeout is probe.timeout: 100ms to 5m.
	DefaultProbeTimeout = 10 * time.Second
	maxProbeTimeout     = 5 * time.Minute
	// DefaultProbeAttempts is probe.attempts: 1 to 1000.
	DefaultProbeAttempts = 5
	maxProbeAttempts     = 1000
	// DefaultProbeBase is probe.base: 1ms to 24h, at most probe.max.
	DefaultProbeBase = time.Second
	// DefaultProbeMax is probe.max: 1ms to 24h.
	DefaultProbeMax = time.Minute

	// escalate_after has no default: left out, nothing is ever overdue. 1s to 30 days.
	minEscalateAfter = time.Second
	maxEscalateAfter = 30 * 24 * time.Hour

	// DefaultApprovalExpires is approval.expires: 1s to 30 days.
	DefaultApprovalExpires = 24 * time.Hour
	minApprovalExpires     = time.Second
	maxApprovalExpires     = 30 * 24 * time.Hour
	// DefaultThen is probe.cancel.then: a key that was cancelled is spent.
	DefaultThen = contract.ThenFail
	// DefaultWithin is probe.callback.within: 1s to 30 days.
	DefaultWithin = 5 * time.Minute
	minWithin     = time.Second
	maxWithin     = 30 * 24 * time.Hour

	// DefaultCovers is provider.lookup.covers. provider.lookup.consistent is
	// false and provider.lookup.lag unknown when the file leaves them out, so
	// that absence is concluded only where the file says all three.
	DefaultCovers = contract.CoversSucceeded
	maxLag        = 30 * 24 * time.Hour
	maxVersion    = 64 // bytes of provider.version
)

// Bounds of the file itself. The YAML parser needs quadratic time for long
// mappings and for empty lines, so both are bounded before it runs.
const (
	maxBytes  = 1 << 20
	maxTokens = 30_000
	maxBlank  = 2_000
	maxDepth  = 16 // of {...} inside {...}
)
