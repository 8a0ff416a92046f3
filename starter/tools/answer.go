package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"headgate/client"
	"headgate/contract"
)

// Answer is what an agent is told about one task.
type Answer struct {
	Key string `json:"key,omitempty"`
	// Delivery is ACCEPTED, REJECTED or EXPIRED; empty: it is not known whether
	// Headgate has the task.
	Delivery string `json:"delivery_state"`
	// Execution is PENDING, RUNNING, SUCCEEDED, FAILED, UNKNOWN or CANCELLED; empty:
	// there is no task, as far as is known.
	Execution  string             `json:"execution_state"`
	Phase      contract.Phase     `json:"phase,omitempty"`
	Operation  string             `json:"operation,omitempty"`
	Result     any                `json:"result,omitempty"`
	Available  bool               `json:"result_available"`
	Reference  string             `json:"reference,omitempty"` // the provider's name of the effect
	Reason     string             `json:"reason,omitempty"`
	Detail     string             `json:"detail,omitempty"`
	WaitingOn  []contract.Waiting `json:"waiting_on,omitempty"`
	RetryAfter int                `json:"retry_after_seconds,omitempty"`
	NextAction string             `json:"next_action"`
	NextStep   string             `json:"next_step"`
}

func answerOf(v contract.TaskView) Answer {
	a := Answer{Key: v.Key, Delivery: v.DeliveryState, Execution: v.ExecutionState, Phase: v.Phase, Operation: v.Operation, Available: v.Available,
		Reference: v.Reference, Reason: v.ErrorClass, Detail: v.Detail, WaitingOn: v.WaitingOn, NextAction: v.NextAction}
	if len(v.Result) > 0 {
		a.Result = v.Result
	}
	a.NextStep = nextStep(a)
	if v.Approval != nil && !v.Phase.End() {
		a.NextStep = "A person has to approve this first. Tell them, and call wait_for_task later; do not submit it under another key."
	}
	return a
}

// refusal says what an error of the client means for the task.
func refusal(key string, err error) Answer {
	var refused *client.Refusal
	var silent *client.Unreachable
	a := Answer{Key: key, NextAction: contract.NextDoNotRetry, Detail: err.Error()}
	switch {
	case errors.As(err, &refused):
		p := refused.Problem
		if p.Task != nil { // the state of the task that is there
			a = answerOf(*p.Task)
		}
		if p.DeliveryState != "" {
			a.Delivery = p.DeliveryState
		}
		a.Reason, a.Detail, a.RetryAfter, a.NextAction = p.Reason, p.Detail, p.RetryAfter, p.NextAction
	case errors.As(err, &silent):
		a.Reason, a.NextAction = "unreachable", contract.NextRetryLater
	default:
		a.Reason = "invalid_request"
	}
	a.NextStep = nextStep(a)
	return a
}

// misused answers arguments that do not fit.
func misused(err error) Answer {
	return Answer{Reason: "invalid_request", Detail: err.Error(), NextAction: contract.NextDoNotRetry,
		NextStep: "Nothing was sent. Correct the arguments and call again, with the same key."}
}

// nextStep says in words what next_action means here.
func nextStep(a Answer) string {
	switch a.NextAction {
	case contract.NextWait:
		return "It is stored, but not done yet. Call wait_for_task with this key. Do not submit it under another key."
	case contract.NextUseResult:
		if a.Available {
			return "It is done. Use the result; do not submit it again."
		}
		return "It happened, but its result was lost or is empty. Use the reference if there is one; do not submit it again."
	case contract.NextRetryLater:
		when := "after a short while"
		if a.RetryAfter > 0 {
			when = fmt.Sprintf("after %d seconds", a.RetryAfter)
		}
		if a.Delivery == contract.DeliveryRejected {
			return "Nothing was stored. Make the same call again " + when + ", with the same key."
		}
		return "It is not known how this stands. Make the same call again " + when + ", with the same key: that finds out. Do not choose another key."
	case contract.NextAskHuman:
		if a.Execution == "UNKNOWN" {
			return "Nobody knows whether the effect happened. Do not try it again under any key: it could happen twice. Tell a person, who can look at the provider and resolve it."
		}
		return "A person has to look at this. Tell them what you wanted and this answer; do not try it again under another key."
	}
	switch a.Reason {
	case "key_reused":
		return "This key belongs to another request, which is not changed. If you mean that one, call get_task; only for a different intended effect choose another key."
	case "task_not_found":
		return "There is no task with this key. If it is still wanted, call submit_task with this key."
	}
	if a.Execution == "FAILED" || a.Execution == "CANCELLED" || a.Delivery == contract.DeliveryExpired {
		return "It has ended without an effect. Do not repeat it as it is; if it is still wanted, find out why it ended first."
	}
	return "Do not repeat this call as it is: the answer will be the same. Read the detail."
}

// read decodes arguments strictly.
func read(arguments json.RawMessage, into any) error {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the arguments do not fit: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the arguments do not fit: something follows the object")
	}
	return nil
}
