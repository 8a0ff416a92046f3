package activities

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// Client is what Effects needs of a Temporal client.
type Client interface {
	Beats
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	findingsStarter
}

// Effects makes effects and looks them up.
type Effects struct {
	Client  Client
	Types   map[string]Type // by contract.Operation.Type
	Worker  string          // as people and histories see it
	Build   string
	Log     *zap.Logger
	Now     func() time.Time // nil: time.Now
	Network Network          // what probes may reach
	// Lookups is the client of probes; nil: one that follows no redirect.
	Lookups *http.Client

	ask     sync.Once
	asks    *http.Client
	once    sync.Once
	places  *places
	reports *batcher[admission.Report]
}

// Effect runs one attempt under the checkpoint protocol. All that the table of
// outcomes knows comes back as an outcome; an error means that the attempt had
// lost its claim.
func (e *Effects) Effect(ctx context.Context, in contract.EffectInput) (contract.Outcome, error) {
	info := activity.GetInfo(ctx)
	o, err := e.attempt(in, info.TaskToken, info.HeartbeatTimeout, info.Deadline).
		run(ctx, activity.GetWorkerStopChannel(ctx))
	measureAttempt(ctx, in, o, err)
	return o, err
}

// attempt is one run of the protocol.
type attempt struct {
	*Effects
	in       contract.EffectInput
	kind     Type
	pulse    *pulse
	deadline time.Time // of the attempt
	log      *zap.Logger
}

func (e *Effects) attempt(in contract.EffectInput, token []byte, heartbeat time.Duration, deadline time.Time) *attempt {
	if heartbeat <= 0 {
		heartbeat = in.Operation.Heartbeat.D()
	}
	e.once.Do(func() {
		e.reports, e.places = newReports(e.Client, e.Log), newPlaces(e.now)
	})
	a := &attempt{Effects: e, in: in, kind: e.Types[in.Operation.Type], deadline: deadline}
	a.pulse = &pulse{client: e.Client, token: token, timeout: heartbeat, now: a.now, beat: contract.Beat{
		Attempt:     in.Attempt,
		ProviderKey: in.ProviderKey,
		Hash:        in.Hash,
		Worker:      e.Worker,
		Build:       e.Build,
	}}
	a.log = e.Log.With(zap.String("tenant", in.Tenant), zap.String("key", in.Key),
		zap.String("task", contract.TaskID(in.Tenant, in.Key)), zap.Int("attempt", in.Attempt), zap.String("lease", in.Lease))
	return a
}

func (e *Effects) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

// run is the protocol. Up to the checkpoint, anything that speaks against the
// effect ends the attempt without one. After it, the effect is left alone
// unless the claim is lost: a cancellation does not call back what has left, so
// the outcome still decides.
func (a *attempt) run(ctx context.Context, stopping <-chan struct{}) (contract.Outcome, error) {
	before, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go func() {
		select {
		case <-stopping:
			giveUp(errStopping)
		case <-before.Done():
		}
	}()

	a.places.hold(a.in.Lease)
	defer a.places.end(a.in.Lease, false)
	// 1. Claim, unless the worker takes nothing new.
	if err := a.claim(before, stopping); err != nil {
		return a.undone(err), nil
	}
	// 2. Refuse what is wrong or too late whatever a type could do.
	if err := a.check(); err != nil {
		return a.undone(err), nil
	}
	// 3. Prepare, with nothing to be seen outside.
	prepared, err := a.prepare(before, giveUp)
	defer a.close(prepared)
	if err != nil {
		return a.undone(err), nil
	}
	// 4. An announced lease begins when the one ahead has ended.
	if err := a.standBy(before, giveUp); err != nil {
		return a.undone(err), nil
	}
	// From here on, only the end of the worker's patience breaks off.
	after, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	// 5. Checkpoint: the server knows that the effect is about to leave.
	guard, err := a.checkpoint(before)
	switch {
	case err != nil && guard == nil:
		return a.undone(err), nil
	case err != nil:
		// It may know that, and it is not so.
		return a.respond(after, a.undone(err))
	}
	// 6. The effect itself.
	defer context.AfterFunc(ctx, func() {
		if why := whyDone(ctx); errors.Is(why, errStopping) {
			guard.close(why)
			abort(why)
		}
	})()
	outcome := a.effect(after, prepared, guard)
	a.pass(&outcome, guard)
	// 7. Keep the answer where no crash can lose it.
	return a.respond(after, outcome)
}

