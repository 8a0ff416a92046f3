package gateway

import (
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"headgate/admission"
	"headgate/contract"
)

// story is what the history of one task tells, read once from front to back. It
// is a pure function of the events: tell.
type story struct {
	input     contract.TaskInput
	accepted  time.Time
	attempts  []*attempt
	events    []contract.Event
	reconcile []reconcileRun
	// unnoticed: an attempt has ended and no worker has taken notice of it yet.
	unnoticed bool
	length    int64 // events

	waitingSince time.Time // of the attempt that is asked for now
	leases       []string  // told already: decisions are resent
	returned     int       // leases that came back
	refusals     []admission.Reason
	stops        []contract.Stop // told already: they are resent
}

// attempt is one effect activity.
type attempt struct {
	n         int
	scheduled int64 // event ID
	worker    string
	claimed   bool
	open      bool // no end in the history
	standing  bool // its lease was only announced
	// The end: an outcome that a worker told, or the last beat of a lost one.
	outcome *contract.Outcome
	beat    *contract.Beat
	class   admission.Class
	reason  string
	looked  bool   // its reconciliation has ended
	verdict string // of the reconciliation; empty: none
}

// reconcileRun is a reconciliation that the task started.
type reconcileRun struct {
	workflow, run string
	attempt       int
}

// mayHaveActed tells whether the provider may have been reached by the attempt.
// An attempt that is open counts by its last beat: a worker whose task is gone
// gets no further checkpoint.
func (a *attempt) mayHaveActed() bool {
	switch a.verdict {
	case contract.VerdictDidNotHappen, contract.VerdictFailed:
		return false
	case contract.VerdictHappened:
		return true
	}
	switch a.class {
	case admission.NotDispatched, admission.Refused, admission.Failed:
		return false
	}
	return true
}

// answer is what the worker told, by its result or in its last beat.
func (a *attempt) answer() *contract.Outcome {
	switch {
	case a == nil:
		return nil
	case a.outcome != nil:
		return a.outcome
	case a.beat != nil:
		return a.beat.Outcome
	}
	return nil
}

func (s *story) add(at time.Time, name string, n int, actor, detail string) {
	s.events = append(s.events, contract.Event{At: at, Name: name, Attempt: n, Actor: actor, Detail: detail})
}

// tell reads a task's history.
func tell(events []*historypb.HistoryEvent) *story {
	s := &story{length: int64(len(events))}
	became := outcomes(events)
	for _, e := range events {
		if became[e.GetEventId()].GetFailure() != nil {
			continue // an update that was refused after all
		}
		s.read(e, e.GetEventTime().AsTime())
	}
	return s
}

