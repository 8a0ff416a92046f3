package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"headgate/admission"
	"headgate/contract"
)

// Task is one requested operation, from admission to an outcome that is known.
// It succeeds with a TaskResult; failed, expired and rejected tasks fail with
// an application error of that type, cancelled ones are cancelled, each with a
// TaskResult in the details.
func Task(ctx workflow.Context, in contract.TaskInput) (contract.TaskResult, error) {
	t := &task{
		in:        in,
		attempt:   1,
		decisions: workflow.GetSignalChannel(ctx, contract.DecisionSignal),
		evidence:  workflow.GetSignalChannel(ctx, contract.EvidenceSignal),
		unknown:   workflow.GetSignalChannel(ctx, contract.UnknownSignal),
		stops:     workflow.GetSignalChannel(ctx, contract.StopSignal),
		approved:  workflow.NewBufferedChannel(ctx, 1),
	}
	// Before anything else, so that no decision comes to a task that does not know
	// the word.
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.ApproveUpdate, t.approve,
		workflow.UpdateHandlerOptions{Validator: t.validateApproval}); err != nil {
		return contract.TaskResult{}, err
	}
	// 1. What is asked for: pinned by the gateway, or resolved here.
	if refused := t.resolve(ctx); refused != "" {
		return t.end(ctx, contract.PhaseRejected, "invalid_request", refused)
	}
	// An intent is kept for its task until the ticket lapses.
	if in.Intent != "" && !t.ticketGood(ctx) {
		t.withdraw(ctx)
		return t.end(ctx, contract.PhaseFailed, reasonIntentLapsed, "it was started too late: another task may have its intent")
	}
	// 2. Ask the budget, unless the gateway did and the ticket is good.
	lease := t.ticket(ctx)
	if lease == nil && !t.ticketGood(ctx) {
		// A task that a gateway has promised is taken even when the queue is full.
		t.request(ctx, nil, in.Ticket == nil)
	}
	// 3. A person decides, where the operation says so.
	if t.op.Approval != nil {
		if lease != nil { // of a budget of an earlier build, which does not hold
			t.withdraw(ctx)
			lease = nil
		}
		if ended := t.awaitApproval(ctx); ended != nil {
			return t.end(ctx, ended.phase, ended.reason, ended.detail)
		}
	}
	for {
		// 4. Wait for the lease of this attempt.
		if lease == nil {
			var ended *ending
			if lease, ended = t.awaitLease(ctx); ended != nil {
				return t.end(ctx, ended.phase, ended.reason, ended.detail)
			}
		}
		// 5. One attempt.
		outcome := t.effect(ctx, *lease)
		lease = nil
		if outcome.StoodInVain() { // the budget decides anew
			t.stoodInVain(ctx, outcome)
			continue
		}
		// 6. The lease goes back, with what is known.
		t.release(ctx, outcome)
		// 7. Decide: done, again, or find out.
		ended, wait := t.decide(ctx, outcome)
		if ended != nil {
			return t.end(ctx, ended.phase, ended.reason, ended.detail)
		}
		// 8. A further attempt waits in the budget like everybody else.
		t.next(ctx, wait)
	}
}

// next asks for a further attempt.
func (t *task) next(ctx workflow.Context, wait time.Duration) {
	t.attempt++
	at := workflow.Now(ctx).Add(wait)
	if t.noted || t.in.Logic < contract.LogicQuietGrant {
		t.note(ctx, contract.PhaseAccepted)
	}
	t.request(ctx, &at, false)
}

