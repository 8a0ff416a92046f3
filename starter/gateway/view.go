package gateway

import (
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"headgate/admission"
	"headgate/contract"
)

// attemptless is the longest history of a task that has had no attempt: its
// start, one workflow task, a phase and a request to the budget.
const attemptless = 6

// needsPast tells whether the description alone cannot say how the task stands.
func needsPast(s *sighting) bool {
	info := s.task.GetWorkflowExecutionInfo()
	if attribute(info.GetSearchAttributes(), contract.OperationAttribute) == "" {
		return true
	}
	if !s.open() {
		_, told := resultOf(s.end)
		return !told
	}
	if asksPerson(s) {
		return false
	}
	// A task that seems to wait may have had attempts, one of which no worker has
	// taken notice of yet.
	return pendingEffect(s.task) == nil && reconciliation(s.task) == nil && info.GetHistoryLength() > attemptless
}

// view says how a task stands. It is a pure function of what Temporal shows.
func view(s *sighting) contract.TaskView {
	v := indexView(s)
	if s.open() {
		openView(&v, s)
	} else {
		closedView(&v, s)
	}
	return v
}

// indexView is what the index and the description have in common: everything
// but the phase and what hangs on it.
func indexView(s *sighting) contract.TaskView {
	info := s.task.GetWorkflowExecutionInfo()
	v := contract.TaskView{
		Task:            info.GetExecution().GetWorkflowId(),
		PayloadHash:     s.hash(),
		Intent:          memo[string](info.GetMemo(), contract.IntentMemo),
		Accepted:        moment(info.GetStartTime()),
		CancelRequested: s.task.GetWorkflowExtendedInfo().GetCancelRequested(),
	}
	v.Tenant, v.Key, _ = contract.ParseTaskID(v.Task)
	a := info.GetSearchAttributes()
	v.Operation, v.Agent = attribute(a, contract.OperationAttribute), attribute(a, contract.AgentAttribute)
	_ = v.Priority.UnmarshalText([]byte(attribute(a, contract.PriorityAttribute))) // unreadable: normal
	if s.past != nil && v.Operation == "" {
		in := s.past.input
		v.Operation, v.Agent, v.Priority = in.Operation, in.Agent, in.Priority
		if v.PayloadHash == "" {
			v.PayloadHash = in.Hash
		}
	}
	if !s.open() {
		v.Ended = moment(info.GetCloseTime())
	}
	return v
}

// openView reads the phase of a running task off its pending activity or its
// pending reconciliation.
//
//	effect scheduled, or started without a beat   leased
//	last beat claimed                             claimed
//	last beat dispatching or responded            dispatched
//	reconciliation open                           reconciling or unknown, as its memo says
//	a question to a person is open                accepted, waiting on approval
//	an end that no worker has noticed             the phase before it
//	otherwise                                     accepted
func openView(v *contract.TaskView, s *sighting) {
	if effect := pendingEffect(s.task); effect != nil {
		beat, started := beatOf(effect)
		setPhase(v, phaseOf(beat, started))
		v.Attempts = 1
		if beat != nil {
			v.Attempts, v.Worker = beat.Attempt, beat.Worker
		} else if started {
			v.Worker = effect.GetLastWorkerIdentity()
		}
		return
	}
	if child := reconciliation(s.task); child != nil {
		_, _, v.Attempts, _ = contract.ParseReconcileID(child.GetWorkflowId())
		setPhase(v, contract.PhaseReconciling)
		stand := memo[contract.Stand](s.child.GetWorkflowExecutionInfo().GetMemo(), contract.StandMemo)
		if stand.Version == 0 {
			return // it has not run yet
		}
		v.Reconciliation = &stand
		v.ErrorClass, v.Detail, _ = strings.Cut(stand.Reason, ": ")
		v.NextStep = nextStep(*v, stand)
		setPhase(v, stand.Phase)
		return
	}
	setPhase(v, contract.PhaseAccepted)
	if asksPerson(s) {
		approvalView(v, s)
		return
	}
	if attribute(s.task.GetWorkflowExecutionInfo().GetSearchAttributes(), contract.PhaseAttribute) == string(contract.PhaseLeased) {
		setPhase(v, contract.PhaseLeased) // granted; a worker will take notice
	}
	if past := s.past; past != nil {
		v.Attempts = len(past.attempts)
		if past.unnoticed && v.Attempts > 0 {
			v.Retries = past.retries(v.Attempts - 1)
			var phase contract.Phase
			phase, v.Detail = past.unnoticedPhase()
			setPhase(v, phase)
			return
		}
		v.Retries = past.retries(v.Attempts)
	}
}

func phaseOf(beat *contract.Beat, started bool) contract.Phase {
	if !started || beat == nil {
		return contract.PhaseLeased
	}
	switch beat.Step {
	case admission.StepClaimed:
		return contract.PhaseClaimed
	case admission.StepDispatching, admission.StepResponded:
		return contract.PhaseDispatched
	}
	return contract.PhaseLeased
}

