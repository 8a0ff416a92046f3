package main

import (
	"errors"

	"github.com/spf13/cobra"

	"headgate/testsuite/chaos"
)

// newChaosCommand puts a Headgate of its own under random fire.
func newChaosCommand() *cobra.Command {
	var o chaos.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Put a Headgate of its own under random kills and faults, on this machine",
		Long: `Chaos starts a Headgate of its own (Temporal, provider, two gateways, two control
workers, two workers for effects), sends it tasks of every replay class, and kills
and stops its processes while the provider misbehaves. In the end it compares what
Headgate says of every task with the provider's own ledger. All chance comes from
the seed. The exit status is not zero when a promise was broken: a task lost, an
effect made twice, a wrong end, a lease left, a dead worker's task classified too
late. Nothing outside a temporary folder is touched.`,
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
			o.Progress = c.ErrOrStderr()
			report, err := chaos.Run(ctx, o)
			if err != nil && !errors.Is(err, chaos.ErrViolated) {
				return err
			}
			write := report.Table
			if asJSON {
				write = report.JSON
			}
			return errors.Join(write(c.OutOrStdout()), err)
		},
	}
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "where all chance comes from")
	c.Flags().IntVar(&o.Tasks, "tasks", 0, "tasks to send (default 60)")
	c.Flags().IntVar(&o.Faults, "faults", 0, "faults to plan, a third of them kills and stops (default: one for 12 tasks, at least 8)")
	c.Flags().IntVar(&o.Callers, "callers", 0, "callers at one time (default: one for 8 tasks, 4 to 16)")
	c.Flags().DurationVar(&o.Limit, "limit", 0, "give up after so long (default 15m)")
	c.Flags().BoolVar(&asJSON, "json", false, "write the report as JSON")
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave data and logs behind")
	return c
}
