package admission

// standBy makes a waiting item the successor of a lease, and has its task told.
func (s *State) standBy(it, ahead *item) {
	s.spend(it, false)
	s.expose(it)
	s.leave(it)
	it.stand = standby
	it.lease = Lease{ID: s.newID("l"), Granted: s.now, After: ahead.lease.ID}
	s.follow(it, ahead)
	s.refresh(it.tenant)
	s.ending(it, later(s.now, &ahead.ends))
	s.send(it, s.now)
}

// follow ties a successor to the one ahead.
func (s *State) follow(it, ahead *item) {
	it.ahead, ahead.successor = ahead, it
	s.count(it, 1)
	s.standby++
	it.tenant.standby++
	it.claim(1)
}

func (s *State) unfollow(it *item) {
	s.count(it, -1)
	it.claim(-1)
	s.standby--
	it.tenant.standby--
	it.ahead.successor, it.ahead = nil, nil
}

// takeOver makes a lease of a standby: its task has gone.
func (s *State) takeOver(it *item) {
	it.stand, it.granted = leased, s.now
	it.lease = Lease{ID: it.lease.ID, Granted: s.now}
	it.confirmed, it.deliver, it.asked, it.tries = true, false, false, 0
	s.outbox.remove(it)
	s.cover(it)
	s.occupy(it)
	s.audit(it, s.now.Add(it.leaseFor()))
	s.ending(it, s.now)
}

// believe gives a place to an attempt that has gone by a lease which it is not on
// standby for any more: it runs, whatever has become of the one ahead. If others
// have got what was free meanwhile, a limit is passed until one of them ends, and
// nothing is granted so long.
func (s *State) believe(lease string) {
	for it := s.eldest; it != nil; it = it.younger {
		if it.stand == queued && it.announced == lease {
			s.spend(it, false)
			s.leave(it)
			it.lease = Lease{ID: lease}
			s.takeOver(it)
			s.refresh(it.tenant)
			return
		}
	}
}

// stepBack puts a standby into the queue again, as if it had not been chosen.
func (s *State) stepBack(it *item) {
	s.endings.remove(it)
	if next := it.successor; next != nil {
		s.succeed(next, false) // it followed a lease that will not begin
	}
	s.refund(it, none(it.req.Cost))
	s.cover(it)
	s.stops.remove(it)
	it.stopping, it.stopped = false, false
	it.announced = it.lease.ID
	it.stand, it.lease, it.handed = queued, Lease{}, false
	it.deliver, it.asked, it.tries = false, false, 0
	s.outbox.remove(it)
	s.await(it)
	if it.req.Deadline != nil && !it.req.Deadline.After(s.now) {
		s.expire(it)
	}
}

// withdraw takes a standby out. If its report has overtaken the one of the lease
// ahead, it may have handed on a place that the budget has yet to hear of: then
// its successor follows the lease ahead, and has it as soon as that is reported.
func (s *State) withdraw(it *item, real []Cost) {
	ahead, next := it.ahead, it.successor
	s.endings.remove(it)
	if next != nil && it.handed {
		s.unfollow(next)
		s.unfollow(it)
		s.follow(next, ahead)
		ahead.handed = true
	} else {
		if next != nil {
			s.succeed(next, false)
		}
		s.unfollow(it)
	}
	s.refund(it, real)
	s.cover(it)
	s.forget(it)
	s.refresh(it.tenant)
}

// refund gives back what a standby has reserved, but for what was really used, and
// the whole charge: it has held no slot.
func (s *State) refund(it *item, real []Cost) {
	s.giveBack(it, real, false)
	it.tenant.virtual -= max(1, it.charge/it.tenant.Weight)
	it.agent.virtual -= it.charge
	it.charge = 0
}

// decline puts a standby back whose attempt has given up while the one ahead goes
// on: others need not wait for that one, nor does it.
func (s *State) decline(it *item) {
	if it.stand != standby {
		return
	}
	s.handover.learn(false, s.now.Sub(it.lease.Granted), 0)
	s.succeed(it, false)
}

// callBack stops what may not follow any more, after something was closed.
func (s *State) callBack() {
	if !s.recheck {
		return
	}
	s.recheck = false
	for it := s.eldest; it != nil; it = it.younger {
		if it.stand == standby && !it.stopping && !it.stopped && !s.mayFollow(it) {
			s.stop(it, s.now)
		}
	}
}

func (s *State) mayFollow(it *item) bool {
	if it.tenant.dispatchPaused(s.now) || it.class.gate.Half || !s.open(it.class) {
		return false
	}
	for _, c := range it.req.Cost {
		if i, ok := s.indexOf[c.Resource]; ok && s.resources[i].Per == 0 && s.resources[i].used > s.resources[i].limit {
			return false
		}
	}
	return true
}

// succeed settles the place of a lease that has come back: with the successor
// that has gone, or with none.
func (s *State) succeed(next *item, went bool) {
	s.unfollow(next)
	if went {
		s.takeOver(next)
	} else {
		s.stepBack(next)
	}
	s.refresh(next.tenant)
}
