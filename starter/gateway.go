package main

import (
	"cmp"
	"context"
	"net"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"headgate/config"
	"headgate/starter/gateway"
	"headgate/workers"
)

func newGatewayCommand() *cobra.Command {
	var p process
	var address string
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Run the HTTP door",
		Long: `Gateway answers the HTTP API. It keeps no state: any number of gateways can run
side by side. Stop it with SIGTERM; open requests get a few seconds. Its metrics are at
/metrics.`,
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
			metrics := workers.NewMetrics(log)
			defer metrics.Close()
			temporal, err := p.connect(ctx, metrics, log)
			if err != nil {
				return err
			}
			defer temporal.Close()
			return serveGateway(ctx, listener, temporal, checked, metrics, log)
		},
	}
	p.flags(c, "info")
	c.Flags().StringVar(&address, "listen", "", "host:port (default: gateway.listen of the configuration)")
	return c
}

// serveGateway answers until the context ends.
func serveGateway(ctx context.Context, listener net.Listener, temporal client.Client, checked *config.Config, metrics *workers.Metrics, log *zap.Logger) error {
	g := gateway.New(gateway.Options{Client: temporal, Operations: checked, Policy: checked.Budget, People: checked.People, Log: log,
		Metrics: metrics.Registry})
	log.Info("gateway answers", zap.String("address", listener.Addr().String()))
	return gateway.Serve(ctx, listener, g.Handler(), log)
}
