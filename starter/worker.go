package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"headgate/workers"
)

// drainTime is what running effects get when a worker stops.
const drainTime = 30 * time.Second

func newWorkerCommand() *cobra.Command {
	var p process
	var roles []string
	var slots int
	var rate float64
	var pages browserFlags
	var metricsAddress string
	c := &cobra.Command{
		Use:   "worker --role ROLE...",
		Short: "Run a worker",
		Long: `Worker runs workflows (role control) or effects (a role for each type of them:
http, browser, model), each from a task queue of its own. At SIGTERM it takes nothing
new and lets what runs come to its end; at the second signal it stops at once, and
what was dispatched is looked up.

A control worker starts the budget if there is none. A running budget keeps its
limits, and a difference to the configuration is logged, unless --apply is given.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, role := range roles {
				if !slices.Contains(workers.Roles(), role) {
					return withStatus(exitUsage, "--role %q: want one of %v", role, workers.Roles())
				}
			}
			checked, err := p.load()
			if err != nil {
				return err
			}
			browser, err := pages.options()
			if err != nil {
				return err
			}
			log, err := p.logger(c.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(c.Context())
			defer stop()
			watch, err := newWatch(ctx, "headgate-worker", log)
			if err != nil {
				return err
			}
			defer watch.close()
			if metricsAddress != "" {
				shown, err := showMetrics(ctx, watch.metrics, metricsAddress, log)
				if err != nil {
					return err
				}
				defer shown()
			}
			temporal, err := p.connect(ctx, watch, log)
			if err != nil {
				return err
			}
			defer temporal.Close()
			return p.work(ctx, workers.Options{
				Client: temporal, Config: checked, Roles: roles, Log: log, Slots: slots, RatePerSecond: rate,
				Build: buildID(), StopTimeout: drainTime, Browser: browser,
			})
		},
	}
	p.flags(c, "info")
	p.controlFlags(c)
	pages.flags(c)
	c.Flags().StringSliceVar(&roles, "role", nil, fmt.Sprintf("one of %v; may be given more than once (required)", workers.Roles()))
	c.Flags().IntVar(&slots, "slots", 0, "effects of each role at one time, at most what the budget leases (default: the worker's own)")
	c.Flags().Float64Var(&rate, "rate", 0, "most effects started a second, of each queue over all workers (default: no limit)")
	c.Flags().StringVar(&metricsAddress, "metrics", "", "host:port that shows this worker's metrics, at /metrics (default: none)")
	_ = c.MarkFlagRequired("role") // the flag is there
	return c
}

// showMetrics serves a worker's metrics until done is called: also while it drains,
// which is when somebody wants to see them.
func showMetrics(ctx context.Context, metrics *workers.Metrics, address string, log *zap.Logger) (done func(), err error) {
	listener, err := listen("--metrics", address)
	if err != nil {
		return nil, err
	}
	log.Info("metrics are shown", zap.String("address", listener.Addr().String()), zap.String("path", workers.MetricsPath))
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := metrics.Serve(ctx, listener); err != nil {
			log.Error("metrics are shown no more", zap.Error(err))
		}
	}()
	return func() { stop(); <-ended }, nil
}
