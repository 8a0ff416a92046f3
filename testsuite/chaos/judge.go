package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// judge reads everything once more and compares.
func (r *run) judge(ctx context.Context, late []*task) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	report := Report{Seed: r.o.Seed, Tasks: len(r.tasks)}
	if err := r.readAll(ctx); err != nil {
		return report, err
	}
	for _, t := range late {
		if t.view.Task != "" { // else it is lost
			why, unread := r.Door.Why(ctx, t.Tenant, t.Key)
			view, unseen := r.Door.Queue(ctx)
			report.violate("unended", "%s (twice %t, %d silent, %d refusals) is still %s: %s; the budget says %+v (%v), with %d in the queue and %d in flight (%v); %s",
				t.name(), t.Twice, t.lost, t.refusals, t.view.Phase, t.story.Sentence, why, unread, view.Depth, view.InFlight, unseen, t.tells())
		}
	}
	for _, t := range r.tasks {
		report.count(t)
		report.truth(t)
	}
	for _, err := range r.errs {
		report.violate("other", "%s", err)
	}
	report.Leases = r.leases(ctx)
	if report.Leases != 0 {
		report.violate("leases", "%d leases are left", report.Leases)
	}
	report.classifiedIn(r, r.disturbed)
	faults, err := r.Provider.Faults(ctx)
	if err != nil {
		return report, err
	}
	report.faults(r, faults)
	report.Seconds = time.Since(r.began).Seconds()
	return report, nil
}