type task struct {
	in        contract.TaskInput
	op        contract.Operation
	attempt   int
	leases    int       // attempts that were made
	counted   int       // attempts that count against the operation's limit
	sent      bool      // an attempt has reached the provider
	firstSent time.Time // of the provider key
	began     time.Time // the first lease
	claimed   time.Time // the first claim that is known; for metrics only
	noted     bool      // the phase attribute says more than accepted
	stopped   bool      // the budget asked that this attempt be not dispatched
	standing  bool      // the attempt has, or had, an announced lease only
	disproved []int     // attempts whose absence was proven
	doubted   bool      // the budget counts the task as one in doubt
	unproven  *unproven // the latest attempt that was replayed and may have had its effect
	asked     bool      // the budget was asked for this attempt, which has not begun
	version   int       // of the last reconciliation
	result    contract.TaskResult
	missed    []contract.LateEvidence // that a reconciliation could not be told any more
	calledOff int                     // the latest attempt that the provider has cancelled

	decisions workflow.ReceiveChannel
	evidence  workflow.ReceiveChannel
	unknown   workflow.ReceiveChannel
	stops     workflow.ReceiveChannel
	asking    asking
	approved  workflow.Channel // a person has decided
}

func (t *task) id() string { return contract.TaskID(t.in.Tenant, t.in.Key) }

// ending is a final transition.
type ending struct {
	phase          contract.Phase
	reason, detail string
}

// resolve pins the operation. It gives a text if the input is refused.
func (t *task) resolve(ctx workflow.Context) string {
	if id := workflow.GetInfo(ctx).WorkflowExecution.ID; id != t.id() {
		return fmt.Sprintf("the workflow ID is %q: want %q for this tenant and key", id, t.id())
	}
	if t.in.Pinned != nil {
		t.op = *t.in.Pinned
		return ""
	}
	t.index(ctx)
	var r contract.Resolved
	dctx, _ := workflow.NewDisconnectedContext(ctx)
	lctx := workflow.WithLocalActivityOptions(dctx, controlOptions())
	if err := workflow.ExecuteLocalActivity(lctx, contract.ResolveActivity, t.in).Get(ctx, &r); err != nil {
		return err.Error()
	}
	if r.Refused != "" {
		return r.Refused
	}
	t.op, t.in.Payload, t.in.Hash = *r.Operation, r.Payload, r.Hash
	t.in.Logic = max(t.in.Logic, r.Logic)
	return ""
}

// index sets the search attributes that a gateway sets at the start, if they
// are names at all.
func (t *task) index(ctx workflow.Context) {
	if contract.CheckName("tenant", t.in.Tenant) != nil || contract.CheckName("operation", t.in.Operation) != nil ||
		t.in.Agent != "" && contract.CheckName("agent", t.in.Agent) != nil {
		return
	}
	updates := []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(contract.TenantAttribute).ValueSet(t.in.Tenant),
		temporal.NewSearchAttributeKeyKeyword(contract.OperationAttribute).ValueSet(t.in.Operation),
		temporal.NewSearchAttributeKeyKeyword(contract.PriorityAttribute).ValueSet(t.in.Priority.String()),
		phaseAttribute.ValueSet(string(contract.PhaseAccepted)),
	}
	if t.in.Agent != "" {
		updates = append(updates, temporal.NewSearchAttributeKeyKeyword(contract.AgentAttribute).ValueSet(t.in.Agent))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not set", "error", err)
	}
}

// note sets the phase attribute, by which tasks are listed.
func (t *task) note(ctx workflow.Context, phase contract.Phase) {
	setPhase(ctx, phase)
	t.noted = phase != contract.PhaseAccepted
}

// ticketGood: a ticket is valid for a workflow that was started in time. The
// start is on the server's clock, as the budget's is.
func (t *task) ticketGood(ctx workflow.Context) bool {
	return t.in.Ticket != nil && !workflow.GetInfo(ctx).WorkflowStartTime.After(t.in.Ticket.StartBy)
}

func (t *task) ticket(ctx workflow.Context) *admission.Lease {
	good := t.ticketGood(ctx)
	t.noted = t.in.Ticket != nil && (t.in.Ticket.Lease != nil || !good && t.in.Logic < contract.LogicQuietGrant)
	if !good {
		return nil
	}
	t.asked = t.in.Ticket.Lease == nil
	return t.in.Ticket.Lease
}

