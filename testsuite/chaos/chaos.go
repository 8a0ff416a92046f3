// Package chaos runs a whole Headgate of real processes under random kills, stops
// and provider faults, and then asks the provider's own ledger whether what
// Headgate says of every task is true.
//
// All chance comes from the seed: the tasks, their faults, and which process is
// struck after how many tasks. What the machine makes of a plan differs from run
// to run, so the same seed need not find the same thing twice.
package chaos

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// declaration is the configuration of the world.
//
//go:embed chaos.yaml
var declaration string

const (
	heartbeat = 2 * time.Second // of every operation in the declaration
	capacity  = 12              // provider_calls
	slots     = 8               // of each worker
)

// ClassifyWithin is how long after its worker's death an attempt may take to be
// classified while every control worker and Temporal live.
const ClassifyWithin = heartbeat + 2*time.Second

// ErrViolated tells that a run broke a promise.
var ErrViolated = errors.New("chaos found violations")

// Options of a run. Zero values have the defaults that are written here.
type Options struct {
	Binaries drill.Binaries
	Seed     uint64        // 0 is a seed like any other
	Tasks    int           // 60
	Faults   int           // planned: one for 12 tasks, at least 8
	Callers  int           // at one time: one for 8 tasks, 4 to 16
	Limit    time.Duration // of the whole run: 15m
	Dir      string        // parent of the world's folder; empty: the system's own
	Keep     bool          // leave data and logs behind
	Progress io.Writer     // a line at a time; nil: nowhere
}

// Validate fills in the zero values and refuses what cannot be played.
func (o *Options) Validate() error {
	if o.Tasks == 0 {
		o.Tasks = 60
	}
	if o.Faults == 0 {
		o.Faults = max(8, o.Tasks/12)
	}
	if o.Callers == 0 {
		o.Callers = min(max(4, o.Tasks/8), 16)
	}
	if o.Limit == 0 {
		o.Limit = 15 * time.Minute
	}
	if o.Tasks < 1 || o.Faults < 1 || o.Callers < 1 || o.Limit < time.Second {
		return errors.New("chaos: tasks, faults, callers and limit must be positive")
	}
	if o.Faults > o.Tasks {
		return fmt.Errorf("chaos: %d faults for %d tasks; want at most one for each task", o.Faults, o.Tasks)
	}
	return nil
}

// run is one run in its world.
type run struct {
	*drill.World
	o     Options
	plan  Plan
	began time.Time
	tasks []*task

	mu       sync.Mutex
	accepted int
	moved    chan struct{} // closed and replaced with each accepted task
	deaths   []death
	outages  []outage
	strikes  []string // that were made, by kind
	errs     []error
	faults   map[string]bool // injected as faults, by ID; the rest is ordinary latency
}

// Run plays a plan in a world of its own. The error wraps ErrViolated when a
// promise was broken; the report is complete then.
func Run(ctx context.Context, o Options) (report Report, err error) {
	if err := o.Validate(); err != nil {
		return report, err
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("chaos: the time of %s is over", o.Limit))
	defer cancel()
	w, err := drill.NewWorldOf(ctx, o.Dir, o.Binaries, drill.Layout{Declaration: declaration, Gateways: 2, Controls: 2, Workers: 2, Slots: slots})
	if err != nil {
		return report, err
	}
	defer func() {
		w.Close()
		if o.Keep || errors.Is(err, ErrViolated) { // what was found is to be looked at
			fmt.Fprintf(o.Progress, "data and logs are in %s\n", w.Dir)
			return
		}
		err = errors.Join(err, w.Remove())
	}()
	r := &run{World: w, o: o, plan: newPlan(o.Seed, o.Tasks, o.Faults), began: time.Now(), moved: make(chan struct{}), faults: map[string]bool{}}
	report, err = r.play(ctx)
	if err != nil {
		return report, fmt.Errorf("%w\n%s", err, w.Logs(15))
	}
	if len(report.Violations) > 0 {
		err = fmt.Errorf("%w: %d", ErrViolated, len(report.Violations))
	}
	return report, err
}

// play submits all tasks under fire, brings everything back to life, lets a
// person decide what nobody can know, and judges.
func (r *run) play(ctx context.Context) (Report, error) {
	// 1. Everything that the provider will do wrong.
	if err := r.arm(ctx); err != nil {
		return Report{}, err
	}
	r.say("%d tasks, %d strikes and %d faults of the provider; seed %d", len(r.tasks), len(r.plan.Strikes), len(r.faults), r.o.Seed)
	// 2. The tasks, and what befalls the processes meanwhile.
	var all sync.WaitGroup
	all.Go(func() { r.strike(ctx) })
	all.Go(func() { r.sample(ctx) })
	err := r.submitAll(ctx)
	all.Wait()
	if err != nil {
		return Report{}, err
	}
	r.say("all accepted, all struck after %s", time.Since(r.began).Round(time.Second))
	// 3. What ended by itself is a finding; then everything lives.
	if err := r.revive(ctx); err != nil {
		return Report{}, err
	}
	// 4. All tasks end, unknown ones by a person's word.
	late := r.settle(ctx)
	// 5. The provider's ledger against what Headgate says.
	return r.judge(context.WithoutCancel(ctx), late)
}

// arm gives the provider its faults. Latency comes behind them: it is for the
// attempt that meets none.
func (r *run) arm(ctx context.Context) error {
	for _, planned := range r.plan.Tasks {
		t := &task{Task: planned}
		r.tasks = append(r.tasks, t)
		for _, f := range planned.Faults {
			report, err := r.Provider.Inject(ctx, f)
			if err != nil {
				return err
			}
			r.faults[report.ID] = true
		}
		if planned.Answer == 0 || len(planned.Faults) > 0 {
			continue
		}
		on := provider.OnCharge
		if t.reads() {
			on = provider.OnRead
		}
		if _, err := r.Provider.Inject(ctx, provider.Fault{Key: t.witness(), On: on, Kind: provider.Slow, Delay: provider.Duration(planned.Answer)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) say(format string, args ...any) {
	r.mu.Lock() // strikes overlap
	defer r.mu.Unlock()
	fmt.Fprintf(r.o.Progress, "%5.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// fault notes what went wrong beside the tasks.
func (r *run) fault(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}
