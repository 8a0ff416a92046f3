package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"

	"headgate/admission"
	"headgate/contract"
)

// The chapters of a story: what each kind of event adds to it.

func (s *story) start(a *historypb.WorkflowExecutionStartedEventAttributes, at time.Time) {
	decode(a.GetInput(), &s.input)
	in := s.input
	s.accepted, s.waitingSince = at, at
	parts := []string{in.Operation, in.Priority.String() + " priority"}
	if in.Agent != "" {
		parts = append(parts, "agent "+in.Agent)
	}
	if in.Intent != "" {
		parts = append(parts, "intent "+in.Intent)
	}
	if in.Hash != "" {
		parts = append(parts, "payload "+brief(in.Hash))
	}
	if in.Deadline != nil {
		parts = append(parts, "deadline "+clock(*in.Deadline))
	}
	if in.Ticket == nil {
		s.add(at, "started", 0, a.GetIdentity(), strings.Join(append(parts, "without the gateway: it asks the budget itself"), ", "))
		return
	}
	s.add(at, "accepted", 0, a.GetIdentity(), strings.Join(append(parts, "ticket "+in.Ticket.ID), ", "))
	if lease := in.Ticket.Lease; lease != nil {
		s.leases = append(s.leases, lease.ID)
		s.add(at, "leased", 1, s.budget(), "lease "+lease.ID+", at once: capacity was free")
	}
	s.asks(at)
}

func (s *story) budget() string { return contract.BudgetID(s.input.BudgetName()) }

func (s *story) signal(a *historypb.WorkflowExecutionSignaledEventAttributes, at time.Time) {
	switch a.GetSignalName() {
	case contract.DecisionSignal:
		var d contract.Decision
		if decode(a.GetInput(), &d) {
			s.decided(d, at)
		}
	case contract.EvidenceSignal:
		var late contract.LateEvidence
		switch {
		case !decode(a.GetInput(), &late):
		case late.Callback != nil:
			s.add(at, "callback", s.lastNumber(), "provider", evidenceText(*late.Callback))
		default:
			s.add(at, "late_evidence", late.Attempt, late.Outcome.Worker, "a fenced worker's answer came late: "+outcomeText(late.Outcome))
		}
	case contract.StopSignal:
		var stop contract.Stop
		if decode(a.GetInput(), &stop) && !slices.Contains(s.stops, stop) {
			s.stops = append(s.stops, stop)
			why := "the operation is frozen: " + stop.Reason
			if stop.Reason == string(admission.Standby) {
				why = "it stands by for a place that it may not take any more: the budget decides anew"
			}
			s.add(at, "stop_requested", stop.Attempt, s.budget(), why)
		}
	case contract.UnknownSignal:
		s.add(at, "unknown", s.lastNumber(), "", "only evidence or a person can tell what happened")
	}
}

// decided tells a decision once: it is resent until the history holds it.
func (s *story) decided(d contract.Decision, at time.Time) {
	if d.Lease != nil {
		if !slices.Contains(s.leases, d.Lease.ID) {
			s.leases = append(s.leases, d.Lease.ID)
			if d.Lease.After != "" {
				s.add(at, "standby", d.Attempt, s.budget(), fmt.Sprintf("lease %s as soon as lease %s has ended in its worker, after waiting %s",
					d.Lease.ID, d.Lease.After, length(at.Sub(s.waitingSince))))
				return
			}
			s.add(at, "leased", d.Attempt, s.budget(), fmt.Sprintf("lease %s, after waiting %s", d.Lease.ID, length(at.Sub(s.waitingSince))))
		}
		return
	}
	if !slices.Contains(s.refusals, d.Reason) {
		s.refusals = append(s.refusals, d.Reason)
		s.add(at, "refused", d.Attempt, s.budget(), join(string(d.Reason), d.Detail))
	}
}

// localMarker is the record that the SDK keeps of a local activity.
type localMarker struct {
	ActivityType string
}

