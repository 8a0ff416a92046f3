package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"headgate/testsuite/provider"
)

// newProviderCommand runs the third party that dev and the drills call.
func newProviderCommand() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:    "provider",
		Short:  "Run the sample third party, which can misbehave on demand",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(c.Context())
			defer stop()
			return provider.Serve(ctx, listen, provider.Options{}, func(url string) {
				fmt.Fprintf(c.ErrOrStderr(), "the sample third party answers at %s\n", url)
			})
		},
	}
	c.Flags().StringVar(&listen, "listen", samplePort, "address to listen on")
	return c
}
