package workers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/worker"

	"headgate/activities"
	"headgate/contract"
	"headgate/workflows"
)

// role is one kind of worker: where it polls, what it registers, how it runs.
type role struct {
	name     string
	queue    string
	register func(r worker.Registry, o Options, identity string)
	options  func(o Options) worker.Options
	budget   bool // it makes sure that the budget exists
	browser  bool // it has a browser
}

// roles is the one table. A new type of effect is one more line.
var roles = []role{
	{name: "control", queue: contract.ControlQueue, register: registerControl, options: controlOptions, budget: true},
	effects(activities.HTTPType, func(n activities.Network) activities.Type { return &activities.HTTP{Network: n} }),
	browser(),
	effects(activities.ModelType, func(n activities.Network) activities.Type { return &activities.Model{Network: n} }),
}

// Roles are the names that Options.Roles may hold.
func Roles() []string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.name
	}
	return names
}

// choose finds roles by name, each once.
func choose(names []string, own map[string]activities.Type) ([]role, error) {
	roles := slices.Clone(roles)
	known := Roles()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if slices.Contains(known, name) {
			return nil, fmt.Errorf("the type %q has the name of a role that is there", name)
		}
		kind := own[name]
		roles, known = append(roles, effects(name, func(activities.Network) activities.Type { return kind })), append(known, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no role is given: want %s", strings.Join(known, " or "))
	}
	var chosen []role
	for _, name := range names {
		i := slices.IndexFunc(roles, func(r role) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no role %q: want %s", name, strings.Join(known, " or "))
		}
		if !slices.ContainsFunc(chosen, func(r role) bool { return r.name == name }) {
			chosen = append(chosen, roles[i])
		}
	}
	return chosen, nil
}

func registerControl(r worker.Registry, o Options, _ string) {
	workflows.Register(r)
	activities.RegisterControl(r, &activities.Control{Client: o.Client, Config: o.Config, Log: o.Log})
}

// controlOptions are for workflows and short calls to the server.
func controlOptions(o Options) worker.Options {
	return worker.Options{
		// A workflow that panics waits for better code. To fail it would turn a
		// mistake of ours into the end of somebody's task.
		WorkflowPanicPolicy: worker.BlockWorkflow,
		// A decision over ten thousand queued tasks is long on a busy machine, and
		// no deadlock. One second, the SDK's default, would call it one.
		DeadlockDetectionTimeout:    5 * time.Second,
		DisableRegistrationAliasing: true, // everything is called by the names of contract
		WorkerStopTimeout:           o.StopTimeout,
	}
}

// effects is the role of one type of effects.
func effects(typeName string, newType func(activities.Network) activities.Type) role {
	return role{
		name:  typeName,
		queue: contract.EffectsQueue(typeName),
		register: func(r worker.Registry, o Options, identity string) {
			activities.RegisterEffects(r, &activities.Effects{
				Client:  o.Client,
				Types:   map[string]activities.Type{typeName: newType(o.network())},
				Network: o.network(),
				Worker:  identity,
				Build:   o.Build,
				Log:     o.Log,
			})
		},
		options: func(o Options) worker.Options {
			o.Slots = slotsFor(o, typeName)
			return effectOptions(o)
		},
	}
}

// effectOptions bound what one process does to the world at once. The slots are
// of a fixed size: the SDK's resource-based ones watch the machine, which says
// nothing about a provider.
func effectOptions(o Options) worker.Options {
	return worker.Options{
		MaxConcurrentActivityExecutionSize: o.Slots,
		// Kept by the server for the whole queue, and set by the last worker that
		// polls: give all workers of a queue the same rate.
		TaskQueueActivitiesPerSecond: o.RatePerSecond,
		DisableWorkflowWorker:        true,
		DisableEagerActivities:       true, // they would pass the queue's rate by
		DisableRegistrationAliasing:  true,
		WorkerStopTimeout:            o.StopTimeout,
	}
}