func (s *story) marker(a *historypb.MarkerRecordedEventAttributes, at time.Time) {
	var m localMarker
	if a.GetMarkerName() != "LocalActivity" || !decode(a.GetDetails()["data"], &m) {
		return
	}
	if a.GetFailure() != nil {
		s.add(at, "trouble", s.lastNumber(), "", m.ActivityType+": "+firstLine(a.GetFailure().GetMessage()))
		return
	}
	switch m.ActivityType {
	case contract.ReportActivity:
		if s.returned == len(s.leases) {
			s.add(at, "withdrawn", s.lastNumber()+1, "", "the attempt is not wanted any more: told to "+s.budget())
			return
		}
		s.returned = len(s.leases)
		s.add(at, "lease_returned", s.lastNumber(), "", "told to "+s.budget())
	case contract.SettleActivity:
		s.add(at, "doubt_ended", s.lastNumber(), "", "told to "+s.budget()+": it counts against no ceiling any more")
	case contract.RequestActivity:
		s.waitingSince = at
		if last := s.last(); last != nil {
			s.add(at, "retry", last.n+1, "", "asks the budget for another attempt, because of "+s.cause(last))
		} else {
			s.add(at, "requested", 1, "", "asks the budget for the first attempt")
		}
	case contract.ResolveActivity:
		var resolved contract.Resolved
		if decode(a.GetDetails()["result"], &resolved) && resolved.Refused == "" {
			s.input.Pinned, s.input.Hash, s.input.Payload = resolved.Operation, resolved.Hash, resolved.Payload
			s.add(at, "resolved", 0, "", "the operation's declaration is pinned, payload "+brief(resolved.Hash))
			s.asks(at)
		} else {
			s.add(at, "resolved", 0, "", join("refused", resolved.Refused))
		}
	}
}

func (s *story) cause(a *attempt) string {
	switch {
	case a.verdict == contract.VerdictDidNotHappen:
		return "the proof that attempt " + fmt.Sprint(a.n) + " had no effect"
	case a.verdict == contract.VerdictReplay:
		return "a replay that the provider deduplicates"
	case a.reason != "":
		return a.reason
	}
	return string(a.class)
}

func (s *story) lastNumber() int {
	if a := s.last(); a != nil {
		return a.n
	}
	return 0
}

func (s *story) schedule(id int64, a *historypb.ActivityTaskScheduledEventAttributes, at time.Time) {
	var in contract.EffectInput
	if !decode(a.GetInput(), &in) || in.Attempt == 0 {
		in.Attempt = len(s.attempts) + 1
	}
	// Open and without a beat, it may have acted: withBeat may know better.
	s.attempts = append(s.attempts, &attempt{n: in.Attempt, scheduled: id, open: true, standing: in.After != "", class: admission.Unknown})
	s.add(at, "scheduled", in.Attempt, "", "waits for a worker on "+a.GetTaskQueue().GetName())
}

// answered is an attempt whose worker told the outcome.
func (s *story) answered(a *attempt, o contract.Outcome, at time.Time) {
	a.outcome = &o
	s.steps(a, o.Worker, o.Build, o.Claimed, o.Dispatching, o.SendBy)
	when := at
	if !o.Ended.IsZero() {
		when = o.Ended
	}
	if o.StoodInVain() {
		s.stoodInVain(a, o.Reason, s.workerOf(a, o.Worker), when)
		return
	}
	s.finish(a, o.Class, o.Reason)
	s.add(when, "answer", a.n, s.workerOf(a, o.Worker), outcomeText(o))
	if o.Released {
		s.returned = len(s.leases)
		detail := "told to " + s.budget() + " by the worker itself"
		if o.Successor != "" {
			detail += ", handed over to lease " + o.Successor
		}
		s.add(when, "lease_returned", a.n, a.worker, detail)
	}
}

// stoodInVain tells of one that had no place: it was no attempt.
func (s *story) stoodInVain(a *attempt, reason, worker string, at time.Time) {
	s.attempts = slices.DeleteFunc(s.attempts, func(o *attempt) bool { return o == a })
	s.add(at, reason, a.n, worker, "the lease ahead was not handed over: the budget decides anew")
}

