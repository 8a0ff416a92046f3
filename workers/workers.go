// Package workers runs the processes that do the work: a table says for each
// role which queue it polls, what it registers and how it runs.
//
// A worker that is told to stop polls no more and claims no more; effects that
// run may end within the stop timeout. What is still running then is broken off,
// and its outcome is unknown.
package workers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"headgate/activities"
	"headgate/activities/playwright"
	"headgate/config"
)

// Defaults of Options.
const (
	DefaultSlots       = 16
	DefaultStopTimeout = 30 * time.Second
)

// stickyWorkflows bounds the workflows that a process keeps in memory. A waiting
// task takes some 50 KB, so the SDK's ten thousand would take half a gigabyte;
// one that is not kept costs a replay of its short history when it goes on.
const stickyWorkflows = 2000

// Options of Run.
type Options struct {
	Client client.Client
	Config *config.Config
	Roles  []string // of Roles(), or of Types
	// Types are operation types of your own, by name. Each is a role, and has a task
	// queue, of that name; the configuration declares it in its section types.
	Types map[string]activities.Type
	Log   *zap.Logger
	// Slots is how many attempts each effect role has at once: at most as many as the
	// budget of Config leases, and one more behind each that stands by. Zero: DefaultSlots,
	// or DefaultPages in a browser.
	Slots int
	// RatePerSecond bounds how many effects of a queue are started, over all
	// workers. Zero: no bound.
	RatePerSecond float64
	// Identity names this process; a role's workers are role@identity. Empty:
	// host:pid.
	Identity string
	Build    string // of the code that runs, as histories show it. Empty: "dev"
	// Browser is how the role browser runs its browser. Its log is that of above.
	Browser playwright.Options
	// StopTimeout is how long running effects may go on after the end of Run's
	// context. Zero: DefaultStopTimeout.
	StopTimeout time.Duration

	slotsUnsaid bool
	pages       *playwright.Pool
}

// normalize fills in the zero values and refuses what cannot be meant.
func (o Options) normalize() (Options, error) {
	switch {
	case o.Client == nil, o.Config == nil, o.Log == nil:
		return o, errors.New("workers: client, config and log are needed")
	case o.Slots < 0:
		return o, fmt.Errorf("workers: slots is %d: want 1 or more", o.Slots)
	case o.RatePerSecond < 0, math.IsNaN(o.RatePerSecond), math.IsInf(o.RatePerSecond, 0):
		return o, fmt.Errorf("workers: rate is %v per second: want 0 or more", o.RatePerSecond)
	case o.StopTimeout < 0:
		return o, fmt.Errorf("workers: stop timeout is %s: want 0 or more", o.StopTimeout)
	}
	if o.Slots == 0 {
		o.Slots, o.slotsUnsaid = DefaultSlots, true
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = DefaultStopTimeout
	}
	if o.Identity == "" {
		o.Identity = process()
	}
	if o.Build == "" {
		o.Build = "dev"
	}
	return o, nil
}

// process is host:pid.
func process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Run runs the workers of the roles until ctx ends or one of them cannot go on.
// It returns when all have stopped; the client must stay open until then.
func Run(ctx context.Context, o Options) error {
	o, err := o.normalize()
	if err != nil {
		return err
	}
	chosen, err := choose(o.Roles, o.Types)
	if err != nil {
		return fmt.Errorf("workers: %w", err)
	}
	worker.SetStickyWorkflowCacheSize(stickyWorkflows)

	o.Browser.Log = o.Log
	o.Browser.Dial = o.network().Dial
	o.pages = playwright.NewPool(o.Browser) // it starts nothing yet
	defer func() { _ = o.pages.Close() }()

	// At the end: call off what runs aside, wait for it, then drain the workers.
	var started []worker.Worker
	defer func() {
		stop(started)
		o.Log.Info("workers stopped", zap.Int("workers", len(started)))
	}()
	var aside sync.WaitGroup
	defer aside.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	fatal := make(chan error, len(chosen))
	for _, r := range chosen {
		w, identity := r.worker(o, fatal)
		if err := w.Start(); err != nil {
			return fmt.Errorf("workers: start role %s on queue %s: %w", r.name, r.queue, err)
		}
		started = append(started, w)
		o.Log.Info("worker started", zap.String("role", r.name), zap.String("queue", r.queue), zap.String("worker", identity), zap.String("build", o.Build),
			zap.Int("slots", r.options(o).MaxConcurrentActivityExecutionSize))
		if r.budget {
			aside.Go(func() { ensureBudget(ctx, o) })
		}
		if r.browser && browses(o.Config) {
			aside.Go(func() { startBrowser(ctx, o) })
		}
	}
	select {
	case <-ctx.Done():
		o.Log.Info("workers are stopping", zap.Duration("stop_timeout", o.StopTimeout))
		return nil
	case err := <-fatal:
		return err
	}
}

// network says which addresses effects, look-ups and pages may reach.
func (o Options) network() activities.Network {
	return activities.Network{Private: o.Config.Network.Private}
}

// worker makes the worker of a role; it is not started.
func (r role) worker(o Options, fatal chan<- error) (w worker.Worker, identity string) {
	identity = r.name + "@" + o.Identity
	options := r.options(o)
	options.Identity = identity
	options.OnFatalError = func(err error) {
		fatal <- fmt.Errorf("workers: role %s on queue %s: %w", r.name, r.queue, err)
	}
	w = worker.New(o.Client, r.queue, options)
	r.register(w, o, identity)
	return w, identity
}

// stop drains all workers at the same time: each waits for its own effects.
func stop(all []worker.Worker) {
	var done sync.WaitGroup
	for _, w := range all {
		done.Go(w.Stop)
	}
	done.Wait()
}
