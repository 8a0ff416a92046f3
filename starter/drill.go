package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

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
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			var err error
			if o.Cases, err = drill.Select(drill.Cases(), all, only); err != nil {
				return err
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

// drillBinaries are this program and the server beside it.
func drillBinaries() (drill.Binaries, error) {
	self, err := os.Executable()
	if err != nil {
		return drill.Binaries{}, err
	}
	server := cmp.Or(os.Getenv("HEADGATE_SERVER_BIN"), filepath.Join(filepath.Dir(self), "headgate-server"))
	if _, err := os.Stat(server); err != nil {
		return drill.Binaries{}, fmt.Errorf("the embedded Temporal server is missing: build it with `make build`, or name it in HEADGATE_SERVER_BIN: %w", err)
	}
	return drill.Binaries{Headgate: self, Server: server}, nil
}
