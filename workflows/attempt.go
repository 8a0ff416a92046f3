package workflows

import (
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// Reasons of outcomes that the workflow itself concludes.
const (
	reasonWorkerLost   = "worker_lost" // the attempt ended before the checkpoint, without a word
	reasonNoWorker     = "no_worker"   // nobody took the attempt
	reasonNoAnswer     = "no_answer"   // the attempt ended after the checkpoint, without a word
	reasonCancelled    = "cancelled"
	reasonDeadline     = "deadline_passed"
	reasonAbsent       = "proven_absent" // a reconciliation found that it did not happen
	reasonIntentLapsed = "intent_lapsed"
	reasonFrozen       = "operation_frozen"
	reasonReplay       = "replayed" // the replay class allowed to send it again
	reasonToVerify     = "to_be_verified"
	reasonCalledOff    = "cancelled_at_provider"
)

// effect runs one attempt and says what is known of it afterwards.
func (t *task) effect(ctx workflow.Context, lease admission.Lease) contract.Outcome {
	t.leases++
	if t.began.IsZero() {
		t.began = workflow.Now(ctx)
	}
	t.asked, t.standing = false, lease.After != ""
	if t.in.Logic < contract.LogicQuietGrant && !t.noted {
		t.note(ctx, contract.PhaseLeased)
	}
	in := contract.EffectInput{Tenant: t.in.Tenant, Key: t.in.Key, Attempt: t.attempt, Lease: lease.ID, After: lease.After, Budget: t.in.BudgetName(),
		ProviderKey: contract.ProviderKey(t.in.Tenant, t.in.Key), Operation: t.op, Payload: t.in.Payload,
		Hash: t.in.Hash, Deadline: t.in.Deadline}
	var o contract.Outcome
	if err := t.attend(ctx, in, &o); err != nil {
		o = t.lost(ctx, err)
	}
	if !o.StoodInVain() {
		t.measureStart(ctx, o)
	}
	switch o.Class {
	case admission.Unknown:
		t.doubted = t.op.Doubts
	case admission.Succeeded:
		t.doubted = false // the report of this outcome tells the budget
	}
	if o.Class != admission.NotDispatched {
		t.sent = true
		if t.firstSent.IsZero() {
			t.firstSent = workflow.Now(ctx)
			if !o.Dispatching.IsZero() && o.Dispatching.Before(t.firstSent) {
				t.firstSent = o.Dispatching // the earlier, so that a replay window is never stretched
			}
		}
	}
	return o
}

// attend waits for an attempt, and cancels it if the budget asks for that. The
// server answers the attempt's checkpoint with it, so that what is not dispatched
// yet never is; what is, is decided by its outcome.
func (t *task) attend(ctx workflow.Context, in contract.EffectInput, o *contract.Outcome) error {
	t.stopped = false
	options := effectOptions(t.op)
	if in.After != "" {
		options.ScheduleToStartTimeout = noPlaceAfter
	}
	actx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, options))
	defer cancel()
	run := workflow.ExecuteActivity(actx, contract.EffectActivity, in)
	for !run.IsReady() {
		s := workflow.NewSelector(ctx)
		s.AddFuture(run, func(workflow.Future) {})
		s.AddReceive(t.stops, func(c workflow.ReceiveChannel, _ bool) {
			var stop contract.Stop
			c.Receive(ctx, &stop)
			about := stop.Attempt == t.attempt && (stop.Lease == "" || stop.Lease == in.Lease)
			if about && !t.stopped { // else of an older one, or once more
				t.stopped = true
				cancel()
			}
		})
		s.Select(ctx)
	}
	return run.Get(ctx, o)
}

// lost classifies an attempt that gave no outcome of its own.
func (t *task) lost(ctx workflow.Context, err error) contract.Outcome {
	var timeout *temporal.TimeoutError
	var canceled *temporal.CanceledError
	switch {
	case errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START && t.standing:
		return contract.Outcome{Class: admission.NotDispatched, Reason: contract.StandbyLate}
	case errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return contract.Outcome{Class: admission.NotDispatched, Reason: reasonNoWorker,
			Detail: "no worker took the attempt within " + noWorkerAfter.String()}
	case errors.As(err, &timeout):
		return t.timedOut(ctx, timeout)
	case errors.As(err, &canceled):
		// The server cancels by itself only what no worker has taken.
		return contract.Outcome{Class: admission.NotDispatched, Reason: reasonCancelled}
	}
	// The protocol returns outcomes, so this is a fault of the worker's program
	// at an unknown place.
	return contract.Outcome{Class: admission.Unknown, Reason: "worker_error", Detail: err.Error(), Lost: true}
}

func (t *task) timedOut(ctx workflow.Context, timeout *temporal.TimeoutError) contract.Outcome {
	var beat contract.Beat
	if timeout.HasLastHeartbeatDetails() {
		if err := timeout.LastHeartbeatDetails(&beat); err != nil {
			return contract.Outcome{Class: admission.Unknown, Reason: "unreadable_beat", Detail: err.Error(), Lost: true}
		}
	}
	class, inBeat := admission.Lost(beat.Step, beat.Attempt == t.attempt)
	if inBeat && beat.Outcome != nil {
		o := *beat.Outcome
		o.Lost = true
		t.result.Evidence = append(t.result.Evidence, evidenceOf(contract.EvidenceResponse, o, workflow.Now(ctx)))
		return o
	}
	o := contract.Outcome{Class: class, Lost: true, Reason: reasonWorkerLost, Worker: beat.Worker, Build: beat.Build,
		Claimed: beat.Claimed, Dispatching: beat.Dispatching, SendBy: beat.SendBy}
	if class == admission.Unknown {
		o.Reason = reasonNoAnswer
	}
	return o
}

