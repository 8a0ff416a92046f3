package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The bare side, as a user of Temporal writes it: a workflow with one activity
// that makes the call, with the default retries.

const (
	bareWorkflow = "Charge"
	bareActivity = "PostCharge"
)

// bareInput is one call.
type bareInput struct {
	URL  string `json:"url"`
	Key  string `json:"key"`
	Body []byte `json:"body"`
}

func charge(ctx workflow.Context, in bareInput) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 15 * time.Minute})
	var answer string
	err := workflow.ExecuteActivity(ctx, bareActivity, in).Get(ctx, &answer)
	return answer, err
}

func postCharge(ctx context.Context, in bareInput) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, in.URL, bytes.NewReader(in.Body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", in.Key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("the provider answered %d", answer.StatusCode)
	}
	return string(text), err
}

// quiet keeps what the SDK says about every activity out of the way.
var quiet = slog.New(slog.DiscardHandler)

// RunBare runs bare workers until ctx ends: one for each queue, each with so many
// slots for activities (zero: the SDK's default). The arguments are what a Run
// puts behind Options.Bare: the server's address, the slots, the queues.
func RunBare(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("bare worker: want an address, the slots, and queues")
	}
	slots, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("bare worker: slots: %w", err)
	}
	c, err := client.DialContext(ctx, client.Options{HostPort: args[0], Logger: log.NewStructuredLogger(quiet)})
	if err != nil {
		return fmt.Errorf("bare worker: %w", err)
	}
	defer c.Close()
	for _, queue := range args[2:] {
		w := worker.New(c, queue, worker.Options{MaxConcurrentActivityExecutionSize: slots})
		w.RegisterWorkflowWithOptions(charge, workflow.RegisterOptions{Name: bareWorkflow})
		w.RegisterActivityWithOptions(postCharge, activity.RegisterOptions{Name: bareActivity})
		if err := w.Start(); err != nil {
			return fmt.Errorf("bare worker on %s: %w", queue, err)
		}
		defer w.Stop()
	}
	<-ctx.Done()
	return nil
}

// bare starts workflows as users do, and waits for them.
type bare struct {
	*world
	queue func(o order) string
	// fair gives each tenant a fairness key of its own.
	fair bool
}

func (s bare) name() string { return "bare" }

func (s bare) id(o order) string { return "bare/" + o.tenant + "/" + o.key }

func (s bare) witness(o order) string { return s.id(o) }

func (s bare) start(ctx context.Context, o order) (func(ctx context.Context) error, error) {
	options := client.StartWorkflowOptions{ID: s.id(o), TaskQueue: s.queue(o),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}
	if s.fair {
		options.Priority = temporal.Priority{FairnessKey: o.tenant, FairnessWeight: float32(max(1, o.weight))}
	}
	run, err := s.temporal.ExecuteWorkflow(ctx, options, bareWorkflow,
		bareInput{URL: s.provider.URL + "/charges", Key: s.witness(o), Body: payload(o.tenant, s.witness(o))})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.id(o), err)
	}
	return func(ctx context.Context) error { return run.Get(ctx, nil) }, nil
}

// waiting tells whether the task's activity is scheduled.
func (s bare) waiting(ctx context.Context, o order) (bool, error) {
	seen, err := s.describe(ctx, s.id(o), "")
	return len(seen.GetPendingActivities()) > 0, err
}

func (s bare) events(ctx context.Context, o order) (int64, error) {
	return s.length(ctx, s.id(o), "")
}

// bareWorker starts a process of bare workers, which is there until stop.
func (b *bench) bareWorker(ctx context.Context, w *world, slots int, queues ...string) (stop func(), err error) {
	args := slices.Concat(b.Bare[1:], []string{w.address, strconv.Itoa(slots)}, queues)
	if err := w.launch("bare", b.Bare[0], args...); err != nil {
		return nil, err
	}
	stop = func() { w.end("bare") }
	for _, queue := range queues {
		one := order{tenant: "first", key: b.phase(), lane: plenty}
		limited, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the bare worker does nothing"))
		err := run(limited, bare{world: w, queue: func(order) string { return queue }}, one)
		cancel()
		if err != nil {
			err = errors.Join(err, w.lost(), errors.New(w.logs(10)))
			stop()
			return nil, err
		}
	}
	return stop, nil
}
