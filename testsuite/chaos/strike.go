package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"headgate/testsuite/drill"
)

// death is a worker's end by SIGKILL.
type death struct {
	pid int
	at  time.Time
}

// outage is a time in which a process did not serve.
type outage struct {
	process  string
	from, to time.Time
}

// strike plays the plan's strikes, each when its number of tasks has been
// accepted. Strikes of different processes overlap, those of one do not.
func (r *run) strike(ctx context.Context) {
	busy := map[*drill.Process]*sync.Mutex{}
	for _, p := range r.processes() {
		busy[p] = &sync.Mutex{}
	}
	var all sync.WaitGroup
	for _, s := range r.plan.Strikes {
		if r.waitAccepted(ctx, s.After) != nil {
			break
		}
		p := r.named(s.Process)
		all.Go(func() {
			busy[p].Lock()
			defer busy[p].Unlock()
			if ctx.Err() == nil {
				r.hit(ctx, p, s)
			}
		})
	}
	all.Wait()
}

// hit is one strike, up to the moment when the process serves again.
func (r *run) hit(ctx context.Context, p *drill.Process, s Strike) {
	r.fault(p.Lost())
	r.say("%s for %s", s.kind(), s.For)
	down := outage{process: p.Name, from: time.Now()}
	serve := p.Continue
	if s.Stop {
		r.fault(p.Pause(ctx))
	} else {
		serve = func() error { return r.restart(ctx, p) }
		pid := p.PID()
		p.Kill()
		if slices.Contains(r.Workers, p) {
			r.mu.Lock()
			r.deaths = append(r.deaths, death{pid, time.Now()})
			r.mu.Unlock()
		}
	}
	after(ctx, s.For)
	r.fault(serve())
	down.to = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outages = append(r.outages, down)
	r.strikes = append(r.strikes, s.kind())
}

// restart starts a process again and again, as a supervisor would: it may not
// come up while Temporal is down.
func (r *run) restart(ctx context.Context, p *drill.Process) error {
	for {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		err := p.Start(limited)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		p.Kill()
		after(ctx, 200*time.Millisecond)
	}
}

// revive brings to life what has ended by itself, which is a finding. Faults that
// were not met yet stay armed.
func (r *run) revive(ctx context.Context) error {
	for _, p := range r.processes() {
		if err := p.Lost(); err != nil {
			r.fault(err)
			if err := r.restart(ctx, p); err != nil {
				return fmt.Errorf("bringing everything back to life: %w", err)
			}
		}
	}
	return nil
}

func (r *run) processes() []*drill.Process {
	return slices.Concat([]*drill.Process{r.Server}, r.Gateways, r.Controls, r.Workers)
}

func (r *run) named(name string) *drill.Process {
	i := slices.IndexFunc(r.processes(), func(p *drill.Process) bool { return p.Name == name })
	return r.processes()[i] // the plan names no other
}

// waitAccepted waits until n tasks have been accepted.
func (r *run) waitAccepted(ctx context.Context, n int) error {
	for {
		r.mu.Lock()
		have, moved := r.accepted, r.moved
		r.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// disturbed tells whether Temporal or a control worker did not serve at some
// moment between two times. One control worker of two is enough: work that was
// given to it when it died waits for its own time-out.
func (r *run) disturbed(from, to time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.outages, func(o outage) bool {
		return !o.to.Before(from) && !o.from.After(to) && (o.process == r.Server.Name || strings.HasPrefix(o.process, "control"))
	})
}

// after waits for a time of the plan.
func after(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sample watches the budget while the run goes on: never more leases than the
// limit.
func (r *run) sample(ctx context.Context) {
	for r.waiting() && ctx.Err() == nil {
		view, err := r.Doors[0].Queue(ctx)
		if err == nil && view.InFlight > capacity {
			r.fault(fmt.Errorf("the budget has granted %d leases, the limit is %d", view.InFlight, capacity))
		}
		after(ctx, 500*time.Millisecond)
	}
}

// waiting tells whether tasks have yet to be accepted.
func (r *run) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted < len(r.tasks)
}
