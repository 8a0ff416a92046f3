package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"headgate/testsuite/drill"
)

// newDrillCommand rehearses failures on this machine, with processes, data and
// ports of its own.
func newDrillCommand() *cobra.Command {
	var o drill.Options
	var all, asJSON bool
	var only []string
	c := &cobra.Command{
		Use:   "drill",
		Short: "Rehearse the failures that Headgate survives, on this machine",
		Long: `Drill starts a Headgate of its own (Temporal, provider, gateway, workers), kills
and pauses its processes at proved points, and counts at the provider what really
happened. The result is a table of state transitions; the exit status is not zero
when a task did not end as it must. Nothing outside a temporary folder is touched.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(c.Context())
			defer stop()
			var err error
			if o.Cases, err = drill.Select(drill.Cases(), all, only); err != nil {
				return withStatus(exitUsage, "%w", err)
			}
			if o.Binaries, err = drillBinaries(); err != nil {
				return err
			}
			o.Progress = c.ErrOrStderr()
			report, err := drill.Run(ctx, o)
			if err != nil && !errors.Is(err, drill.ErrDiffers) {
				return err
			}
			write := report.Table
			if asJSON {
				write = report.JSON
			}
			return errors.Join(write(c.OutOrStdout()), err)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "play every case, not only the short drill")
	c.Flags().StringSliceVar(&only, "only", nil, "play these cases, such as A4,A9")
	c.Flags().BoolVar(&asJSON, "json", false, "write the report as JSON")
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave data and logs behind")
	return c
}

// drillBinaries are this program and the embedded server.
func drillBinaries() (drill.Binaries, error) {
	self, err := os.Executable()
	if err != nil {
		return drill.Binaries{}, fmt.Errorf("finding this program: %w", err)
	}
	server, embedded, err := serverProgram()
	if err == nil && !embedded {
		err = withStatus(exitUsage, `the drill needs the embedded Temporal server: "make build" puts headgate-server beside headgate`)
	}
	return drill.Binaries{Headgate: self, Server: server}, err
}
