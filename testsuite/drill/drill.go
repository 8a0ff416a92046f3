// Package drill rehearses the failures that Headgate promises to survive: a whole
// Headgate of real processes on this machine, faults at points that are proved to
// be reached, and an independent provider that counts what really happened.
//
// A case ends with a table row for each of its tasks. It passes when every row is
// as the case says and the observer finds every invariant kept. The same cases
// are the command `headgate drill` and Go tests.
package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"headgate/contract"
)

// caseLimit bounds one case; most take seconds.
const caseLimit = 3 * time.Minute

// ErrDiffers tells that a case did not end as it must.
var ErrDiffers = errors.New("the drill found differences")

// Options of a drill.
type Options struct {
	Binaries Binaries
	Cases    []Case
	// CaseLimit bounds one case; zero: three minutes.
	CaseLimit time.Duration
	Dir       string    // parent of the world's folder; empty: the system's own
	Keep      bool      // leave data and logs behind
	Progress  io.Writer // a line at a time
}

// Run starts a world, plays the cases in it and ends it. The error wraps
// ErrDiffers when a case did not end as it must; the report is complete then.
func Run(ctx context.Context, o Options) (report Report, err error) {
	began := time.Now()
	w, err := NewWorld(ctx, o.Dir, o.Binaries)
	if err != nil {
		return report, err
	}
	defer func() {
		w.Close()
		if o.Keep {
			fmt.Fprintf(o.Progress, "data and logs are in %s\n", w.Dir)
			return
		}
		err = errors.Join(err, w.Remove())
	}()
	w.CaseLimit = o.CaseLimit
	fmt.Fprintf(o.Progress, "server, provider, gateway, control worker and %d workers are up after %s\n", len(w.Workers), time.Since(began).Round(100*time.Millisecond))
	first := time.Now()
	for i, c := range o.Cases {
		fmt.Fprintf(o.Progress, "%2d/%d  %-14s %s ... ", i+1, len(o.Cases), c.Name(), c.Title)
		result := w.Play(ctx, c)
		if ctx.Err() != nil {
			fmt.Fprintln(o.Progress, "broken off")
			return report, context.Cause(ctx)
		}
		report.Results = append(report.Results, result)
		if result.Passed {
			report.Passed++
			fmt.Fprintf(o.Progress, "ok, %.1fs%s\n", result.Seconds, left(time.Since(first), i+1, len(o.Cases)))
		} else {
			report.Failed++
			fmt.Fprintf(o.Progress, "FAILED, %.1fs\n%s", result.Seconds, result.Logs)
		}
	}
	report.Seconds = time.Since(began).Seconds()
	if report.Failed > 0 {
		err = fmt.Errorf("%w in %d of %d cases", ErrDiffers, report.Failed, len(o.Cases))
	}
	return report, err
}

// left is how much longer the cases take that are still to be played, if they take as
// long as those before; nothing when it is not worth a word.
func left(took time.Duration, done, all int) string {
	if done == 0 || done >= all {
		return ""
	}
	rest := took / time.Duration(done) * time.Duration(all-done)
	return fmt.Sprintf("; %.1f cases a minute, about %s left", float64(done)/took.Minutes(), rest.Round(time.Second))
}

// Play plays one case in the world, which is healthy again afterwards.
func (w *World) Play(ctx context.Context, c Case) Result {
	s := newScene(w, c.tenant())
	result := Result{Case: c.Name(), Title: c.Title}
	limit := cmp.Or(w.CaseLimit, caseLimit)
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the case's time of %s is over", limit))
	defer cancel()

	if err := w.Provider.Reset(limited); err != nil {
		result.Error = err.Error()
		return result
	}
	watching, stop := context.WithCancel(limited)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watch(watching) })
	err := c.Play(limited, s)
	s.close()
	stop()
	watcher.Wait()

	if err != nil {
		err = errors.Join(err, w.Lost())
		result.Logs = w.Logs(25)
		// Whatever went wrong, what stands now is still worth a table.
		err = errors.Join(err, w.Heal(ctx))
	}
	leases, broken := s.observe(ctx, c)
	rows, unread := s.rows(ctx, c.Ends)
	result.Leases, result.Rows = leases, rows
	err = errors.Join(err, broken, unread, w.Heal(ctx))
	result.Seconds = time.Since(s.began).Seconds()
	if err != nil {
		result.Error = err.Error()
	}
	result.Passed = err == nil && !slices.ContainsFunc(rows, func(r Row) bool { return len(r.Differs) > 0 })
	if !result.Passed && result.Logs == "" {
		result.Logs = w.Logs(25)
	}
	return result
}

