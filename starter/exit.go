package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"headgate/contract"
)

// Exit statuses. They are part of the command's contract; exitHelp explains them.
const (
	exitDone        = 0
	exitInternal    = 1
	exitUsage       = 2
	exitLater       = 3
	exitRefused     = 4
	exitNotFound    = 5
	exitUnreachable = 6
	exitEnded       = 7
	exitUnknown     = 8
	exitNotEnded    = 9
	exitFound       = 10
)

const exitHelp = `The exit status of every command:

  0  done; with --wait: the task SUCCEEDED
  1  something went wrong in the command itself
  2  the command was used wrongly
  3  refused for now: try again later, with the same key
  4  refused for good, or in conflict with how things stand: do not just retry
  5  no such task
  6  nothing answers: the gateway, or Temporal, cannot be reached
  7  with --wait: the task ended FAILED, EXPIRED, CANCELLED or REJECTED
  8  with --wait: the outcome is UNKNOWN; a person must say what happened;
     audit: nothing was found, but not everything could be asked
  9  with --wait: the time was up before the task had ended
 10  audit: something was found

Nothing is lost by 3, 6 and 9: the same request with the same key finds out.
`

// newExitCodesTopic is "headgate help exit-codes".
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit statuses mean", Long: exitHelp}
}

// statusError is an error with an exit status of its own. An empty text prints
// nothing: the output has said it.
type statusError struct {
	status int
	text   string
	cause  error
}

func (e *statusError) Error() string { return e.text }
func (e *statusError) Unwrap() error { return e.cause }

func withStatus(status int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &statusError{status: status, text: err.Error(), cause: errors.Unwrap(err)}
}

// commandError marks what a command returned.
type commandError struct{ error }

func (e *commandError) Unwrap() error { return e.error }

// exitStatus prints an error and gives its status.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	status, hint := exitUsage, true
	if own := (*commandError)(nil); errors.As(err, &own) {
		status, hint, err = exitInternal, false, own.error
	}
	if special := (*statusError)(nil); errors.As(err, &special) {
		status = special.status
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(stderr, "headgate: %s\n", text)
	}
	if hint {
		fmt.Fprintln(stderr, `See "headgate help" or add --help to the command.`)
	}
	return status
}

// phaseStatus is the exit status of a task that was waited for.
func phaseStatus(phase contract.Phase) int {
	switch phase {
	case contract.PhaseSucceeded:
		return exitDone
	case contract.PhaseFailed, contract.PhaseExpired, contract.PhaseCancelled, contract.PhaseRejected:
		return exitEnded
	case contract.PhaseUnknown:
		return exitUnknown
	}
	return exitNotEnded
}
