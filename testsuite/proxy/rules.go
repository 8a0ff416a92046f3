package proxy

import (
	"encoding/json"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"headgate/admission"
	"headgate/contract"
)

// Beat is the rule for the heartbeat of a task's effect with one step.
func Beat(when When, tenant, key string, step admission.Step) Rule {
	want := contract.ProviderKey(tenant, key)
	return On(when, func(r *workflowservice.RecordActivityTaskHeartbeatRequest) bool {
		var beat contract.Beat
		return first(r.GetDetails(), &beat) && beat.Step == step && beat.ProviderKey == want
	})
}

// Completed is the rule for a worker's report that an effect has returned.
func Completed(when When) Rule {
	return On(when, func(r *workflowservice.RespondActivityTaskCompletedRequest) bool {
		var outcome contract.Outcome
		return first(r.GetResult(), &outcome) && outcome.Class != ""
	})
}

// Start is the rule for the start of a workflow.
func Start(when When, workflow string) Rule {
	return On(when, func(r *workflowservice.StartWorkflowExecutionRequest) bool {
		return r.GetWorkflowId() == workflow
	})
}

// Update is the rule for an update by name, such as contract.AdmitUpdate.
func Update(when When, name string) Rule {
	return On(when, func(r *workflowservice.UpdateWorkflowExecutionRequest) bool {
		return r.GetRequest().GetInput().GetName() == name
	})
}

// ActivityPoll is the rule for a worker that asks a task queue for activities:
// from then on it can be given one.
func ActivityPoll(when When, queue string) Rule {
	return On(when, func(r *workflowservice.PollActivityTaskQueueRequest) bool {
		return r.GetTaskQueue().GetName() == queue
	})
}

// WorkflowPoll is the rule for a worker that asks a task queue for workflow tasks.
func WorkflowPoll(when When, queue string) Rule {
	return On(when, func(r *workflowservice.PollWorkflowTaskQueueRequest) bool {
		return r.GetTaskQueue().GetName() == queue
	})
}

// first decodes the first of the payloads, as the SDK's default converter wrote it.
func first(payloads *common.Payloads, to any) bool {
	all := payloads.GetPayloads()
	return len(all) > 0 && json.Unmarshal(all[0].GetData(), to) == nil
}
