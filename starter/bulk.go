package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"headgate/client"
	"headgate/contract"
)

// bulk submits a file of tasks.
type bulk struct {
	file, progress string
	tenant         string
	parallel       int
	patience       time.Duration
}

func (b *bulk) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&b.file, "file", "f", "", "submit every line of `FILE`, a JSON object each, or - for standard input")
	f.StringVar(&b.progress, "progress", "", "with --file: `FILE` that keeps which lines are done (default: FILE.progress)")
	f.IntVar(&b.parallel, "parallel", 8, "with --file: requests at one time")
	f.DurationVar(&b.patience, "patience", 10*time.Minute, "with --file: give up when no line was answered for so long")
}

// tally of a run.
type bulkResult struct {
	Accepted int      `json:"accepted"`
	Before   int      `json:"done_before"` // by an earlier run
	Refused  []string `json:"refused"`     // for good, the first maxRefusals
	refusals int
}

const maxRefusals = 20

// run sends what is not done yet.
func (b *bulk) run(ctx context.Context, d *door, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if b.parallel < 1 || b.patience <= 0 {
		return withStatus(exitUsage, "--parallel %d, --patience %s: want more than 0", b.parallel, b.patience)
	}
	lines, err := b.read(stdin)
	if err != nil {
		return err
	}
	done, err := openProgress(b.progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done.close()) }()

	var open []bulkLine
	for _, l := range lines {
		if !done.has(l) {
			open = append(open, l)
		}
	}
	s := &sending{door: d, progress: done, patience: b.patience, answered: time.Now(),
		meter: newMeter(stderr, "tasks", len(lines), len(lines)-len(open)), result: bulkResult{Before: len(lines) - len(open), Refused: []string{}}}
	failed := s.all(ctx, open, b.parallel)
	s.meter.end()
	return b.report(d, s, len(open), failed, stdout, stderr)
}

func (b *bulk) read(stdin io.Reader) ([]bulkLine, error) {
	if b.file == "-" {
		return readBulk(stdin, b.tenant)
	}
	file, err := os.Open(b.file)
	if err != nil {
		return nil, withStatus(exitUsage, "--file: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if b.progress == "" {
		b.progress = b.file + ".progress"
	}
	return readBulk(file, b.tenant)
}

func (b *bulk) report(d *door, s *sending, open int, failed error, stdout, stderr io.Writer) error {
	r := s.result
	if d.json {
		if err := printJSON(stdout, r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(stdout, "%d accepted", r.Accepted)
		if r.Before > 0 {
			fmt.Fprintf(stdout, ", %d before", r.Before)
		}
		fmt.Fprintf(stdout, ", %d refused.\n", r.refusals)
	}
	for _, text := range r.Refused {
		fmt.Fprintln(stderr, text)
	}
	if r.refusals > len(r.Refused) {
		fmt.Fprintf(stderr, "... and %d more\n", r.refusals-len(r.Refused))
	}
	switch left := open - r.Accepted - r.refusals; {
	case failed != nil:
		return failed
	case left > 0:
		return withStatus(exitLater, "%d tasks are left. Run the same command again: it goes on from here, and no key is a second task.", left)
	case r.refusals > 0:
		return withStatus(exitRefused, "%d tasks were refused for good. Change their lines, then run the same command again.", r.refusals)
	}
	return nil
}

// sending is one run over the lines.
type sending struct {
	door     *door
	progress *progress
	patience time.Duration
	meter    *meter

	mu       sync.Mutex
	resume   time.Time // nothing is sent before: the gateway asked for a pause
	answered time.Time // when a line last got its final answer
	result   bulkResult
	failed   error // why the run stopped
}

// all sends the lines, a few at a time, in their order.
func (s *sending) all(ctx context.Context, lines []bulkLine, parallel int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	next := make(chan bulkLine)
	var senders sync.WaitGroup
	for range min(parallel, len(lines)) {
		senders.Go(func() {
			for l := range next {
				if err := s.one(ctx, l); err != nil {
					s.mu.Lock()
					if s.failed == nil && ctx.Err() == nil {
						s.failed = err
					}
					s.mu.Unlock()
					stop()
				}
			}
		})
	}
	for i := 0; i < len(lines) && ctx.Err() == nil; i++ {
		select {
		case next <- lines[i]:
		case <-ctx.Done():
		}
	}
	close(next)
	senders.Wait()
	return s.failed
}

// unreached is the first pause after nothing answered; it doubles up to mostUnreached.
const (
	unreached     = 500 * time.Millisecond
	mostUnreached = 15 * time.Second
)

// one sends a line, with its own key, until the answer is final. The error ends the run.
func (s *sending) one(ctx context.Context, l bulkLine) error {
	for pause := unreached; ; {
		if !s.waitForTurn(ctx) {
			return nil // it is left for another run
		}
		var view contract.TaskView
		err := s.door.call(ctx, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {client.QuoteKey(l.Key)}}, l.SubmitRequest, &view)
		var special *statusError
		switch {
		case err == nil:
			return s.answer(l, "")
		case ctx.Err() != nil:
			return nil
		case !errors.As(err, &special):
			return err
		case special.status == exitLater, special.status == exitUnreachable:
			after := pause
			if refused := (*client.Refusal)(nil); errors.As(err, &refused) && refused.Problem.RetryAfter > 0 {
				after = time.Duration(refused.Problem.RetryAfter) * time.Second
			} else {
				pause = min(2*pause, mostUnreached)
			}
			if s.hold(after) {
				return fmt.Errorf("no task was answered for %s, the last with: %w", s.patience, err)
			}
		case special.status == exitUsage, unauthorized(err): // the command itself, not the line
			return err
		default:
			return s.answer(l, err.Error())
		}
	}
}

// unauthorized tells of an API key that is not good for any line.
func unauthorized(err error) bool {
	var refused *client.Refusal
	return errors.As(err, &refused) && refused.Problem.Status == http.StatusUnauthorized
}

// waitForTurn waits until the gateway wants more; false: the run ends.
func (s *sending) waitForTurn(ctx context.Context) bool {
	for {
		s.mu.Lock()
		wait := time.Until(s.resume)
		s.mu.Unlock()
		if wait <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// hold makes all senders wait. It tells that the patience is over.
func (s *sending) hold(after time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(after); until.After(s.resume) {
		s.resume = until
	}
	s.meter.add(0, "waiting "+short(after)+", as the gateway asks")
	return time.Since(s.answered) > s.patience
}

// answer keeps the final answer of a line.
func (s *sending) answer(l bulkLine, refused string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = time.Now()
	note := ""
	if refused == "" {
		s.result.Accepted++
	} else if s.result.refusals++; len(s.result.Refused) < maxRefusals {
		s.result.Refused = append(s.result.Refused, fmt.Sprintf("line %d, key %s: %s", l.number, l.Key, refused))
	}
	if s.result.refusals > 0 {
		note = fmt.Sprintf("%d refused", s.result.refusals)
	}
	s.meter.add(1, note)
	return s.progress.keep(l, refused)
}