// rows compares every task with its end. A task that no end speaks of is a row
// too, and differs.
func (s *Scene) rows(ctx context.Context, ends []End) ([]Row, error) {
	var rows []Row
	var errs []error
	spoken := map[*trace]bool{}
	for _, end := range ends {
		tenant := s.Tenant
		if end.Tenant != "" {
			tenant += "-" + end.Tenant
		}
		row := Row{Task: tenant + "/" + end.Keys[0], Tasks: len(end.Keys)}
		if len(end.Keys) > 1 {
			row.Task = fmt.Sprintf("%s and %d more", row.Task, len(end.Keys)-1)
		}
		for i, key := range end.Keys {
			t := s.trace(tenant, key)
			spoken[t] = true
			one, err := s.row(ctx, t, end)
			errs = append(errs, err)
			if i == 0 {
				row.Delivery, row.Execution, row.Phases, row.Events = one.Delivery, one.Execution, one.Phases, one.Events
				row.Attempts, row.Retries, row.Reason = one.Attempts, one.Retries, one.Reason
			}
			row.Notes = append(row.Notes, one.Notes...)
			row.Effects += one.Effects
			row.Requests += one.Requests
			for _, d := range one.Differs {
				if len(end.Keys) > 1 {
					d = key + ": " + d
				}
				row.Differs = append(row.Differs, d)
			}
		}
		rows = append(rows, row)
	}
	for _, t := range s.traces() {
		if !spoken[t] {
			rows = append(rows, Row{Task: t.tenant + "/" + t.key, Tasks: 1, Differs: []string{"the case does not say how it must end"}})
		}
	}
	return rows, errors.Join(errs...)
}

// row reads how a task stands, and what differs from its end.
func (s *Scene) row(ctx context.Context, t *trace, end End) (Row, error) {
	var row Row
	differs := func(format string, args ...any) { row.Differs = append(row.Differs, fmt.Sprintf(format, args...)) }
	counts, err := s.Provider.Effects(ctx, witnessKey(t.tenant, t.key))
	if err != nil {
		return row, err
	}
	row.Effects, row.Requests = counts.Effects, counts.Requests
	answer, err := s.Door.Task(ctx, t.tenant, t.key)
	if err != nil {
		return row, err
	}
	var evidence []contract.Evidence
	if answer.Status == 404 {
		row.Delivery, row.Execution = contract.PhaseRejected.States()
		row.Reason = t.refused.Reason
		if end.Phase != contract.PhaseRejected {
			differs("there is no such task: %s %s", t.refused.Reason, t.refused.Detail)
		}
	} else {
		view := answer.Task
		row.Delivery, row.Execution, row.Reason = view.DeliveryState, view.ExecutionState, view.ErrorClass
		row.Attempts, row.Retries, evidence = view.Attempts, view.Retries, view.Evidence
		s.mu.Lock()
		row.Phases = slices.Clone(t.steps)
		s.mu.Unlock()
		if story, err := s.Door.Explain(ctx, t.tenant, t.key); err == nil {
			row.Events = story.Events
		}
		row.Notes = backwards(row.Phases, view.Attempts)
		if view.Phase != end.Phase {
			differs("it is %s (%s %s), not %s", view.Phase, view.ErrorClass, view.Detail, end.Phase)
		}
	}
	delivery, execution := end.Phase.States()
	if row.Delivery != delivery || row.Execution != execution {
		differs("the states are %s and %s, not %s and %s", row.Delivery, row.Execution, delivery, execution)
	}
	if end.Reason != "" && row.Reason != end.Reason {
		differs("the reason is %q, not %q", row.Reason, end.Reason)
	}
	if row.Effects != end.Effects {
		differs("the provider has counted %d effects, not %d", row.Effects, end.Effects)
	}
	if !end.Requests.holds(row.Requests) {
		differs("the provider has seen %d requests, not %s", row.Requests, end.Requests)
	}
	if !end.Attempts.holds(row.Attempts) {
		differs("it took %d attempts, not %s", row.Attempts, end.Attempts)
	}
	for _, class := range end.Retries {
		if !slices.ContainsFunc(row.Retries, func(c contract.Count) bool { return c.Class == class }) {
			differs("the retries are %s, without %s", counted(row.Retries), class)
		}
	}
	if end.Evidence != "" && (len(evidence) == 0 || evidence[len(evidence)-1].Kind != end.Evidence) {
		differs("the evidence is %+v, which does not end with a %s", evidence, end.Evidence)
	}
	if !through(row.Phases, end.Through) {
		differs("it was seen in %s, not in %v", path(row.Phases), end.Through)
	}
	return row, nil
}
