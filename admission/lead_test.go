package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLead(t *testing.T) {
	const ms = time.Millisecond
	learnt := func(times int, went bool, since, stood time.Duration) *handover {
		h := &handover{}
		for range times {
			h.learn(went, since, stood)
		}
		return h
	}
	worth := func(h *handover, effect time.Duration) (n int) {
		for range 10 * missedTry {
			if _, ok := h.leadFor(effect); ok {
				n++
			}
		}
		return n
	}
	const always, seldom = 10 * missedTry, 10

	h := &handover{}
	lead, ok := h.leadFor(time.Second)
	assert.True(t, ok)
	assert.Equal(t, leadFirst, lead, "nothing is known yet")

	h = learnt(50, true, 80*ms, 30*ms)
	lead, _ = h.leadFor(time.Second)
	assert.InDelta(t, 50*ms, lead, float64(5*ms), "what it took to stand by")
	assert.Equal(t, always, worth(h, 10*ms))

	h = learnt(50, true, 300*ms, 0)
	assert.Equal(t, always, worth(h, time.Second))
	assert.Equal(t, seldom, worth(h, 200*ms), "it would come too late")
	lead, _ = h.leadFor(200 * ms)
	assert.Equal(t, 100*ms, lead, "and is tried by half an effect")

	h = learnt(50, false, 20*ms, 0)
	assert.Equal(t, seldom, worth(h, time.Hour), "most do not go")
	for range 50 {
		h.learn(true, 20*ms, 0)
	}
	assert.Equal(t, always, worth(h, time.Hour), "they do again")
}
