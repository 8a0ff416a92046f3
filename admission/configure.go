package admission

import "time"

// Configure puts another policy in force. What is leased stays leased, also
// above a limit that has shrunk: nothing more is granted until it is below.
// What waits and can no longer fit is refused, and its task is told.
func (s *State) Configure(now time.Time, p Policy) error {
	s.clock(now)
	snap := s.Snapshot()
	snap.Policy = p
	next, err := Restore(snap)
	if err != nil {
		return err
	}
	for _, it := range next.ordered() {
		if it.stand != queued && it.stand != delayed {
			continue
		}
		if reason, detail := p.CheckCost(it.req.Cost); reason != "" {
			next.leave(it)
			it.stand, it.refuse, it.detail = ended, reason, detail
			next.send(it, next.now)
		}
	}
	*s = *next
	return nil
}