// closedView takes the result that the task left, or concludes one for a task
// that was ended from outside.
func closedView(v *contract.TaskView, s *sighting) {
	result, told := resultOf(s.end)
	if !told {
		result = conclude(s)
	}
	v.Result, v.Available, v.Reference = result.Result, result.Available, result.Reference
	v.ErrorClass, v.Detail = result.Reason, result.Detail
	v.Attempts, v.Retries, v.Evidence = result.Attempts, result.Retries, result.Evidence
	setPhase(v, result.Phase)
	if result.Phase == contract.PhaseRejected && result.RetryAfter <= 0 {
		v.NextAction = contract.NextDoNotRetry
	}
}

// resultOf reads a task's own result from the event that ended it.
func resultOf(e *historypb.HistoryEvent) (contract.TaskResult, bool) {
	var r contract.TaskResult
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		ok := decode(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &r)
		return r, ok && r.Phase != ""
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		kind, details := applicationFailure(e.GetWorkflowExecutionFailedEventAttributes().GetFailure())
		switch kind {
		case contract.FailedError, contract.ExpiredError, contract.RejectedError:
			ok := decode(details, &r)
			return r, ok && r.Phase != ""
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		ok := decode(e.GetWorkflowExecutionCanceledEventAttributes().GetDetails(), &r)
		return r, ok && r.Phase != ""
	}
	return r, false
}

// conclude says what is known of a task that left no result: it was terminated,
// it timed out, or it failed outside of Headgate's rules. It is FAILED only when
// no attempt can have reached the provider; otherwise UNKNOWN, since nothing is
// there any more that could find out.
func conclude(s *sighting) contract.TaskResult {
	r := contract.TaskResult{Phase: contract.PhaseFailed, Reason: "terminated"}
	how := "ended from outside"
	switch s.end.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		a := s.end.GetWorkflowExecutionTerminatedEventAttributes()
		how = join("terminated by "+a.GetIdentity(), a.GetReason())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		r.Reason, how = "timed_out", "the workflow reached a time limit"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		f := s.end.GetWorkflowExecutionFailedEventAttributes().GetFailure()
		r.Reason, how = "workflow_failed", join("the workflow failed", firstLine(f.GetMessage()))
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		r.Phase, r.Reason, how = contract.PhaseCancelled, "cancelled", "cancelled"
	}
	past := s.past
	if past == nil {
		r.Phase, r.Detail = contract.PhaseUnknown, how+"; its history cannot be read"
		return r
	}
	if effect := pendingEffect(s.task); effect != nil {
		past.withBeat(beatOf(effect))
	}
	r.Attempts, r.Retries = len(past.attempts), past.retries(len(past.attempts)-1)
	if !past.mayHaveActed() {
		r.Detail = how + "; no attempt had reached the provider"
		return r
	}
	r.Phase = contract.PhaseUnknown
	r.Detail = how + "; an attempt may have reached the provider, and nothing is left that finds out"
	if o := past.last().answer(); o != nil {
		e := contract.Evidence{Kind: contract.EvidenceResponse, Finding: contract.Inconclusive, At: o.Ended, Actor: o.Worker,
			Reference: o.Reference, Status: o.Status, Detail: o.Reason, Result: o.Result}
		if pinned := past.input.Pinned; o.Class == admission.Succeeded && (pinned == nil || !pinned.Verifies()) {
			e.Finding = contract.Happened
			r.Detail += "; the last answer of its worker says that it happened"
		}
		r.Evidence = []contract.Evidence{e}
	}
	return r
}

func setPhase(v *contract.TaskView, phase contract.Phase) {
	v.Phase, v.NextAction = phase, contract.NextAction(phase)
	v.DeliveryState, v.ExecutionState = phase.States()
}

// pendingEffect finds the attempt that is open; nil for none.
func pendingEffect(d *workflowservice.DescribeWorkflowExecutionResponse) *workflowpb.PendingActivityInfo {
	for _, a := range d.GetPendingActivities() {
		if a.GetActivityType().GetName() == contract.EffectActivity {
			return a
		}
	}
	return nil
}

// beatOf reads the last beat of an attempt, and whether a worker has it.
func beatOf(a *workflowpb.PendingActivityInfo) (*contract.Beat, bool) {
	if a == nil {
		return nil, false
	}
	var beat contract.Beat
	state := a.GetState()
	started := state == enumspb.PENDING_ACTIVITY_STATE_STARTED || state == enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED ||
		state == enumspb.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED
	if !started || !decode(a.GetHeartbeatDetails(), &beat) {
		return nil, started
	}
	return &beat, true
}

// reconciliation finds the reconciliation that is open; nil for none.
func reconciliation(d *workflowservice.DescribeWorkflowExecutionResponse) *workflowpb.PendingChildExecutionInfo {
	for _, c := range d.GetPendingChildren() {
		if _, _, _, ok := contract.ParseReconcileID(c.GetWorkflowId()); ok {
			return c
		}
	}
	return nil
}

func moment(t *timestamppb.Timestamp) *time.Time {
	if !t.IsValid() {
		return nil
	}
	at := t.AsTime()
	return &at
}