// readAll reads every task, its story and what the provider knows of it.
func (r *run) readAll(ctx context.Context) error {
	next := make(chan *task, len(r.tasks))
	for _, t := range r.tasks {
		next <- t
	}
	close(next)
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for t := range next {
				if err := r.read(ctx, t); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r *run) read(ctx context.Context, t *task) (err error) {
	if t.counts, err = r.Provider.Effects(ctx, t.witness()); err != nil {
		return err
	}
	if t.entries, err = r.Provider.Ledger(ctx, t.witness()); err != nil {
		return err
	}
	answer, err := r.Door.Task(ctx, t.Tenant, t.Key)
	if err != nil {
		return err
	}
	if t.view = answer.Task; answer.Status == 404 {
		return nil
	}
	t.story, err = r.Door.Explain(ctx, t.Tenant, t.Key)
	return err
}

// leases waits for the last leases, those of lost workers, and says how many are
// left.
func (r *run) leases(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	left := -1
	for ctx.Err() == nil {
		if view, err := r.Door.Queue(ctx); err == nil {
			if left = view.InFlight; left == 0 {
				return 0
			}
		}
		after(ctx, 200*time.Millisecond)
	}
	return left
}

// truth compares what Headgate says of one task with what the provider knows.
func (r *Report) truth(t *task) {
	n, phase := t.effects(), t.view.Phase
	if !t.accepted {
		return // the run was broken off, or the refusal is a violation already
	}
	if t.view.Task == "" {
		r.Lost++
		r.violate("lost", "%s was accepted and is not there", t.name())
		return
	}
	if n > 1 && !t.reads() {
		r.Duplicates++
		r.violate("duplicate", "%s (%s) has had %d effects: %s", t.name(), t.Operation, n, t.tells())
	}
	switch {
	case phase == contract.PhaseSucceeded && n == 0:
		r.WronglySucceeded++
		r.violate("wrongly succeeded", "%s (%s) has had no effect: %s", t.name(), t.Operation, t.tells())
	case phase == contract.PhaseSucceeded:
	case !t.reads() && phase.End() && phase != contract.PhaseUnknown && n > 0:
		r.WronglyFailed++
		r.violate("wrongly failed", "%s (%s) is %s (%s) and has had %d effects: %s", t.name(), t.Operation, phase, t.view.ErrorClass, n, t.tells())
	case phase == contract.PhaseFailed && t.Refused && t.view.ErrorClass == "rejected_by_provider":
	case phase.End() && phase != contract.PhaseUnknown:
		r.violate("failed without cause", "%s (%s) is %s (%s: %s): %s", t.name(), t.Operation, phase, t.view.ErrorClass, t.view.Detail, t.tells())
	}
	hash := ""
	for _, e := range t.entries {
		if e.PayloadHash != "" && hash != "" && e.PayloadHash != hash {
			r.violate("payload", "%s was sent with two payloads", t.name())
		}
		if e.PayloadHash != "" {
			hash = e.PayloadHash
		}
	}
	if tally := provider.Tally(t.entries, t.witness()); !t.reads() && (tally.Effects != t.counts.Effects || tally.Requests != t.counts.Requests) {
		r.violate("invalid", "%s: the provider's ledger says %s, its counts %s", t.name(), tally, t.counts)
	}
	// The history alone tells why.
	if t.story.Sentence == "" || len(t.story.Events) < 2 || t.story.Task.Phase != phase {
		r.violate("unexplained", "%s is %s, explained as %s by %d events", t.name(), phase, t.story.Task.Phase, len(t.story.Events))
	}
}

// tells is the story in one line.
func (t *task) tells() string {
	var all []string
	for _, e := range t.story.Events {
		all = append(all, fmt.Sprintf("%s#%d %s", e.Name, e.Attempt, e.At.Format("05.000")))
	}
	for _, e := range t.entries {
		all = append(all, fmt.Sprintf("[%s %s %d %s]", e.On, e.Event, e.Status, e.Time.Format("05.000")))
	}
	return strings.Join(all, ", ")
}

// classifiedIn finds the attempts that died with their worker, and how long each
// took to be classified. What disturbed tells to be an outage is counted apart.
func (r *Report) classifiedIn(run *run, disturbed func(from, to time.Time) bool) {
	var took []time.Duration
	for _, t := range run.tasks {
		for i, e := range t.story.Events {
			if e.Name != "lost" {
				continue
			}
			d, ok := run.deathOf(e)
			if !ok {
				continue
			}
			from := d.at
			for _, before := range t.story.Events[:i] { // a worker that is dead may still be given a task
				if before.Name == "scheduled" && before.Attempt == e.Attempt && before.At.After(from) {
					from = before.At
				}
			}
			end, ok := classifiedAt(t.story.Events[i+1:])
			if !ok {
				continue
			}
			if disturbed(from, from.Add(ClassifyWithin)) {
				r.Classified.Disturbed++
				continue
			}
			took = append(took, end.Sub(from))
			r.Classified.Noticed = max(r.Classified.Noticed, e.At.Sub(from).Seconds())
			r.Classified.Concluded = max(r.Classified.Concluded, end.Sub(e.At).Seconds())
			if end.Sub(from) > ClassifyWithin {
				r.violate("late classification", "%s took %s from its worker's death, %s into the run: %s", t.name(), end.Sub(from), from.Sub(run.began).Round(100*time.Millisecond), t.tells())
			}
		}
	}
	slices.Sort(took)
	if r.Classified.Attempts = len(took); len(took) > 0 {
		r.Classified.Median, r.Classified.Max = took[len(took)/2].Seconds(), took[len(took)-1].Seconds()
	}
}

// deathOf is the death that an attempt was lost by.
func (r *run) deathOf(lost contract.Event) (death, bool) {
	for _, d := range r.deaths {
		if strings.HasSuffix(lost.Actor, fmt.Sprintf(":%d", d.pid)) && d.at.Before(lost.At) {
			return d, true
		}
	}
	return death{}, false
}

// classifiedAt is when the task has drawn its conclusion from a lost attempt.
func classifiedAt(after []contract.Event) (time.Time, bool) {
	for _, e := range after {
		switch e.Name {
		case "lease_returned", "retry", "reconciling", "unknown", string(contract.PhaseSucceeded), string(contract.PhaseFailed):
			return e.At, true
		}
	}
	return time.Time{}, false
}