func (t *task) request(ctx workflow.Context, notBefore *time.Time, admit bool) {
	r := t.in.AdmissionRequest(t.op, t.in.Hash, t.attempt, notBefore)
	if t.stopped && t.standing && !t.sent { // it was called back before its turn came
		since := workflow.GetInfo(ctx).WorkflowStartTime
		r.Since = &since
	}
	t.local(ctx, contract.RequestActivity, contract.RequestInput{Budget: t.in.BudgetName(), Request: contract.AttemptRequest{Request: r, Admit: admit}})
	t.asked = true
}

// release reports an attempt, unless its worker has.
func (t *task) release(ctx workflow.Context, o contract.Outcome) {
	if o.Released {
		return
	}
	r := o.Report(t.in.Tenant, t.in.Key, t.attempt)
	r.Doubt = t.op.Doubts && o.Class == admission.Unknown
	if o.Lost {
		r.Grace = t.op.Heartbeat
	}
	t.report(ctx, r)
}

func (t *task) report(ctx workflow.Context, r admission.Report) {
	t.local(ctx, contract.ReportActivity, contract.ReportInput{Budget: t.in.BudgetName(), Report: r})
}

// settled tells the budget that the task is no longer in doubt.
func (t *task) settled(ctx workflow.Context) {
	if !t.doubted {
		return
	}
	t.doubted = false
	t.local(ctx, contract.SettleActivity, contract.ReportInput{Budget: t.in.BudgetName(), Report: admission.Report{
		Task: t.id(), Attempt: t.attempt, Kind: admission.Resolved}})
}

// requestApproved asks for the first attempt, which the budget has held so far.
func (t *task) requestApproved(ctx workflow.Context) {
	r := t.in.AdmissionRequest(t.op, t.in.Hash, t.attempt, nil)
	r.Hold, r.HoldOn = false, ""
	t.local(ctx, contract.RequestActivity, contract.RequestInput{Budget: t.in.BudgetName(), Request: contract.AttemptRequest{Request: r}})
}

func (t *task) withdraw(ctx workflow.Context) {
	t.report(ctx, admission.Report{Task: t.id(), Attempt: t.attempt, Kind: admission.Withdrawn})
}

// stoodInVain ends an attempt that stood by for a place and did not get it: it was
// none. If the one ahead goes on, the budget has to hear that nobody waits for it.
func (t *task) stoodInVain(ctx workflow.Context, o contract.Outcome) {
	t.leases--
	t.asked = true
	if o.Reason == contract.StandbyLate {
		t.report(ctx, admission.Report{Task: t.id(), Attempt: t.attempt, Kind: admission.Declined})
	}
	if t.noted {
		t.note(ctx, contract.PhaseAccepted)
	}
}

// local sends a message to the budget. It is sent even by a cancelled task. If
// the server could not be reached for a day the budget's own audit is left to
// bring the lease back.
func (t *task) local(ctx workflow.Context, activity string, in any) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	lctx := workflow.WithLocalActivityOptions(ctx, controlOptions())
	if err := workflow.ExecuteLocalActivity(lctx, activity, in).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("message to the budget lost", "activity", activity, "attempt", t.attempt, "error", err)
	}
}

// awaitLease waits for the decision about this attempt, for late evidence about
// an earlier one, or for a cancel request.
func (t *task) awaitLease(ctx workflow.Context) (*admission.Lease, *ending) {
	for {
		var decision *contract.Decision
		var late *contract.LateEvidence
		s := workflow.NewSelector(ctx)
		s.AddReceive(t.decisions, func(c workflow.ReceiveChannel, _ bool) {
			decision = &contract.Decision{}
			c.Receive(ctx, decision)
		})
		s.AddReceive(t.evidence, func(c workflow.ReceiveChannel, _ bool) {
			late = &contract.LateEvidence{}
			c.Receive(ctx, late)
		})
		s.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
		s.Select(ctx)
		if late == nil && (decision == nil || decision.Attempt == t.attempt) {
			asked := t.attempt
			if ended := t.heard(ctx); ended != nil {
				t.withdraw(ctx)
				return nil, ended
			}
			if t.attempt != asked {
				continue // that attempt was given up meanwhile
			}
		}
		switch {
		case decision != nil && decision.Attempt != t.attempt: // of an older attempt
		case decision != nil && decision.Lease != nil:
			return decision.Lease, nil
		case decision != nil:
			return nil, t.refused(*decision)
		case late != nil:
			if ended := t.takeLate(ctx, *late); ended != nil {
				t.withdraw(ctx)
				return nil, ended
			}
		case ctx.Err() != nil:
			t.withdraw(ctx)
			return nil, &ending{contract.PhaseCancelled, "cancelled", "cancelled while it waited"}
		}
	}
}

