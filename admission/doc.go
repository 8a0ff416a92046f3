// Package admission decides: may this attempt start now, and if not, what
// becomes of it? It is plain Go without a clock, I/O or chance. Time is an
// argument, effects come back as data (Effects), and the same calls give the same
// answers, so that a workflow can be replayed over it. The scripts in testdata
// are its specification.
//
// Each rule, with an example and its source:
//
// # Fair between tenants
//
// Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996): each tenant has a
// virtual time, which a grant advances by the service over the tenant's weight;
// the least one is next. A tenant that comes back from idleness starts at the
// present virtual time.
//
//	slot free; a (weight 1) is at 10, b (weight 2) is at 10     a runs a task of 4: a at 14
//	slot free; a is at 14, b at 10                               b runs a task of 4: b at 12
//	slot free; a is at 14, b at 12                               b again: b at 14, as its weight is 2
//
// # Service is the dominant share
//
// What a task takes of each resource is put in relation to the limit, and the
// largest counts (DRF: Ghodsi et al., NSDI 2011; over time, DRFQ: Ghodsi et al.,
// SIGCOMM 2012). It is charged at the grant by a moving mean of the operation and
// settled when the lease ends.
//
//	2 of 8 slots for 1 s                      a quarter second of the whole resource
//	600 of 6000 tokens a minute               6 s of the whole resource
//	both                                      6 s: tokens are what it takes most of
//
// # Priority is borrowed
//
// A task of higher priority is served as if its tenant were a bounded step
// earlier in virtual time (borrowed virtual time: Duda, Cheriton, SOSP 1999). The
// charge stays the same, so the tenant pays the advance back.
//
//	a is at 10, b at 10.5 with a critical task (step 0.8)   b counts as 9.7 and is next
//	it takes 1                                              b at 11.5
//	slot free; a is at 10, b (critical again) counts 10.7   a is next
//
// # Head start inside a tenant, agents in turn
//
// Inside an agent, a task's place is its arrival less a head start (high 30 s,
// critical 2 min, low -30 s), so the order ages by itself. Agents of a tenant take
// turns by the service that they got.
//
//	normal at 0 s, high at 20 s     high counts as -10 s and is first
//	normal at 0 s, high at 40 s     normal is first
//	agent x has 100 tasks, y has 1  y's is second
//
// # What cannot run blocks only what it must
//
// A flow is a tenant's tasks of one operation and set of resources. One that its
// own cap, a pause or its provider holds back is skipped. A head that a shared
// resource is too short for reserves it: nothing behind it takes that resource.
//
//	4 slots, 2 free; head needs 4            it waits, and so does a later task of 1 slot
//	a later task that needs pages only       runs
//	head's tenant at max_in_flight           skipped; the task of 1 slot runs
//
// # Intervals
//
// A token bucket in integers: reserved by estimate, settled with the real cost. A
// debt delays later grants.
//
//	60 a minute, burst 10, full; cost 4      level 6
//	it used 1                                level 9
//	cost 30                                  waits for a full bucket, then level -20
//
// # Providers
//
// 429 and Retry-After hold the operation and its adaptive resources for all;
// adaptive limits shrink by three tenths and grow by one (AIMD: Chiu, Jain 1989);
// failures in a row open a breaker; after both, one attempt goes first.
//
//	429, Retry-After 3 s at 10 s       nothing before 13 s, limit 8 becomes 5
//	13 s                               one attempt goes
//	it succeeds                        the rest follows
//
// # Overload
//
// See State.Refusal: its order is the order of the answers.
//
// # Leases are handed over
//
// Shortly before an attempt is expected to end, the next task is scheduled and
// prepared; it goes when the one ahead has ended in the same worker, and the
// report of that one tells (handover.go). A slot is one task's at every instant.
//
//	1 slot; a runs for about 1 s, b waits; standing by takes 100 ms   at 0.9 s b is told
//	a ends at 1 s, in b's worker                                     b goes at 1 s, a's report names it
//	a ends elsewhere, or fails, or b's tenant is paused              b is back where it was in the queue
package admission
