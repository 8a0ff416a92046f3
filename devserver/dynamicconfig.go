package main

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// defaultSettings are the server settings that differ from upstream's, each with its reason. Upstream's are chosen for
// clusters with many shards, hosts and tenants; this is one shard on one machine. --dynamic-config-value overrides.
var defaultSettings = map[dynamicconfig.Key]any{
	// Upstream allows 20 polls a second per shard and queue. With one shard each step of sequential work waits 50 ms
	// for a token: a workflow with one activity takes 100 ms instead of 15, a chain of signals 400 instead of 40.
	dynamicconfig.TransferProcessorMaxPollRPS.Key():   2000,
	dynamicconfig.TimerProcessorMaxPollRPS.Key():      2000,
	dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 2000,

	// Upstream lets timers ring up to a second late, to read them in larger batches: a worker that died is noticed, and a
	// retry starts, up to a second later than it could. Here the batches are small anyway.
	dynamicconfig.TimerProcessorMaxTimeShift.Key(): 50 * time.Millisecond,

	// Rates, priorities and fairness hold per partition, and a rate is divided by their number: with four partitions
	// and few tasks a limit is neither met nor even. One machine needs no more than one.
	dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
	dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

	// Off upstream. Without it a fairness key is accepted and has no effect on the order.
	dynamicconfig.MatchingEnableFairness.Key(): true,

	// Upstream's 10 is met by 32 callers of one Budget workflow; the SDK then retries with backoff, which looks like a
	// latency of seconds (p99 3.4 s against 14 ms).
	dynamicconfig.WorkflowExecutionMaxInFlightUpdates.Key(): 100,

	// Upstream's 10 list and count calls a second fail an operator who has two consoles open.
	dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 500,

	// One tenant owns this server: the machine is the limit. A refused call here would only turn into a retry.
	dynamicconfig.FrontendRPS.Key():                        20000,
	dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key(): 20000,
	dynamicconfig.HistoryRPS.Key():                         20000,
	dynamicconfig.MatchingRPS.Key():                        20000,

	// Every waiting update, result and poller holds one long call; a gateway under overload holds thousands (1200).
	dynamicconfig.FrontendMaxConcurrentLongRunningRequestsPerInstance.Key(): 10000,

	// 128,000 cached workflows would be gigabytes. The process shares a machine with its workers.
	dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 8192,

	// An embedded server does not call home.
	dynamicconfig.EnableServerVersionCheck.Key(): false,
}

// settings merges overrides over the defaults. Keys are not case-sensitive.
func settings(overrides map[string]any) dynamicconfig.StaticClient {
	merged := dynamicconfig.StaticClient{}
	// Stored as constrained values: the server caches a converted value by the address of its constrained value, and
	// a bare one would be wrapped, and converted, anew at each read.
	for key, value := range defaultSettings {
		merged[key] = []dynamicconfig.ConstrainedValue{{Value: value}}
	}
	for name, value := range overrides {
		merged[dynamicconfig.MakeKey(name)] = []dynamicconfig.ConstrainedValue{{Value: value}}
	}
	return merged
}
