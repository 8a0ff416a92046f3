package gateway

import (
	"context"
	"net/http"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// approveStep is what a person does about a task that waits for an approval.
const approveStep = "read what it asks (headgate approvals TENANT KEY), then approve or decline it"

// asksPerson tells whether an open task waits for an approval.
func asksPerson(s *sighting) bool {
	return s.open() && attribute(s.task.GetWorkflowExecutionInfo().GetSearchAttributes(), contract.PhaseAttribute) == contract.WaitsForApproval
}

// approvalView tells what a task asks a person. Until a worker has noted it, a
// task that was started without the gateway only says that it asks.
func approvalView(v *contract.TaskView, s *sighting) {
	on := contract.Waiting{Reason: string(admission.Approval)}
	v.NextStep = approveStep
	if ask := memo[contract.ApprovalStand](s.task.GetWorkflowExecutionInfo().GetMemo(), contract.ApprovalMemo); ask.Version > 0 {
		v.Approval, on.Since = &ask, &ask.Since
	}
	v.WaitingOn = []contract.Waiting{on}
}

// approvals is GET /v1/approvals: what waits for a person's approval.
func (g *Gateway) approvals(w http.ResponseWriter, r *http.Request) error {
	f, err := filterOf(r, r.URL.Query())
	if err != nil {
		return err
	}
	f.approval = true
	return g.page(w, r, f)
}

// approval is GET /v1/tasks/{tenant}/{key}/approval: what a person reads before a
// decision, the payload among it. It is the only answer that holds a payload.
func (g *Gateway) approval(w http.ResponseWriter, r *http.Request) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*readTimeout)
	defer cancel()
	s, view, err := g.mustFind(ctx, tenant, key)
	if err != nil {
		return err
	}
	if view.Approval == nil {
		return about(view, refuse("nothing_to_approve", "the task is %s and waits for no approval", view.Phase))
	}
	if err := g.readPast(ctx, s); err != nil {
		return upstream("temporal_unavailable", err)
	}
	answer := contract.ApprovalView{Task: view, Payload: s.past.input.Payload}
	if op := s.past.input.Pinned; op != nil && op.Approval != nil {
		answer.Rule = op.Approval.Rule
	}
	return reply(w, http.StatusOK, answer)
}

// approve is POST /v1/tasks/{tenant}/{key}/approve.
func (g *Gateway) approve(w http.ResponseWriter, r *http.Request) error {
	return g.decideApproval(w, r, contract.Approved)
}

// decline is POST /v1/tasks/{tenant}/{key}/decline: the task ends without an effect.
func (g *Gateway) decline(w http.ResponseWriter, r *http.Request) error {
	return g.decideApproval(w, r, contract.Declined)
}

func (g *Gateway) decideApproval(w http.ResponseWriter, r *http.Request, outcome string) error {
	tenant, key, err := taskOf(r)
	if err != nil {
		return err
	}
	word := contract.ApprovalDecision{Outcome: outcome}
	if err := readApproval(w, r, &word); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	s, view, err := g.mustFind(ctx, tenant, key)
	if err != nil {
		return err
	}
	if err := g.mayDecide(r, word.Actor, config.RightApprove, view); err != nil {
		return err
	}
	id, run := s.run()
	var done contract.ApprovalReply
	err = decide(ctx, g, order[contract.ApprovalDecision]{view: view, workflow: id, update: contract.ApproveUpdate, word: word, none: "nothing_to_approve",
		past: func(ctx context.Context) ([]*historypb.HistoryEvent, error) {
			return g.history(ctx, id, run, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		}}, &done)
	if err != nil {
		return err
	}
	note(r, zap.String("decision", word.ID), zap.String("verdict", done.Outcome))
	done.NextAction = contract.NextWait
	if done.Outcome == contract.Declined {
		done.NextAction = contract.NextDoNotRetry
	}
	return reply(w, http.StatusOK, done)
}

func readApproval(w http.ResponseWriter, r *http.Request, word *contract.ApprovalDecision) error {
	body, err := readBody(w, r, maxOrder)
	if err != nil {
		return err
	}
	if body == nil {
		return refuse("invalid_request", "the body is empty: want evidence, version, payload_hash and operation_digest")
	}
	err = decodeStrict(body, map[string]any{"id": &word.ID, "actor": &word.Actor, "evidence": &word.Evidence, "version": &word.Version,
		"payload_hash": &word.Hash, "operation_digest": &word.Digest})
	signOrder(r, &word.Actor)
	switch {
	case err != nil:
		return err
	case word.Actor == "":
		return refuse("invalid_request", "actor is required: who decides")
	case word.Version < 1:
		return refuse("invalid_request", "version is required: the one that the task showed (approval.version)")
	case word.Hash == "" || word.Digest == "":
		return refuse("invalid_request", "payload_hash and operation_digest are required: those that the task showed (approval)")
	}
	return checkDecision(r, &word.ID, &word.Actor, word.Evidence)
}

// asks tells that a person has to decide.
func (s *story) asks(at time.Time) {
	if op := s.input.Pinned; op != nil && op.Approval != nil {
		s.add(at, "asks", 0, "", "a person decides before "+clock(s.accepted.Add(op.Approval.Expires.D()))+"; the budget holds the task back")
	}
}

// asked tells the decision of a person in a task's story.
func (s *story) asked(request *historypb.WorkflowExecutionUpdateAcceptedEventAttributes, at time.Time) {
	var word contract.ApprovalDecision
	input := request.GetAcceptedRequest().GetInput()
	if input.GetName() == contract.ApproveUpdate && decode(input.GetArgs(), &word) {
		s.add(at, word.Outcome, 0, word.Actor, "payload "+brief(word.Hash)+": "+word.Evidence)
	}
}
