// Package bench measures a whole Headgate of real processes on this machine, side
// by side with what a user of Temporal would write without it: a workflow with
// one activity that makes the same call (the bare side).
//
// What holds for every figure:
//   - The two sides are measured in turn within one run, A B A B, on the same
//     server and the same provider. A ratio is the median over the pairs; the raw
//     pairs are in the report, so that noise can be seen.
//   - A p99 is taken over all pairs together: one pair has too few samples.
//   - What happened is what the provider counted. A phase in which the effects
//     differ from the tasks is an error, and no figure comes of it.
//   - No figure is judged here. An error means that a part could not be measured.
//
// Every part is bounded in tasks and in time.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"headgate/testsuite/drill"
)

// ErrIncomplete tells that a part could not be measured. The report holds the
// figures of the others.
var ErrIncomplete = errors.New("not everything could be measured")

// Options of a run. Binaries and Bare are required.
type Options struct {
	Binaries drill.Binaries
	// Bare is the command that calls RunBare with the arguments that follow it.
	Bare     []string
	Only     []string  // parts, see Parts; empty: all
	Pairs    int       // zero: 5, or 1 with Quick
	Callers  int       // at one time, where capacity is free; zero: 32
	Flood    int       // queued tasks of the noisy neighbour; zero: 3000
	Queued   int       // queued tasks whose weight is measured; zero: 10000
	Quick    bool      // whether everything works, in under a minute; the figures are worth little
	Dir      string    // parent of the worlds' folder; empty: the system's own
	Keep     bool      // leave data and logs behind
	Progress io.Writer // a line at a time; nil: none
}

// Bounds of Options, so that no run is without end.
const (
	maxPairs   = 100
	maxCallers = 1000
	maxQueued  = 100_000
)

// Validate refuses what Run would refuse before it starts anything.
func (o Options) Validate() error {
	_, err := o.normalize()
	return err
}

