package admission

import "time"

// The time ahead at which a successor is chosen is learnt from how long those
// before it took to stand by, as a retransmission timer learns from round trips
// (Jacobson, Karels 1988): a moving mean and twice a moving deviation. So it
// stands by in time, and a task of greater right seldom comes a moment too late.
type handover struct {
	Lag       Duration `json:"lag,omitempty"` // mean; zero: not known
	Deviation Duration `json:"deviation,omitempty"`
	// Missed is how often successors did not go, lately, in 256ths: where the
	// attempts of a budget run in many workers, one place seldom passes to the next.
	Missed int `json:"missed,omitempty"`
	Turn   int `json:"turn,omitempty"` // counts places that were not worth it
}

const (
	leadFirst = 100 * time.Millisecond
	leadLeast = 10 * time.Millisecond
	leadMost  = time.Second
	// missedMost of 256 is where choosing successors costs more than it gains.
	missedMost = 64
	// missedTry: where it is not worth it, one place in so many is tried.
	missedTry = 16
)

func (h *handover) lead() time.Duration {
	if h.Lag == 0 {
		return leadFirst
	}
	return min(max((h.Lag+2*h.Deviation).D(), leadLeast), leadMost)
}

// most is how early a successor is chosen at most: half an effect, if that is not
// short, so that half the places are open to who comes now.
func most(effect time.Duration) time.Duration { return max(leadFirst, effect/2) }

// leadFor is the lead for a place of such effects; false: none is worth choosing,
// since it would come too late, or as often as not does not go.
func (h *handover) leadFor(effect time.Duration) (time.Duration, bool) {
	lead := h.lead()
	if h.Missed > missedMost || lead > most(effect) {
		h.Turn = (h.Turn + 1) % missedTry // one place shows whether that is still so
		return min(lead, most(effect)), h.Turn == 0
	}
	return lead, true
}

// learn takes whether a successor went, the time since it was chosen, and how
// much of it it had stood by. One that did not go would have taken longer.
func (h *handover) learn(went bool, since, stood time.Duration) {
	if went {
		h.Missed -= (h.Missed + 15) / 16
	} else {
		h.Missed += (256 - h.Missed) / 16
	}
	lag := Duration(min(max(since-stood, 0), leadMost))
	if !went {
		lag = max(lag, h.Lag) + h.Deviation
	}
	if h.Lag == 0 {
		h.Lag, h.Deviation = max(lag, 1), lag/2
		return
	}
	off := lag - h.Lag
	h.Lag += off / 8
	h.Deviation += (max(off, -off) - h.Deviation) / 4
}
