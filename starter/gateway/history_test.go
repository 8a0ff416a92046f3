package gateway

import (
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"headgate/admission"
	"headgate/contract"
)

// openTask is how Temporal describes a task that was started just now.
func openTask(in contract.TaskInput) *workflowservice.DescribeWorkflowExecutionResponse {
	id := contract.TaskID(in.Tenant, in.Key)
	memo := &commonpb.Memo{Fields: map[string]*commonpb.Payload{}}
	if in.Ticket != nil {
		memo.Fields[contract.TicketMemo], memo.Fields[contract.HashMemo] = payload(in.Ticket.ID), payload(in.Hash)
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run-1"},
			Status:    enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
			StartTime: timestamppb.New(start),
			Memo:      memo,
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
				contract.TenantAttribute: payload(in.Tenant), contract.OperationAttribute: payload(in.Operation),
				contract.PriorityAttribute: payload(in.Priority.String()), contract.PhaseAttribute: payload("accepted"),
			}},
			HistoryLength: 4,
		},
		WorkflowExtendedInfo: &workflowpb.WorkflowExecutionExtendedInfo{},
	}
}

func acmeInput() contract.TaskInput {
	return contract.TaskInput{Tenant: "acme", Key: "inv-42", Operation: "charge_card", Priority: admission.High,
		Hash: "sha256:aa", Ticket: &contract.Ticket{ID: "ticket-1"}}
}

func closedTask(status enumspb.WorkflowExecutionStatus) *workflowservice.DescribeWorkflowExecutionResponse {
	d := openTask(acmeInput())
	d.WorkflowExecutionInfo.Status = status
	d.WorkflowExecutionInfo.CloseTime = timestamppb.New(start.Add(time.Minute))
	return d
}

func withEffect(d *workflowservice.DescribeWorkflowExecutionResponse, state enumspb.PendingActivityState, beat *contract.Beat) *workflowservice.DescribeWorkflowExecutionResponse {
	a := &workflowpb.PendingActivityInfo{ActivityType: &commonpb.ActivityType{Name: contract.EffectActivity}, State: state, LastWorkerIdentity: "worker-1"}
	if beat != nil {
		a.HeartbeatDetails = payloads(*beat)
	}
	d.PendingActivities = append(d.PendingActivities, a)
	return d
}

func withChild(d *workflowservice.DescribeWorkflowExecutionResponse, attempt int) *workflowservice.DescribeWorkflowExecutionResponse {
	d.PendingChildren = append(d.PendingChildren, &workflowpb.PendingChildExecutionInfo{
		WorkflowId: contract.ReconcileID("acme", "inv-42", attempt), RunId: "child-run", WorkflowTypeName: contract.ReconcileWorkflow})
	return d
}

func childOf(stand *contract.Stand) *workflowservice.DescribeWorkflowExecutionResponse {
	memo := &commonpb.Memo{Fields: map[string]*commonpb.Payload{}}
	if stand != nil {
		memo.Fields[contract.StandMemo] = payload(*stand)
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: contract.ReconcileID("acme", "inv-42", 1)}, Memo: memo}}
}

// script writes a history: each step is one event, a second after the one before.
type script struct {
	events []*historypb.HistoryEvent
}

func (s *script) add(kind enumspb.EventType, fill func(e *historypb.HistoryEvent)) int64 {
	id := int64(len(s.events) + 1)
	e := &historypb.HistoryEvent{EventId: id, EventType: kind, EventTime: timestamppb.New(start.Add(time.Duration(id-1) * time.Second))}
	fill(e)
	s.events = append(s.events, e)
	return id
}

func (s *script) start(in contract.TaskInput) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
			Input: payloads(in), Identity: "gateway@host"}}
	})
}

func (s *script) noticed() {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowTaskCompletedEventAttributes{WorkflowTaskCompletedEventAttributes: &historypb.WorkflowTaskCompletedEventAttributes{}}
	})
}

func (s *script) signal(name string, v any) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{
			SignalName: name, Input: payloads(v)}}
	})
}