// decide gives the end of the task, or the wait before its next attempt.
func (t *task) decide(ctx workflow.Context, o contract.Outcome) (*ending, time.Duration) {
	if t.stopped && o.Class == admission.NotDispatched && o.Reason != reasonDeadline && ctx.Err() == nil {
		return t.frozen(ctx)
	}
	if o.Reason != reasonNoWorker {
		t.counted++
	}
	if o.Class != admission.Succeeded && o.Class != admission.Unknown {
		if ended := t.heard(ctx); ended != nil {
			return ended, 0
		}
	}
	switch o.Class {
	case admission.Succeeded:
		if t.op.Verifies() {
			return t.verify(ctx, o)
		}
		t.succeed(o)
		t.hadEffect(t.attempt)
		if t.replayed() {
			t.result.Evidence = append(t.result.Evidence, evidenceOf(contract.EvidenceReplay, o, workflow.Now(ctx)))
		}
		return &ending{phase: contract.PhaseSucceeded}, 0
	case admission.Failed:
		return &ending{contract.PhaseFailed, o.Reason, o.Detail}, 0
	case admission.NotDispatched, admission.Refused:
		if o.Reason == reasonDeadline && !t.sent {
			return &ending{contract.PhaseExpired, string(admission.Expired), "the deadline passed before it was dispatched"}, 0
		}
		if o.Reason == reasonDeadline {
			return &ending{contract.PhaseFailed, o.Reason, "the deadline passed before a further attempt was dispatched"}, 0
		}
		return t.again(ctx, o.Reason, o.Detail, o.RetryAfter.D())
	}
	return t.reconcile(ctx, o)
}

// frozen sends a stopped attempt back to the queue. It is nobody's failure: it
// counts against no limit, and a task that was never sent is as young as before.
func (t *task) frozen(ctx workflow.Context) (*ending, time.Duration) {
	if !t.sent {
		t.began = time.Time{}
	}
	if t.standing { // it has not had a place at all
		t.leases--
		return nil, 0
	}
	t.count(ctx, reasonFrozen)
	return nil, 0
}

// again plans a further attempt, unless attempts, age or a cancel request end
// the task. It is only called when no attempt so far had an effect, or when the
// replay class allows another.
func (t *task) again(ctx workflow.Context, reason, detail string, least time.Duration) (*ending, time.Duration) {
	retry := t.op.Retry
	wait := max(backoff(retry, t.counted, t.id()), least)
	switch {
	case ctx.Err() != nil:
		return &ending{contract.PhaseCancelled, reasonCancelled, "nothing was dispatched, or the provider refused it"}, 0
	case t.counted >= retry.MaxAttempts:
		return &ending{contract.PhaseFailed, reason, join("the last of "+strconv.Itoa(t.counted)+" attempts", detail)}, 0
	case retry.MaxAge > 0 && workflow.Now(ctx).Add(wait).Sub(t.began) > retry.MaxAge.D():
		return &ending{contract.PhaseFailed, reason, join("the next attempt would start more than "+retry.MaxAge.String()+" after the first", detail)}, 0
	}
	t.count(ctx, reason)
	return nil, wait
}

// backoff doubles from the base to the maximum, with a jitter of a fifth each
// way that is drawn from the task and the attempt, so that a replay agrees.
func backoff(r contract.Retry, attempts int, task string) time.Duration {
	wait := r.Base.D()
	for i := 1; i < attempts && wait < r.Max.D(); i++ {
		wait *= 2
	}
	wait = min(wait, r.Max.D())
	h := fnv.New32a()
	_, _ = h.Write([]byte(task + strconv.Itoa(attempts)))
	return wait*4/5 + wait*2/5*time.Duration(h.Sum32()%1000)/1000
}

func (t *task) count(ctx workflow.Context, class string) {
	t.measureRetry(ctx, class)
	for i := range t.result.Retries {
		if t.result.Retries[i].Class == class {
			t.result.Retries[i].N++
			return
		}
	}
	t.result.Retries = append(t.result.Retries, contract.Count{Class: class, N: 1})
}

func (t *task) replayed() bool {
	for _, c := range t.result.Retries {
		if c.Class == reasonReplay {
			return true
		}
	}
	return false
}

// evidenceOf turns an outcome that came by another way than the activity's
// result into a fact.
func evidenceOf(kind string, o contract.Outcome, now time.Time) contract.Evidence {
	e := contract.Evidence{Kind: kind, Finding: contract.Inconclusive, At: now, Actor: o.Worker,
		Reference: o.Reference, Detail: join(o.Reason, o.Detail), Status: o.Status, Result: o.Result}
	switch o.Class {
	case admission.Succeeded:
		e.Finding = contract.Happened
	case admission.Failed, admission.Refused, admission.NotDispatched:
		e.Finding = contract.DidNotHappen
	}
	return e
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}
