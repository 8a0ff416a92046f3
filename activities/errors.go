package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"headgate/admission"
	"headgate/contract"
)

// Types of the errors that activities return, beside those of contract.
const (
	// UnreachableError tells that a budget could not be signalled: it does not
	// exist yet, or the server did not take the signal. Trying again is right.
	UnreachableError = "budget_unreachable"
	// FencedError is what an attempt returns that has lost its claim.
	FencedError = "fenced"
)

// unreachable is retryable: a budget is started by the control worker, and a
// signal limit goes away when the budget continues as new.
func unreachable(budget string, cause error) error {
	return temporal.NewApplicationErrorWithCause(fmt.Sprintf("signal budget %q", budget), UnreachableError, cause)
}

// invalid is not retryable: the message itself is wrong.
func invalid(what string, cause error) error {
	return temporal.NewNonRetryableApplicationError(what, contract.InvalidError, cause)
}

// fenced is not retryable, since another attempt is the workflow's business, and
// benign, since it is no fault of the worker's.
func fenced() error {
	return temporal.NewApplicationErrorWithOptions("the attempt has lost its claim", FencedError,
		temporal.ApplicationErrorOptions{NonRetryable: true, Category: temporal.ApplicationErrorCategoryBenign})
}

// Refusal is an error of Type.Prepare that says what the attempt's outcome is.
// Any other error of Prepare means not dispatched, so that a retry may help.
type Refusal struct {
	Class  admission.Class
	Reason string
	Detail string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%s (%s): %s", r.Class, r.Reason, r.Detail)
}

// Why an attempt may not dispatch (any more). Each is the reason of an outcome.
var (
	errFenced    = errors.New("fenced")          // another attempt or nobody holds the claim, or the server cannot be asked
	errCancelled = errors.New("cancelled")       // the workflow asked for it
	errStopping  = errors.New("worker_stopping") // the worker is told to stop
	errNoTime    = errors.New("not_enough_time") // the attempt ends before the effect could
	errTooLate   = errors.New("send_by_passed")  // the first byte would leave after the send-by time
	errMissed    = errors.New(contract.StandbyMissed)
	errLate      = errors.New(contract.StandbyLate)
	errSent      = errors.New("already_sent")      // one attempt, one effect
	errDeadline  = errors.New("deadline_passed")   // the task's own deadline
	errHash      = errors.New("payload_hash")      // the payload is not the one that was accepted
	errPanic     = errors.New("panic")             // a type panicked
	errPrepare   = errors.New("prepare_failed")    // the type could not prepare
	errType      = errors.New("unknown_type")      // this worker has no such type
	errOperation = errors.New("invalid_operation") // the declaration cannot work
	errAddress   = errors.New("address_refused")   // the provider's address is not allowed to this worker
)

// known tells that the error is one of the above, so that its text is a reason. An
// address that is refused is told by a Refusal (see unreached).
func known(err error) bool {
	for _, e := range []error{errFenced, errCancelled, errStopping, errMissed, errLate, errNoTime, errTooLate, errSent,
		errDeadline, errHash, errPanic, errPrepare, errType, errOperation} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// whyDone reads the cause of a context's end.
func whyDone(ctx context.Context) error {
	cause := context.Cause(ctx)
	var cancelled *temporal.CanceledError
	switch {
	case known(cause):
		return cause
	case errors.As(cause, &cancelled):
		return errCancelled
	case errors.Is(cause, worker.ErrWorkerShutdown), errors.Is(cause, context.Canceled):
		return errStopping
	case errors.Is(cause, context.DeadlineExceeded):
		return errNoTime
	}
	return errFenced
}

// answer is what the server said to a beat.
type answer int

const (
	acknowledged answer = iota
	stopAsked           // stored, but the attempt shall not dispatch: cancel, pause or reset
	claimLost           // not stored: the attempt is over
	noAnswer            // may or may not be stored
)

// beatAnswer reads the result of the client's RecordActivityHeartbeat.
func beatAnswer(err error) (answer, error) {
	var cancelled *temporal.CanceledError
	switch {
	case err == nil:
		return acknowledged, nil
	case errors.As(err, &cancelled):
		return stopAsked, errCancelled
	case errors.Is(err, activity.ErrActivityPaused), errors.Is(err, activity.ErrActivityReset):
		return stopAsked, errFenced
	case gone(err):
		return claimLost, errFenced
	}
	return noAnswer, errFenced
}

// gone tells that no open workflow or activity has this ID.
func gone(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}
