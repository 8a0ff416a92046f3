package main

import (
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"headgate/contract"
	"headgate/starter/gateway"
	"headgate/starter/tools"
)

func newMCPCommand() *cobra.Command {
	var d door
	var o tools.Options
	var address string
	c := &cobra.Command{
		Use:   "mcp --tenant TENANT",
		Short: "Offer the gateway to an agent as tools (Model Context Protocol)",
		Long: `Mcp offers tools to an agent over the Model Context Protocol: list_operations,
submit_task, get_task, wait_for_task, cancel_task. It speaks on standard input and
output, for a host that starts it, or with --listen over streamable HTTP at /mcp. There
the API key is the one that each request brings; on standard input it is the command's.

No tool approves, resolves, pauses or freezes: that is for people.`,
		Example: `  headgate mcp --tenant acme --agent billing-1
  headgate mcp --tenant acme --listen 127.0.0.1:7281`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := contract.CheckName("tenant", o.Tenant); err != nil {
				return withStatus(exitUsage, "--tenant: %w", err)
			}
			if o.Agent != "" {
				if err := contract.CheckName("agent", o.Agent); err != nil {
					return withStatus(exitUsage, "--agent: %w", err)
				}
			}
			var err error
			if o.Client, err = d.client(); err != nil {
				return err
			}
			o.Version = buildID()
			ctx, stop := untilSignal(c.Context())
			defer stop()
			if address == "" {
				err := tools.NewServer(o).Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(c.InOrStdin()), Writer: lasting{c.OutOrStdout()}})
				if ctx.Err() != nil || errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			log, err := (&process{level: "info"}).logger(c.ErrOrStderr())
			if err != nil {
				return err
			}
			listener, err := listen("--listen", address)
			if err != nil {
				return err
			}
			mux := http.NewServeMux()
			mux.Handle("/mcp", tools.Handler(o))
			log.Info("tools are offered at http://" + listener.Addr().String() + "/mcp")
			return gateway.Serve(ctx, listener, mux, log)
		},
	}
	d.connection(c)
	c.Flags().StringVar(&o.Tenant, "tenant", "", "who the work is for (required)")
	c.Flags().StringVar(&o.Agent, "agent", "", "which of the tenant's agents asks")
	c.Flags().StringVar(&address, "listen", "", "host:port for streamable HTTP (default: standard input and output)")
	_ = c.MarkFlagRequired("tenant") // the flag is there
	return c
}

// lasting is a writer that is not ours to close.
type lasting struct{ io.Writer }

func (lasting) Close() error { return nil }