// refused is a decision without a lease. A task that was sent before has not
// expired: what is known of it is that no attempt had an effect.
func (t *task) refused(d contract.Decision) *ending {
	t.result.RetryAfter = d.RetryAfter
	switch {
	case d.Reason == admission.Superseded && !t.sent:
		return &ending{contract.PhaseCancelled, string(d.Reason), d.Detail}
	case t.sent || d.Reason != admission.Expired && (t.counted > 0 || t.in.Ticket != nil):
		// It was accepted, so it cannot be rejected any more; it has had no effect.
		return &ending{contract.PhaseFailed, string(d.Reason), d.Detail}
	case d.Reason == admission.Expired:
		return &ending{contract.PhaseExpired, string(d.Reason), d.Detail}
	}
	return &ending{contract.PhaseRejected, string(d.Reason), d.Detail}
}

// takeLate keeps a fenced worker's answer about an earlier attempt. If it says
// that the effect happened, no further attempt is made.
func (t *task) takeLate(ctx workflow.Context, late contract.LateEvidence) *ending {
	if late.Callback != nil {
		return t.called(ctx, *late.Callback)
	}
	e := evidenceOf(contract.EvidenceLate, late.Outcome, workflow.Now(ctx))
	t.result.Evidence = append(t.result.Evidence, e)
	if e.Finding != contract.Happened || late.Attempt <= t.calledOff {
		return nil
	}
	if t.op.Verifies() {
		return t.verifyLate(ctx, late.Outcome)
	}
	t.disagreed(ctx, late.Attempt, e)
	t.hadEffect(late.Attempt)
	t.succeed(late.Outcome)
	return &ending{phase: contract.PhaseSucceeded}
}

func (t *task) succeed(o contract.Outcome) {
	t.result.Result, t.result.Reference = o.Result, o.Reference
	t.result.Available = len(o.Result) > 0
}

// end closes the task. It is the only way out.
func (t *task) end(ctx workflow.Context, phase contract.Phase, reason, detail string) (contract.TaskResult, error) {
	if t.in.Logic >= contract.LogicProvenEnd && phase != contract.PhaseSucceeded {
		e := t.prove(ctx, ending{phase, reason, detail})
		phase, reason, detail = e.phase, e.reason, e.detail
	}
	if known := t.leftovers(ctx, phase); known != phase {
		phase, reason, detail = known, "", ""
	}
	t.result.Phase, t.result.Reason, t.result.Detail = phase, reason, detail
	t.result.Attempts = t.leases
	t.measureEnd(ctx)
	t.settled(ctx)
	if phase == contract.PhaseExpired || phase == contract.PhaseRejected {
		setPhase(ctx, phase) // of the other ends, Temporal's own status tells
	}
	fail := func(kind string) error {
		return temporal.NewApplicationErrorWithOptions(message(t.result), kind,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{t.result}})
	}
	switch phase {
	case contract.PhaseSucceeded:
		return t.result, nil
	case contract.PhaseCancelled:
		return contract.TaskResult{}, temporal.NewCanceledError(t.result)
	case contract.PhaseExpired:
		return contract.TaskResult{}, fail(contract.ExpiredError)
	case contract.PhaseRejected:
		return contract.TaskResult{}, fail(contract.RejectedError)
	}
	return contract.TaskResult{}, fail(contract.FailedError)
}

func message(r contract.TaskResult) string {
	if r.Detail == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Detail
}
