package main

import (
	"errors"

	"github.com/spf13/cobra"

	"headgate/testsuite/bench"
)

// newBenchCommand measures Headgate beside the bare workflow on this machine, with
// processes, data and ports of its own.
func newBenchCommand() *cobra.Command {
	var o bench.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure Headgate beside a bare Temporal workflow, on this machine",
		Long: `Bench starts a Headgate of its own (Temporal, provider, gateway, workers) and
measures it in turn with a workflow that makes the same calls without Headgate, on
the same server. It takes about twenty minutes on two processors; nothing else
should run meanwhile. The raw pairs of each figure show the noise. The exit status
is not zero when a part could not be measured; it says nothing about speed.
Nothing outside a temporary folder is touched.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(c.Context())
			defer stop()
			err := o.Validate()
			if err != nil {
				return withStatus(exitUsage, "%w", err)
			}
			if o.Binaries, err = drillBinaries(); err != nil {
				return err
			}
			o.Bare = []string{o.Binaries.Headgate, c.Name(), bareWorkerName}
			o.Progress = c.ErrOrStderr()
			report, err := bench.Run(ctx, o)
			if err != nil && !errors.Is(err, bench.ErrIncomplete) {
				return err
			}
			write := report.Table
			if asJSON {
				write = report.JSON
			}
			return errors.Join(write(c.OutOrStdout()), err)
		},
	}
	c.Flags().StringSliceVar(&o.Only, "only", nil, "measure these parts, such as queued,handoff")
	c.Flags().IntVar(&o.Pairs, "pairs", 0, "pairs of each measurement (default 5)")
	c.Flags().BoolVar(&o.Quick, "quick", false, "try that everything works, in under a minute; the figures are worth little")
	c.Flags().BoolVar(&asJSON, "json", false, "write the figures as JSON, with the raw pairs")
	c.Flags().IntVar(&o.Callers, "callers", 0, "callers at one time, where capacity is free (default 32)")
	c.Flags().IntVar(&o.Flood, "flood", 0, "queued tasks of the noisy neighbour (default 3000)")
	c.Flags().IntVar(&o.Queued, "queued", 0, "length of the queue whose weight is measured (default 10000)")
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave data and logs behind")
	c.AddCommand(newBareWorkerCommand())
	return c
}

const bareWorkerName = "bare-worker"

// newBareWorkerCommand is the other side's worker, a process of its own.
func newBareWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bareWorkerName + " ADDRESS SLOTS QUEUE...",
		Short:  "Run the bare workflow's worker",
		Hidden: true,
		Args:   cobra.MinimumNArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := untilSignal(c.Context())
			defer stop()
			return bench.RunBare(ctx, args)
		},
	}
}