func (a *attempt) claim(ctx context.Context, stopping <-chan struct{}) error {
	select {
	case <-stopping:
		return errStopping
	default:
	}
	said, why := a.pulse.advance(ctx, func(b *contract.Beat, sent time.Time) {
		b.Step, b.Claimed = admission.StepClaimed, sent
	})
	if said != acknowledged {
		return why
	}
	return nil
}

// check refuses the attempt that no type should see. The payload is made
// canonical again: on its way, Temporal's JSON converter has written <, > and &
// in another way, and the provider shall see one text in every attempt.
func (a *attempt) check() error {
	body, err := config.Canonical(a.in.Payload)
	switch op := a.in.Operation; {
	case err != nil || config.Hash(op.Name, body) != a.in.Hash:
		return errHash
	case op.Timeout <= 0 || a.pulse.timeout <= 0:
		return errOperation
	case a.kind == nil:
		return errType
	}
	a.in.Payload = body
	return a.inTime()
}

// inTime tells that the task still wants the effect, and that the effect would
// end before the attempt does.
func (a *attempt) inTime() error {
	switch now := a.now(); {
	case a.in.Deadline != nil && past(now, *a.in.Deadline):
		return errDeadline
	case past(now.Add(a.in.Operation.Timeout.D()), a.deadline):
		return errNoTime
	}
	return nil
}

// checkpoint is the durable mark. With less time left than the effect may take
// it is not made: the attempt would end under a running effect. The send-by
// time counts from when the beat was sent, so it comes before the server could
// give the claim away; a quarter of the heartbeat timeout is the margin.
//
// An error with a guard means that the mark may be stored all the same.
func (a *attempt) checkpoint(ctx context.Context) (*Guard, error) {
	if ctx.Err() != nil {
		return nil, whyDone(ctx)
	}
	if err := a.inTime(); err != nil {
		return nil, err
	}
	if !a.pulse.sure() {
		// A claim that has no answer yet could still be stored, over the checkpoint.
		return nil, errFenced
	}
	guard := &Guard{now: a.now}
	said, why := a.pulse.advance(ctx, func(b *contract.Beat, sent time.Time) {
		guard.sendBy = sent.Add(min(a.pulse.timeout-a.pulse.timeout/4, a.in.Operation.Timeout.D()))
		b.Step, b.Dispatching, b.SendBy = admission.StepDispatching, sent, guard.sendBy
	})
	switch said {
	case acknowledged:
		return guard, nil
	case claimLost:
		return nil, why
	}
	return guard, why
}

// effect runs the type's effect while the checkpoint is repeated.
func (a *attempt) effect(ctx context.Context, p Prepared, guard *Guard) contract.Outcome {
	a.log.Info("effect dispatched", zap.String("operation", a.in.Operation.Name), zap.Time("send_by", guard.sendBy))
	ctx, cancel := context.WithTimeout(ctx, min(a.in.Operation.Timeout.D(), a.deadline.Sub(a.now())))
	defer cancel()
	defer a.pulse.keep(ctx, func(said answer, why error) {
		if said == stopAsked {
			a.log.Debug("asked to stop after dispatch: the outcome decides")
			return
		}
		a.fence(guard, why, cancel)
	})()
	return a.perform(ctx, p, guard)
}

// fence stops an effect whose claim is lost. What has not left shall not leave,
// and is broken off at once. What has left may still be answered, and the answer
// is worth having; it is waited for as long as the lease is held back for it,
// which is one more heartbeat timeout.
func (a *attempt) fence(guard *Guard, why error, cancel context.CancelFunc) {
	a.log.Warn("attempt is fenced")
	if !guard.close(why) {
		cancel()
		return
	}
	quarter := a.pulse.timeout / 4
	left := a.pulse.lastAck().Add(2*a.pulse.timeout - quarter).Sub(a.now())
	time.AfterFunc(max(left, quarter), cancel)
}
