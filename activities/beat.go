package activities

import (
	"context"
	"sync"
	"time"

	"headgate/contract"
)

// Beats is the client's synchronous heartbeat. The buffered one of the SDK's
// activity package must not be used beside it: it answers before the server
// has anything, and a beat that it held back would erase a checkpoint.
type Beats interface {
	RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
}

// maxPatience bounds the wait for the answer to one beat.
const maxPatience = 5 * time.Second

// pulse makes the beats of one attempt. There is never more than one under way,
// so that no beat can overtake a later one.
type pulse struct {
	client  Beats
	token   []byte
	timeout time.Duration // the heartbeat timeout: what the claim lasts without a beat
	now     func() time.Time

	mu    sync.Mutex // held while a beat is under way
	beat  contract.Beat
	acked time.Time // when the last beat that the server has stored was sent
	doubt bool      // a beat had no answer: the server may store it yet
}

// every is the time between two repeated beats.
func (p *pulse) every() time.Duration { return p.timeout / 3 }

// advance makes the next beat, which change makes of the last one, given the
// time at which it is sent.
func (p *pulse) advance(ctx context.Context, change func(b *contract.Beat, sent time.Time)) (answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.now()
	change(&p.beat, sent)
	return p.send(ctx, sent, min(p.every(), maxPatience))
}

// keep repeats the last beat until stop is called; a beat that is under way then
// is waited for, not broken off: it could land after the next one. lost is told
// each time that the attempt is asked to stop, once when the claim is lost, and
// once with noAnswer when no beat was stored for the whole timeout.
func (p *pulse) keep(ctx context.Context, lost func(said answer, why error)) (stop func()) {
	over, quit := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(p.every())
		defer tick.Stop()
		silent := false
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			said, why, silence := p.repeat(ctx)
			switch {
			case said == stopAsked:
				lost(said, why)
			case said == claimLost:
				lost(said, why)
				return
			case silence && !silent:
				silent = true
				lost(said, why)
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-over
	})
}

// repeat makes the last beat again. It gives up when the claim's time is over,
// and tells so.
func (p *pulse) repeat(ctx context.Context) (said answer, why error, silence bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent, end := p.now(), p.acked.Add(p.timeout)
	patience := min(p.every(), maxPatience)
	if left := end.Sub(sent); left > 0 && left < patience {
		patience = left
	}
	said, why = p.send(ctx, sent, patience)
	return said, why, said == noAnswer && !p.now().Before(end)
}

// send makes one beat. The context's end does not break it off: whoever stops,
// stops after the answer.
func (p *pulse) send(ctx context.Context, sent time.Time, patience time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	said, why := beatAnswer(p.client.RecordActivityHeartbeat(ctx, p.token, p.beat))
	switch said {
	case acknowledged, stopAsked:
		p.acked = sent
	case noAnswer:
		p.doubt = true
	}
	return said, why
}

// lastAck is when the last stored beat was sent.
func (p *pulse) lastAck() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked
}

// alive tells that the claim's time is not over.
func (p *pulse) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now().Before(p.acked.Add(p.timeout))
}

// sure tells that every beat so far had an answer, so that none can land late.
func (p *pulse) sure() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.doubt
}

// last is the last beat that was made, stored or not.
func (p *pulse) last() contract.Beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beat
}
