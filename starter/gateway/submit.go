package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"headgate/admission"
	api "headgate/client"
	"headgate/contract"
)

// startTimeout bounds what follows an admission, whether or not the client is
// still there.
const startTimeout = 10 * time.Second

// replayedHeader marks an answer about a task that was there before.
const replayedHeader = "Idempotent-Replayed"

// submit is POST /v1/tasks.
func (g *Gateway) submit(w http.ResponseWriter, r *http.Request) error {
	// 1. What is asked, in one form and with one hash.
	in, err := readSubmit(w, r)
	if err != nil {
		return rejected(err)
	}

	// 2. A key that has a task is answered from the task: no limit, no new rule
	// of the configuration can turn an accepted request down.
	if known, err := g.lookUp(r.Context(), in); err != nil {
		return err
	} else if known != nil {
		return g.replay(w, r.Context(), in, known)
	}

	// 3. The operation as it is declared now.
	resolved, wrong := g.operations.ResolveE(in, g.now())
	if wrong != nil {
		return rejected(resolveProblem(wrong))
	}
	in.Payload, in.Pinned = resolved.Payload, resolved.Operation
	if in.Intent != "" && in.Pinned.Intent.Same != contract.SameAllow {
		earlier, err := g.meet(r.Context(), in)
		if err != nil {
			return rejected(err)
		}
		if earlier != nil {
			return sameIntent(w, in, in.Pinned.Intent.Same, earlier)
		}
	}

	// 4. The budget decides, or has just decided about another one like it. From
	// here on the request is carried to its end, even if the client leaves: a
	// ticket is used, handed back or left to lapse.
	request := in.AdmissionRequest(*resolved.Operation, in.Hash, 1, nil)
	if verdict, told := g.memory.recall(g.now(), request); told {
		return rejected(verdictProblem(verdict))
	}
	defer g.memory.carry(request.Task)()
	asked := g.now()
	verdict, err := g.admitter.admit(r.Context(), request)
	if err != nil {
		return rejected(admitProblem(err))
	}
	g.counters.decided(verdict, g.now().Sub(asked))
	g.memory.learn(g.now(), request, verdict)
	if !verdict.Accepted() {
		return rejected(verdictProblem(verdict))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), startTimeout)
	defer cancel()

	// 5. The task is started with the ticket; only then is it accepted. Its intent
	// is claimed right before.
	in.Logic = contract.LogicNewest
	in.Ticket = &contract.Ticket{ID: verdict.Ticket, StartBy: verdict.StartBy, Lease: verdict.Lease}
	if g.budget != contract.DefaultBudget {
		in.Budget = g.budget
	}
	if in.Intent != "" {
		// A ticket whose task does not get its intent is left to lapse: a request of
		// the same key may hold it too, and start the task with it.
		earlier, err := g.claim(ctx, in)
		if err != nil {
			return rejected(err)
		}
		if earlier != nil {
			return sameIntent(w, in, in.Pinned.Intent.Same, earlier)
		}
	}
	winner, err := g.start(ctx, in)
	if err != nil {
		return err
	}
	if winner != nil {
		return g.replay(w, ctx, in, winner)
	}
	w.Header().Set("Location", api.TaskPath(in.Tenant, in.Key))
	return reply(w, http.StatusAccepted, acceptedView(in, verdict, g.now()))
}

// rejected marks a problem of a submission that stored nothing.
func rejected(err error) error {
	var p *problemError
	if errors.As(err, &p) {
		p.DeliveryState = contract.DeliveryRejected
	}
	return err
}

// admitProblem words a failed admission. Nothing was started, so nothing was
// promised; a ticket that nobody heard of lapses.
func admitProblem(err error) error {
	switch {
	case errors.Is(err, errGatewayBusy):
		return refuse("gateway_busy", "%v; nothing was stored, and the same key is safe to send again", errGatewayBusy).soon()
	case errors.Is(err, context.Canceled):
		return refuse("gateway_busy", "the request was given up before the budget was asked; nothing was stored").soon()
	}
	return upstream("budget_unavailable", err)
}

// acceptedView is the answer for a task that was accepted just now.
func acceptedView(in contract.TaskInput, v admission.Verdict, now time.Time) contract.TaskView {
	phase := contract.PhaseAccepted
	if v.Lease != nil {
		phase = contract.PhaseLeased
	}
	view := contract.TaskView{
		Tenant: in.Tenant, Key: in.Key, Task: contract.TaskID(in.Tenant, in.Key), Agent: in.Agent,
		Operation: in.Operation, Priority: in.Priority, PayloadHash: in.Hash, Intent: in.Intent, Accepted: &now,
		Position: v.Position,
	}
	if in.Pinned.Approval != nil {
		ask := contract.NewApprovalStand(*in.Pinned, in.Hash, now)
		view.Approval, view.NextStep = &ask, approveStep
	}
	if v.Lease == nil && v.Reason != "" {
		view.WaitingOn = []contract.Waiting{{Reason: string(v.Reason), Resource: v.Resource, Since: &now}}
	}
	if v.Lease == nil && v.Estimate > 0 {
		at := now.Add(v.Estimate.D())
		view.EstimatedStart = &at
	}
	setPhase(&view, phase)
	return view
}

// replay answers for a task that was there before: its current state for the
// same request, a refusal that names the task for another one.
func (g *Gateway) replay(w http.ResponseWriter, ctx context.Context, in contract.TaskInput, known *sighting) error {
	first, same, err := g.sameRequest(ctx, in, known)
	if err != nil {
		return err
	}
	view, err := g.read(ctx, known)
	if err != nil {
		return err
	}
	w.Header().Set("Location", api.TaskPath(in.Tenant, in.Key))
	if !same {
		p := refuse("key_reused", "the key belongs to task %s, which was sent %s with another operation or payload (%.20s...); nothing has changed. Use a new key for a new request",
			view.Task, when(view.Accepted), first)
		p.Task = &contract.TaskView{Tenant: view.Tenant, Key: view.Key, Task: view.Task, Operation: view.Operation,
			PayloadHash: first, Accepted: view.Accepted}
		setPhase(p.Task, view.Phase)
		return rejected(p)
	}
	w.Header().Set(replayedHeader, "true")
	if view.Phase == contract.PhaseRejected {
		p := refuse("task_rejected", "the budget refused the task of this key after it had started (%s): it has had no effect. Use a new key", view.ErrorClass)
		p.Task = &view
		return rejected(p)
	}
	g.counters.decisions.WithLabelValues(decisionReplay, contract.MetricReason("")).Inc()
	return reply(w, http.StatusAccepted, view)
}

func when(t *time.Time) string {
	if t == nil {
		return "earlier"
	}
	return "at " + t.UTC().Format(time.RFC3339)
}

// giveBack returns an unused ticket. A lost message costs capacity only until
// the ticket lapses.
func (g *Gateway) giveBack(ctx context.Context, in contract.TaskInput) {
	report := contract.ReportBatch{Reports: []admission.Report{{
		Task: contract.TaskID(in.Tenant, in.Key), Attempt: 1, Ticket: in.Ticket.ID, Kind: admission.Withdrawn,
	}}}
	if err := g.client.SignalWorkflow(ctx, contract.BudgetID(g.budget), "", contract.ReportSignal, report); err != nil {
		g.log.Warn("ticket not returned, it will lapse", zap.String("tenant", in.Tenant), zap.String("key", in.Key), zap.Error(err))
	}
}