func (s *story) read(e *historypb.HistoryEvent, at time.Time) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		s.start(e.GetWorkflowExecutionStartedEventAttributes(), at)
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		s.unnoticed = false
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		a := e.GetWorkflowTaskFailedEventAttributes()
		s.add(at, "workflow_task_failed", 0, a.GetIdentity(), firstLine(a.GetFailure().GetMessage()))
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		s.signal(e.GetWorkflowExecutionSignaledEventAttributes(), at)
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		s.marker(e.GetMarkerRecordedEventAttributes(), at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		a := e.GetWorkflowExecutionCancelRequestedEventAttributes()
		s.add(at, "cancel_requested", 0, a.GetIdentity(), a.GetCause())

	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		s.asked(e.GetWorkflowExecutionUpdateAcceptedEventAttributes(), at)

	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == contract.EffectActivity {
			s.schedule(e.GetEventId(), a, at)
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		if at := s.attempt(a.GetScheduledEventId()); at != nil {
			at.worker = a.GetIdentity()
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := e.GetActivityTaskCompletedEventAttributes()
		if at0 := s.attempt(a.GetScheduledEventId()); at0 != nil {
			var o contract.Outcome
			if decode(a.GetResult(), &o) {
				s.answered(at0, o, at)
			} else {
				s.ended(at0, at, admission.Unknown, "unreadable_answer", "the answer in the history cannot be read")
			}
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		if at0 := s.attempt(a.GetScheduledEventId()); at0 != nil {
			s.lost(at0, a.GetFailure(), at)
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		if at0 := s.attempt(a.GetScheduledEventId()); at0 != nil {
			s.failed(at0, a.GetFailure(), at)
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		a := e.GetActivityTaskCanceledEventAttributes()
		if at0 := s.attempt(a.GetScheduledEventId()); at0 != nil {
			s.cancelled(at0, a.GetDetails(), at)
		}

	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
		if a.GetWorkflowType().GetName() == contract.ReconcileWorkflow {
			s.reconciling(a, at)
		}
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
		s.childStarted(e.GetChildWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		s.reconciled(e.GetChildWorkflowExecutionCompletedEventAttributes(), at)
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED,
		enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT:
		s.unnoticed = true
		if last := s.last(); last != nil {
			last.looked = true
		}
		s.add(at, "reconciliation_ended", 0, "", "without a verdict: the outcome stays unknown")
	default:
		s.close(e, at)
	}
}

// attempt finds an attempt by the event that scheduled it.
func (s *story) attempt(scheduled int64) *attempt {
	for _, a := range s.attempts {
		if a.scheduled == scheduled {
			return a
		}
	}
	return nil
}

// number finds an attempt by its number.
func (s *story) number(n int) *attempt {
	for _, a := range s.attempts {
		if a.n == n {
			return a
		}
	}
	return nil
}

func (s *story) last() *attempt {
	if len(s.attempts) == 0 {
		return nil
	}
	return s.attempts[len(s.attempts)-1]
}

// withBeat gives the open attempt the beat that the server still holds of it;
// the history has no beats of an attempt that has not ended.
func (s *story) withBeat(beat *contract.Beat, started bool) {
	a := s.last()
	if a == nil || !a.open || a.beat != nil {
		return
	}
	switch {
	case !started || beat == nil:
		a.class = admission.NotDispatched
	default:
		a.beat = beat
		s.steps(a, beat.Worker, beat.Build, beat.Claimed, beat.Dispatching, beat.SendBy)
		a.class, _ = admission.Lost(beat.Step, beat.Attempt == a.n)
		if beat.Step == admission.StepResponded && beat.Outcome != nil {
			a.class, a.reason = beat.Outcome.Class, beat.Outcome.Reason
		}
	}
}

// unnoticedPhase is the phase of a task whose attempt, or whose reconciliation,
// has ended without a worker having taken notice: the one before the end.
func (s *story) unnoticedPhase() (contract.Phase, string) {
	switch a := s.last(); {
	case a.looked:
		return contract.PhaseReconciling, "the reconciliation has ended" + unnoticed
	case a.mayHaveActed():
		return contract.PhaseDispatched, "the attempt has ended" + unnoticed
	case a.claimed:
		return contract.PhaseClaimed, "the attempt has ended" + unnoticed
	}
	return contract.PhaseLeased, "the attempt has ended" + unnoticed
}

const unnoticed = "; a control worker has yet to take notice"

// retries counts why the first n attempts were repeated.
func (s *story) retries(n int) []contract.Count {
	var counts []contract.Count
	for _, a := range s.attempts[:max(0, n)] {
		class := a.reason
		if class == "" {
			class = string(a.class)
		}
		i := slices.IndexFunc(counts, func(c contract.Count) bool { return c.Class == class })
		if i < 0 {
			counts = append(counts, contract.Count{Class: class, N: 1})
		} else {
			counts[i].N++
		}
	}
	return counts
}

// mayHaveActed tells whether the provider may have been reached by any attempt.
func (s *story) mayHaveActed() bool {
	return slices.ContainsFunc(s.attempts, (*attempt).mayHaveActed)
}
