package main

import (
	"cmp"
	"context"
	"net"
	"os"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"headgate/config"
	"headgate/starter/console"
	"headgate/starter/gateway"
)

func newGatewayCommand() *cobra.Command {
	var p process
	var address, ui string
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Run the HTTP door and the operators' console",
		Long: `Gateway answers the HTTP API, and the operators' pages under /console. It keeps no
state: any number of gateways can run side by side. Stop it with SIGTERM; open
requests get a few seconds.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			checked, err := p.load()
			if err != nil {
				return err
			}
			log, err := p.logger(c.ErrOrStderr())
			if err != nil {
				return err
			}
			listener, err := listen("--listen", cmp.Or(address, checked.Gateway.Listen))
			if err != nil {
				return err
			}
			defer func() { _ = listener.Close() }()
			ctx, stop := untilSignal(c.Context())
			defer stop()
			temporal, err := p.connect(ctx, log)
			if err != nil {
				return err
			}
			defer temporal.Close()
			return p.serveGateway(ctx, listener, temporal, checked, cmp.Or(ui, checked.Temporal.UI), log)
		},
	}
	p.flags(c, "info")
	c.Flags().StringVar(&address, "listen", "", "host:port (default: gateway.listen of the configuration)")
	c.Flags().StringVar(&ui, "temporal-ui", "", "base URL of the Temporal Web UI, for links (default: temporal.ui of the configuration; none: no links)")
	return c
}

// serveGateway answers until the context ends. The console links to the Web UI,
// if one is known.
func (p *process) serveGateway(ctx context.Context, listener net.Listener, temporal client.Client, checked *config.Config, ui string, log *zap.Logger) error {
	g := gateway.New(gateway.Options{Client: temporal, Operations: checked, Policy: checked.Budget, People: checked.People, Log: log})
	api := g.Handler()
	pages, err := console.New(console.Options{API: api, People: checked.People, UI: ui,
		Namespace: cmp.Or(p.namespace, os.Getenv("TEMPORAL_NAMESPACE")), Log: log})
	if err != nil {
		return withStatus(exitUsage, "--temporal-ui: %w", err)
	}
	log.Info("gateway answers", zap.String("address", listener.Addr().String()))
	return gateway.Serve(ctx, listener, console.Front(api, pages.Handler()), log)
}