func (s *story) workerOf(a *attempt, named string) string {
	if named != "" {
		a.worker = named
	}
	return a.worker
}

// steps tells how far an attempt came, from the times that its beats carried.
func (s *story) steps(a *attempt, worker, build string, claimed, dispatching, sendBy time.Time) {
	actor := s.workerOf(a, worker)
	if !claimed.IsZero() {
		a.claimed = true
		s.add(claimed, "claimed", a.n, actor, label("build", build))
	}
	if !dispatching.IsZero() {
		detail := "durable before anything is sent"
		if !sendBy.IsZero() {
			detail += ", to be sent by " + clock(sendBy)
		}
		s.add(dispatching, "checkpoint", a.n, actor, detail)
	}
}

// lost is an attempt that ended without an answer: its last beat decides.
func (s *story) lost(a *attempt, f *failurepb.Failure, at time.Time) {
	timeout := f.GetTimeoutFailureInfo()
	if a.standing && timeout.GetTimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
		s.stoodInVain(a, contract.StandbyLate, "", at)
		return
	}
	var beat contract.Beat
	own := decode(timeout.GetLastHeartbeatDetails(), &beat)
	if own {
		a.beat = &beat
		own = beat.Attempt == a.n
	}
	class, inBeat := admission.Lost(beat.Step, own)
	reason := "worker_lost"
	switch {
	case timeout.GetTimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		reason = "no_worker"
	case class == admission.Unknown:
		reason = "no_answer"
	}
	if own {
		s.steps(a, beat.Worker, beat.Build, beat.Claimed, beat.Dispatching, beat.SendBy)
	}
	text := fmt.Sprintf("%s: ", timeoutText(timeout.GetTimeoutType()))
	switch {
	case inBeat && beat.Outcome != nil:
		class, reason = beat.Outcome.Class, beat.Outcome.Reason
		text += "the last beat holds the answer: " + outcomeText(*beat.Outcome)
	case own && beat.Step == admission.StepDispatching:
		text += "the last beat said that it was about to send, so the effect may have happened"
	case own && beat.Step == admission.StepClaimed:
		text += "the last beat said claimed, so nothing was sent"
	default:
		text += "no beat was made, so nothing was sent"
	}
	s.finish(a, class, reason)
	s.add(at, "lost", a.n, a.worker, text)
}

// failed is an attempt whose worker returned an error; its details may hold the
// outcome. Without one, nothing is known.
func (s *story) failed(a *attempt, f *failurepb.Failure, at time.Time) {
	var o contract.Outcome
	_, details := applicationFailure(f)
	if decode(details, &o) && o.Class != "" {
		s.answered(a, o, at)
		return
	}
	s.ended(a, at, admission.Unknown, "worker_error", "the worker gave an error instead of an outcome: "+firstLine(f.GetMessage()))
}

func (s *story) cancelled(a *attempt, details *commonpb.Payloads, at time.Time) {
	var o contract.Outcome
	if decode(details, &o) && o.Class != "" {
		s.answered(a, o, at)
		return
	}
	// The server cancels by itself only what no worker has taken.
	s.ended(a, at, admission.NotDispatched, "cancelled", "cancelled before anything was sent")
}

func (s *story) ended(a *attempt, at time.Time, class admission.Class, reason, text string) {
	s.finish(a, class, reason)
	s.add(at, "answer", a.n, a.worker, text)
}

func (s *story) finish(a *attempt, class admission.Class, reason string) {
	a.open, a.class, a.reason = false, class, reason
	s.unnoticed = true
	s.waitingSince = time.Time{}
}

func timeoutText(t enumspb.TimeoutType) string {
	switch t {
	case enumspb.TIMEOUT_TYPE_HEARTBEAT:
		return "the worker made no beat for the whole lease time"
	case enumspb.TIMEOUT_TYPE_START_TO_CLOSE:
		return "the attempt took too long"
	case enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return "no worker took the attempt in time"
	case enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE:
		return "the attempt did not end in time"
	}
	return "timed out"
}
