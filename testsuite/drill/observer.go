package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/contract"
	"headgate/testsuite/provider"
)

// settleFor bounds the wait for what is allowed to lag behind the last end: the
// lease of a lost worker, and the listing.
const settleFor = time.Minute

// observe checks what must hold after every case, whatever it did, as far as it
// can be seen from outside. It answers with how many leases are left.
func (s *Scene) observe(ctx context.Context, c Case) (leases int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleFor, errors.New("the observer's time is over"))
	defer cancel()
	// 11. Every lease returns, whoever dies.
	returned := s.capacityBack(ctx)
	if view, err := s.Door.Queue(ctx); err == nil {
		leases = view.InFlight
	}
	for _, t := range s.traces() {
		if t.accepted {
			_, unread := s.look(ctx, t)
			err = errors.Join(err, unread)
		}
	}
	return leases, errors.Join(err, returned,
		s.undelivered(ctx), s.limits(ctx, c), s.listed(ctx), s.effects(ctx), s.explained(ctx))
}

// undelivered: a case whose faults did not happen has tested something else.
func (s *Scene) undelivered(ctx context.Context) error {
	reports, err := s.Provider.Faults(ctx)
	for _, r := range reports {
		if r.Undelivered() {
			err = errors.Join(err, fmt.Errorf("the fault %s %s on %s was never met", r.ID, r.Kind, r.Key))
		}
	}
	return err
}

// limits: never more leases than a limit (invariants 1 and 9), by the provider's
// own count; never more tasks waiting than the hard limit and its reserve.
func (s *Scene) limits(ctx context.Context, c Case) error {
	seen, err := s.Provider.Concurrency(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if seen.Max > capacity && !c.Zombie {
		errs = append(errs, fmt.Errorf("the provider had %d requests in hand at once, the limit is %d", seen.Max, capacity))
	}
	view, err := s.Door.Queue(ctx)
	if err != nil {
		return err
	}
	for _, t := range view.Tenants {
		if max := seen.Tenants[t.Name].Max; t.MaxInFlight > 0 && max > t.MaxInFlight && !c.Zombie {
			errs = append(errs, fmt.Errorf("the provider had %d requests of %s in hand at once, its limit is %d", max, t.Name, t.MaxInFlight))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maxDepth > hard+reserve {
		errs = append(errs, fmt.Errorf("%d tasks waited at once, the limit is %d", s.maxDepth, hard+reserve))
	}
	return errors.Join(errs...)
}

// listed: every accepted task is there once, in one phase (invariant 2), and
// nothing else is (10).
func (s *Scene) listed(ctx context.Context) error {
	want := map[string][]string{} // tenant -> tasks
	for _, t := range s.traces() {
		want[t.tenant] = append(want[t.tenant], nil...)
		if t.accepted {
			want[t.tenant] = append(want[t.tenant], contract.TaskID(t.tenant, t.key))
		}
	}
	for tenant, tasks := range want {
		slices.Sort(tasks)
		var have []string
		err := until(ctx, "the listing has caught up", func(ctx context.Context) (bool, error) {
			views, err := s.Door.Tasks(ctx, tenant)
			if err != nil {
				return false, err
			}
			have = nil
			counted := 0
			for _, v := range views {
				have = append(have, v.Task)
				for _, phase := range contract.Phases() {
					if v.Phase == phase {
						counted++
					}
				}
			}
			slices.Sort(have)
			return slices.Equal(have, tasks) && counted == len(tasks), nil
		})
		if err != nil {
			return fmt.Errorf("%s has %v listed, but %v were accepted: %w", tenant, have, tasks, err)
		}
	}
	return nil
}

// effects: at most one a task (invariant 3), none without a task that tells of it
// (4), one payload (6), and none of a refused request (10).
func (s *Scene) effects(ctx context.Context) error {
	var errs []error
	for _, t := range s.traces() {
		key := witnessKey(t.tenant, t.key)
		counts, err := s.Provider.Effects(ctx, key)
		if err != nil {
			return err
		}
		entries, err := s.Provider.Ledger(ctx, key)
		if err != nil {
			return err
		}
		if tally := provider.Tally(entries, key); tally.Effects != counts.Effects || tally.Requests != counts.Requests {
			errs = append(errs, fmt.Errorf("%s/%s: the provider's ledger says %s, its counts %s: the run is invalid", t.tenant, t.key, tally, counts))
		}
		least, most := 0, 1
		switch {
		case !t.accepted:
			most = 0
		case t.view.Phase == contract.PhaseSucceeded:
			least = 1
		case t.view.Phase != contract.PhaseUnknown:
			most = 0
		}
		if counts.Effects < least || counts.Effects > most {
			errs = append(errs, fmt.Errorf("%s/%s is %q, but has had %d effects", t.tenant, t.key, t.view.Phase, counts.Effects))
		}
		hash := ""
		for _, e := range entries {
			if e.PayloadHash != "" && hash != "" && e.PayloadHash != hash {
				errs = append(errs, fmt.Errorf("%s/%s was sent with two payloads", t.tenant, t.key))
			}
			hash = e.PayloadHash
		}
	}
	return errors.Join(errs...)
}

// explained: the history alone tells each transition with time, cause and actor
// (invariant 12).
func (s *Scene) explained(ctx context.Context) error {
	var errs []error
	for _, t := range s.traces() {
		if !t.accepted {
			continue
		}
		story, err := s.Door.Explain(ctx, t.tenant, t.key)
		if err != nil {
			return err
		}
		delivery, execution := t.view.Phase.States()
		switch {
		case story.Sentence == "" || len(story.Events) < 2:
			errs = append(errs, fmt.Errorf("%s/%s is not explained: %d events, %q", t.tenant, t.key, len(story.Events), story.Sentence))
		case t.view.DeliveryState != delivery || t.view.ExecutionState != execution || story.Task.Phase != t.view.Phase:
			errs = append(errs, fmt.Errorf("%s/%s: the states contradict its phase %s: %s, %s, explained as %s", t.tenant, t.key,
				t.view.Phase, t.view.DeliveryState, t.view.ExecutionState, story.Task.Phase))
		case slices.ContainsFunc(story.Events, func(e contract.Event) bool { return e.At.IsZero() || e.Name == "" }):
			errs = append(errs, fmt.Errorf("%s/%s is explained by an event without a time or a name", t.tenant, t.key))
		}
	}
	return errors.Join(errs...)
}
