package gateway

import (
	"fmt"
	"strings"

	"headgate/admission"
	"headgate/contract"
)

// sentence says in one sentence where a task stands, why, and what comes next.
func sentence(v contract.TaskView, past *story) string {
	if strings.HasSuffix(v.Detail, unnoticed) {
		return fmt.Sprintf("Attempt %d was last noted as %s: %s (if none is running: headgate worker --role control).", v.Attempts, v.Phase, v.Detail)
	}
	switch v.Phase {
	case contract.PhaseSucceeded:
		return succeededSentence(v) + " " + attemptsText(v) + "."
	case contract.PhaseFailed:
		return "It FAILED: " + reasonText(v) + "; " + attemptsText(v) + " and no effect is outstanding."
	case contract.PhaseExpired:
		if v.ErrorClass != "" && v.ErrorClass != string(admission.Expired) {
			return "It EXPIRED: " + reasonText(v) + "."
		}
		return "It EXPIRED: its deadline passed before anything was dispatched, so it had no effect."
	case contract.PhaseRejected:
		return "It was REJECTED: " + reasonText(v) + "; it had no effect."
	case contract.PhaseCancelled:
		return "It was CANCELLED before it had an effect: " + reasonText(v) + "."
	case contract.PhaseUnknown:
		return unknownSentence(v, past)
	case contract.PhaseReconciling:
		return fmt.Sprintf("It is being RECONCILED: the outcome of attempt %d is not known (%s), and %s; it is not sent again before that is settled.",
			v.Attempts, reasonText(v), probesText(v.Reconciliation)) + heldText(past)
	case contract.PhaseDispatched:
		return fmt.Sprintf("Attempt %d is DISPATCHED: worker %s made its checkpoint and the effect may be happening now.", v.Attempts, v.Worker)
	case contract.PhaseClaimed:
		return fmt.Sprintf("Attempt %d is CLAIMED by worker %s, which prepares it; nothing has been sent yet.", v.Attempts, v.Worker)
	case contract.PhaseLeased:
		return "It holds a LEASE and waits for a worker; nothing has been sent yet. If this lasts, is a worker for its type running?"
	}
	return waitingSentence(v, past)
}

func succeededSentence(v contract.TaskView) string {
	how := "the provider answered"
	if n := len(v.Evidence); n > 0 {
		last := v.Evidence[n-1]
		switch last.Kind {
		case contract.EvidenceLookup:
			how = "no answer was seen, but a look-up found that it happened"
			if n > 1 && v.Evidence[n-2].Kind == contract.EvidenceResponse {
				how = "the provider accepted it, and a look-up found that it happened"
			}
		case contract.EvidenceCallback:
			how = "the provider itself said later that it happened"
		case contract.EvidenceCancel:
			how = "no answer was seen, but it was too late to cancel it: the provider said that it happened"
		case contract.EvidencePerson:
			how = "no answer was seen, but " + last.Actor + " knows that it happened (" + firstLine(last.Detail) + ")"
		case contract.EvidenceLate:
			how = "the answer of a fenced worker came late"
		case contract.EvidenceResponse:
			how = "its worker was lost after the answer, which its last beat held"
		case contract.EvidenceReplay:
			how = "it was sent again with the same key and the provider answered"
		}
	}
	text := "It SUCCEEDED: " + how
	if v.Reference != "" {
		text += ", reference " + v.Reference
	}
	if !v.Available {
		text += "; the provider's answer itself is lost or was empty"
	}
	return text + ";"
}

func unknownSentence(v contract.TaskView, past *story) string {
	if v.Ended != nil {
		return "Its outcome is UNKNOWN for good: " + reasonText(v) + ". Ask the provider; only if it did not happen, send it again with a new key."
	}
	text := fmt.Sprintf("Its outcome is UNKNOWN: attempt %d may have had its effect (%s)", v.Attempts, reasonText(v))
	if v.Reconciliation != nil {
		text += fmt.Sprintf(", %s; a person must say what happened (headgate resolve, version %d)", probesText(v.Reconciliation), v.Reconciliation.Version)
	}
	return text + "." + heldText(past)
}

// heldText says what an open task in doubt holds, and what is safe to do.
func heldText(past *story) string {
	if past == nil || past.input.Pinned == nil || !past.input.Pinned.Doubts {
		return ""
	}
	return " Its slots are free, what it reserved of interval resources stays charged, and it counts against the unknown_ceiling of " +
		past.input.Operation + "; do not send it again under another key."
}

func waitingSentence(v contract.TaskView, past *story) string {
	if v.Approval != nil {
		return "It is ACCEPTED and waits for an approval until " + clock(v.Approval.Expires) + "; nothing has been sent, and it holds no capacity (headgate approvals)."
	}
	if past == nil || len(past.attempts) == 0 {
		return "It is ACCEPTED and waits for its turn in the budget; nothing has been sent (headgate why tells what it waits on)."
	}
	last := past.last()
	text := fmt.Sprintf("It waits in the budget for attempt %d, because attempt %d ended with %s", last.n+1, last.n, past.cause(last))
	switch {
	case last.verdict == contract.VerdictReplay:
		return text + "; the provider deduplicates the repetition."
	case last.class == admission.Unknown && last.verdict == "":
		return text + "; its effect is still in doubt."
	}
	return text + "; nothing has had an effect."
}

func reasonText(v contract.TaskView) string {
	if text := because(v.Phase, v.ErrorClass, v.Detail); text != "" {
		return text
	}
	return "no reason was recorded"
}

func attemptsText(v contract.TaskView) string {
	text := fmt.Sprintf("%d attempts were made", v.Attempts)
	switch v.Attempts {
	case 0:
		return "no attempt was made"
	case 1:
		return "1 attempt was made"
	}
	var why []string
	for _, c := range v.Retries {
		why = append(why, fmt.Sprintf("%s (%d)", c.Class, c.N))
	}
	if len(why) > 0 {
		text += ", repeated because of " + strings.Join(why, ", ")
	}
	return text
}

func probesText(s *contract.Stand) string {
	switch {
	case s == nil:
		return "the look-ups are about to begin"
	case s.Probes == 0 && s.NextProbe != nil:
		return "the first look-up is due at " + clock(*s.NextProbe)
	case s.Probes == 0:
		return "there is no way to look it up"
	}
	text := fmt.Sprintf("%d look-ups did not settle it", s.Probes)
	if s.Probes == 1 {
		text = "1 look-up did not settle it"
	}
	if s.NextProbe != nil {
		text += ", the next is due at " + clock(*s.NextProbe)
	}
	return text
}
