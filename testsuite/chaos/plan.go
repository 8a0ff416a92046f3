package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/provider"
)

// Plan is all that a run does by chance, decided before it begins: the same
// seed and sizes give the same plan. What the machine makes of it differs.
type Plan struct {
	Tasks   []Task
	Strikes []Strike
}

// Task is one task of the plan.
type Task struct {
	Tenant, Key, Operation string
	Priority               admission.Priority
	// Answer is how long the healthy provider takes: ordinary, and no fault.
	Answer time.Duration
	Faults []provider.Fault // of the provider, each met once
	Twice  bool             // submitted at both gateways at once
	// Refused tells that a fault is a refusal for good, so that the task fails.
	Refused bool
}

// Strike is what befalls one process.
type Strike struct {
	After   int           // so many tasks have been accepted
	Process string        // name in the world
	Stop    bool          // SIGSTOP, SIGCONT; else SIGKILL and a new start
	For     time.Duration // until the process may go on
}

func (s Strike) kind() string {
	if s.Stop {
		return "stop " + s.Process
	}
	return "kill " + s.Process
}

// targets are the processes that are struck, by how often. The number of
// entries is the weight.
var targets = []string{
	"worker-1", "worker-1", "worker-1", "worker-2", "worker-2", "worker-2",
	"gateway-1", "gateway-2", "control-1", "control-2", "control-1", "server",
}

// classes are the operations, by weight.
var classes = []string{"charge", "charge_lookup", "charge_lookup", "charge_keyed", "charge_keyed", "charge_keyed_lookup", "read"}

var tenants = []string{"north", "south", "east", "west"}

// newPlan draws tasks and faults: a third of the faults hits a process, the rest
// the provider.
func newPlan(seed uint64, tasks, faults int) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	var p Plan
	for i := range tasks {
		t := Task{
			Tenant:    pick(r, tenants),
			Key:       fmt.Sprintf("k%d", i+1),
			Operation: pick(r, classes),
			Priority:  pick(r, []admission.Priority{admission.Normal, admission.Normal, admission.Low, admission.High, admission.Critical}),
			Twice:     r.IntN(20) == 0,
		}
		if r.IntN(2) == 0 { // or nothing would be under way when a worker dies
			t.Answer = between(r, 100*time.Millisecond, 800*time.Millisecond)
		}
		p.Tasks = append(p.Tasks, t)
	}
	strikes := (faults + 2) / 3
	for i := range strikes {
		s := Strike{Process: pick(r, targets), Stop: r.IntN(5) < 2}
		// Spread over the run, none at its very end.
		s.After = tasks * (2*i + 1) / (2*strikes + 1)
		switch {
		case s.Stop && s.Process == "server":
			s.For = between(r, 500*time.Millisecond, 3*time.Second)
		case s.Stop: // also past the heartbeat timeout
			s.For = between(r, 500*time.Millisecond, 6*time.Second)
		default:
			s.For = between(r, 0, 2*time.Second)
		}
		p.Strikes = append(p.Strikes, s)
	}
	for _, i := range r.Perm(tasks)[:min(tasks, faults-strikes)] {
		p.Tasks[i].misfortune(r)
	}
	return p
}

// misfortune draws a fault of the provider that its declaration allows for: an
// effect that lands after the declared settle time would make a look-up lie.
func (t *Task) misfortune(r *rand.Rand) {
	on := provider.OnCharge
	kinds := []string{"before", "after", "hang", "slow", "429", "500", "503", "garbage", "drip"}
	switch t.Operation {
	case "read":
		on = provider.OnRead
	case "charge":
		kinds = append(kinds, "hang_before", "late", "400", "500 after")
	case "charge_keyed":
		kinds = append(kinds, "hang_before", "late", "500 after")
	default:
		kinds = append(kinds, "blind", "blind", "400", "500 after")
	}
	f := provider.Fault{Key: contract.ProviderKey(t.Tenant, t.Key), On: on}
	switch kind := pick(r, kinds); kind {
	case "slow": // beyond the operation's timeout
		f.Kind, f.Delay, f.Commit = provider.Slow, provider.Duration(5*time.Second), true
	case "drip":
		f.Kind, f.Delay = provider.Drip, provider.Duration(between(r, time.Second, 5*time.Second))
	case "late":
		f.Kind, f.Delay = provider.Late, provider.Duration(between(r, 500*time.Millisecond, 6*time.Second))
	case "400":
		f.Kind, f.Status = provider.Status, 400
		t.Refused = true
	case "429":
		f.Kind, f.Status, f.RetryAfter = provider.Status, 429, pick(r, []string{"1", "", "soon", "2"})
	case "500", "503":
		f.Kind, f.Status = provider.Status, map[string]int{"500": 500, "503": 503}[kind]
	case "500 after":
		f.Kind, f.Status, f.Commit = provider.Status, 500, true
	case "blind": // the answer is lost, and the first look-ups fail
		f.Kind = pick(r, []provider.Kind{provider.After, provider.Before})
		t.Faults = append(t.Faults, pick(r, []provider.Fault{
			{Key: f.Key, On: provider.OnLookup, Kind: provider.Status, Status: 500},
			{Key: f.Key, On: provider.OnLookup, Kind: provider.Before},
			{Key: f.Key, On: provider.OnLookup, Kind: provider.Garbage},
			{Key: f.Key, On: provider.OnLookup, Kind: provider.Hang},
		}))
	default:
		f.Kind = provider.Kind(kind)
	}
	t.Faults = append(t.Faults, f)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1)).Truncate(time.Millisecond)
}