func (o Options) normalize() (Options, error) {
	standard := func(n *int, full, quick int) {
		if *n == 0 {
			*n = full
			if o.Quick {
				*n = quick
			}
		}
	}
	standard(&o.Pairs, 5, 1)
	standard(&o.Callers, 32, 16)
	standard(&o.Flood, 3000, 200)
	standard(&o.Queued, 10_000, 200)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	for _, name := range o.Only {
		if !slices.Contains(Parts(), name) {
			return o, fmt.Errorf("there is no part %q: want some of %s", name, strings.Join(Parts(), ", "))
		}
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{{"pairs", o.Pairs, maxPairs}, {"callers", o.Callers, maxCallers}, {"flood", o.Flood, maxQueued}, {"queued", o.Queued, maxQueued}} {
		if n.value < 1 || n.value > n.max {
			return o, fmt.Errorf("%s is %d: want 1 to %d", n.name, n.value, n.max)
		}
	}
	return o, nil
}

// size is how much each part does.
type size struct {
	tasks      int           // of one side of a pair, where throughput is measured
	alone      int           // tasks of a single caller, one after the other
	refuse     time.Duration // of one flood of requests that are refused
	handoffs   int           // effects through one slot
	perTenant  int           // tasks of each tenant; of the one with weight 1
	victims    int           // tasks of the victim, one a second
	growth     int           // tasks beside a queue
	effectTime time.Duration // where slots are to be kept busy
}

var (
	fullSize = size{tasks: 400, alone: 60, refuse: 3 * time.Second, handoffs: 60, perTenant: 75,
		victims: 20, growth: 240, effectTime: 200 * time.Millisecond}
	quickSize = size{tasks: 32, alone: 6, refuse: 300 * time.Millisecond, handoffs: 10, perTenant: 6,
		victims: 3, growth: 32, effectTime: 100 * time.Millisecond}
)

// part is one group of figures that are measured together.
type part struct {
	name  string
	limit time.Duration // for one pair; as much again is for what comes before
	run   func(ctx context.Context, b *bench) error
}

var parts = []part{
	{"uncontended", 4 * time.Minute, uncontended},
	{"queued", 4 * time.Minute, queued},
	{"refusals", 2 * time.Minute, refusals},
	{"handoff", 4 * time.Minute, handoff},
	{"utilisation", 4 * time.Minute, utilisation},
	{"shares", 8 * time.Minute, shares},
	{"victim", 10 * time.Minute, victim},
	{"growth", 10 * time.Minute, growth},
}

// Parts are the names that Options.Only may hold, in the order in which they are
// measured.
func Parts() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// bench is one run.
type bench struct {
	Options
	size
	dir    string
	worlds map[string]*world
	report Report
	began  time.Time
	now    string // the part that is measured
	serial int    // of the last phase, so that no key comes twice
}

// Run measures. The error wraps ErrIncomplete if a part could not be measured; the
// report is good then as far as it goes. Any other error comes without a report.
func Run(ctx context.Context, o Options) (report Report, err error) {
	if o, err = o.normalize(); err != nil {
		return report, err
	}
	dir, err := os.MkdirTemp(o.Dir, "headgate-bench-")
	if err != nil {
		return report, err
	}
	b := &bench{Options: o, size: fullSize, dir: dir, worlds: map[string]*world{}, began: time.Now()}
	if o.Quick {
		b.size = quickSize
	}
	defer func() {
		_ = b.open(ctx) // no world is wanted: all are closed, and none is started that could fail
		if o.Keep {
			b.say("data and logs are in %s", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	b.say("%d pairs of each measurement, on %d processors", o.Pairs, runtime.NumCPU())
	chosen := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return len(o.Only) > 0 && !slices.Contains(o.Only, p.name) })
	for i, p := range chosen {
		if i > 0 {
			b.say("%d of %d parts done, about %s left", i, len(chosen), left(time.Since(b.began), chosen[:i], chosen[i:]))
		}
		b.now = p.name
		if failed := b.measure(ctx, p); failed != nil {
			if ctx.Err() != nil {
				return b.report, context.Cause(ctx)
			}
			b.say("%s could not be measured: %v", p.name, failed)
			b.report.Failures = append(b.report.Failures, fmt.Sprintf("%s: %v", p.name, failed))
		}
	}
	b.report.Seconds = time.Since(b.began).Seconds()
	if n := len(b.report.Failures); n > 0 {
		err = fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(b.report.Failures, "; "))
	}
	return b.report, err
}

// left is how much longer the other parts take, if each takes such a share of its
// limit as those that are done.
func left(took time.Duration, done, open []part) time.Duration {
	sum := func(parts []part) (all time.Duration) {
		for _, p := range parts {
			all += p.limit
		}
		return all
	}
	return time.Duration(float64(took) * float64(sum(open)) / float64(sum(done))).Round(time.Second)
}

// measure runs one part. The worlds of one that failed are not used again.
func (b *bench) measure(ctx context.Context, p part) error {
	limit := time.Duration(b.Pairs+1) * p.limit
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the time of this part, %s, is over", limit))
	defer cancel()
	err := p.run(limited, b)
	if err == nil {
		err = b.report.lacks(p.name)
	}
	for name, w := range b.worlds {
		if n := w.sentBack.Swap(0); n > 0 {
			b.say("world %q: %d submissions were answered 503 and sent again; their time counts", name, n)
		}
	}
	if err != nil {
		if limited.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(limited), err)
		}
		for _, w := range b.worlds {
			err = errors.Join(err, w.lost())
			if ctx.Err() == nil { // nobody has called the run off
				b.say("%s", w.logs(20))
			}
		}
		err = errors.Join(err, b.open(ctx))
	}
	return err
}

// open makes sure that the named worlds are up, and no other is.
func (b *bench) open(ctx context.Context, names ...string) error {
	for name, w := range b.worlds {
		if !slices.Contains(names, name) {
			w.close()
			delete(b.worlds, name)
		}
	}
	for _, name := range names {
		if b.worlds[name] != nil {
			continue
		}
		began := time.Now()
		w, err := newWorld(ctx, b.dir, name, b.Binaries)
		if err != nil {
			return err
		}
		b.worlds[name] = w
		b.say("server, provider, gateway and workers (world %q) are up after %s", name, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// say writes a line of progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.Progress, "%5.0fs  %-12s %s\n", time.Since(b.began).Seconds(), b.now, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}

// phase names what is done next; tasks of two phases have no key in common.
func (b *bench) phase() string {
	b.serial++
	return fmt.Sprintf("%s-%d", b.now, b.serial)
}