func (s *script) marker(activity string, result ...any) {
	s.add(enumspb.EVENT_TYPE_MARKER_RECORDED, func(e *historypb.HistoryEvent) {
		details := map[string]*commonpb.Payloads{"data": payloads(map[string]any{"ActivityID": "1", "ActivityType": activity})}
		if len(result) > 0 {
			details["result"] = payloads(result...)
		}
		e.Attributes = &historypb.HistoryEvent_MarkerRecordedEventAttributes{MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{
			MarkerName: "LocalActivity", Details: details}}
	})
}

func (s *script) schedule(activity string, in any) int64 {
	return s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{
			ActivityType: &commonpb.ActivityType{Name: activity}, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.EffectsQueue("http")}, Input: payloads(in)}}
	})
}

func (s *script) effect(attempt int) int64 {
	return s.schedule(contract.EffectActivity, contract.EffectInput{Tenant: "acme", Key: "inv-42", Attempt: attempt})
}

func (s *script) begin(scheduled int64, worker string) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{
			ScheduledEventId: scheduled, Identity: worker}}
	})
}

func (s *script) complete(scheduled int64, result any) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{
			ScheduledEventId: scheduled, Result: payloads(result)}}
	})
}

func (s *script) timeout(scheduled int64, kind enumspb.TimeoutType, beat *contract.Beat) {
	info := &failurepb.TimeoutFailureInfo{TimeoutType: kind}
	if beat != nil {
		info.LastHeartbeatDetails = payloads(*beat)
	}
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes{ActivityTaskTimedOutEventAttributes: &historypb.ActivityTaskTimedOutEventAttributes{
			ScheduledEventId: scheduled, Failure: &failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: info}}}}
	})
}

func (s *script) reconcile(attempt int) {
	id := contract.ReconcileID("acme", "inv-42", attempt)
	s.add(enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_StartChildWorkflowExecutionInitiatedEventAttributes{StartChildWorkflowExecutionInitiatedEventAttributes: &historypb.StartChildWorkflowExecutionInitiatedEventAttributes{
			WorkflowId: id, WorkflowType: &commonpb.WorkflowType{Name: contract.ReconcileWorkflow}}}
	})
	s.add(enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionStartedEventAttributes{ChildWorkflowExecutionStartedEventAttributes: &historypb.ChildWorkflowExecutionStartedEventAttributes{
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "child-run"}}}
	})
}

func (s *script) reconciled(attempt int, r contract.ReconcileResult) {
	s.add(enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ChildWorkflowExecutionCompletedEventAttributes{ChildWorkflowExecutionCompletedEventAttributes: &historypb.ChildWorkflowExecutionCompletedEventAttributes{
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.ReconcileID("acme", "inv-42", attempt)}, Result: payloads(r)}}
	})
}

func (s *script) resolution(word contract.Resolution) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
			AcceptedRequest: &updatepb.Request{Input: &updatepb.Input{Name: contract.ResolveUpdate, Args: payloads(word)}}}}
	})
}

func (s *script) cancelRequest(who string) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCancelRequestedEventAttributes{WorkflowExecutionCancelRequestedEventAttributes: &historypb.WorkflowExecutionCancelRequestedEventAttributes{
			Identity: who}}
	})
}

func (s *script) succeed(r contract.TaskResult) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{Result: payloads(r)}}
	})
}

func (s *script) fail(kind string, details ...any) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, func(e *historypb.HistoryEvent) {
		info := &failurepb.ApplicationFailureInfo{Type: kind}
		if len(details) > 0 {
			info.Details = payloads(details...)
		}
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{
			Failure: &failurepb.Failure{Message: "it broke\nstack", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: info}}}}
	})
}

func (s *script) cancel(details ...any) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, func(e *historypb.HistoryEvent) {
		a := &historypb.WorkflowExecutionCanceledEventAttributes{}
		if len(details) > 0 {
			a.Details = payloads(details...)
		}
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCanceledEventAttributes{WorkflowExecutionCanceledEventAttributes: a}
	})
}

func (s *script) terminate(who, why string) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{
			Identity: who, Reason: why}}
	})
}

func (s *script) last() *historypb.HistoryEvent { return s.events[len(s.events)-1] }
