package main

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"headgate/config"
	"headgate/starter/gateway"
)

func newGatewayCommand() *cobra.Command {
	var p process
	var address string
	var o doorFlags
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Run the HTTP door",
		Long: `Gateway answers the HTTP API. It keeps no state: any number of gateways can run
side by side. Stop it with SIGTERM; open requests get a few seconds.`,
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
			keys, err := o.keys(checked, log)
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
			return serveGateway(ctx, listener, temporal, checked, keys, log)
		},
	}
	p.flags(c, "info")
	o.flags(c)
	c.Flags().StringVar(&address, "listen", "", "host:port (default: gateway.listen of the configuration)")
	return c
}

// doorFlags are for processes that run a gateway.
type doorFlags struct {
	apiKeys string // file; empty: the configuration decides
}

func (o *doorFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.apiKeys, "api-keys", "", "`FILE` of API keys (default: gateway.api_keys of the configuration; none: no key is asked for)")
}

// keys reads the file of API keys; nil if there is none.
func (o *doorFlags) keys(checked *config.Config, log *zap.Logger) (*gateway.Keys, error) {
	file := cmp.Or(o.apiKeys, checked.Gateway.APIKeys)
	if file == "" {
		return nil, nil
	}
	keys, err := gateway.OpenKeys(file, log)
	if err != nil {
		return nil, withStatus(exitUsage, "--api-keys: %w", err)
	}
	return keys, nil
}

// keysLook is how often a changed file of API keys is noticed without SIGHUP.
const keysLook = time.Second

// serveGateway answers until the context ends.
func serveGateway(ctx context.Context, listener net.Listener, temporal client.Client, checked *config.Config, keys *gateway.Keys, log *zap.Logger) error {
	var aside sync.WaitGroup
	defer aside.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	switch {
	case keys != nil:
		hup, forget := onHangup()
		defer forget()
		aside.Go(func() { keys.Watch(ctx, keysLook, hup) })
	case !onlyHere(listener.Addr()):
		log.Warn("everybody who reaches this address may do everything: give the gateway API keys (--api-keys)", zap.String("address", listener.Addr().String()))
	}
	g := gateway.New(gateway.Options{Client: temporal, Operations: checked, Policy: checked.Budget, People: checked.People, Keys: keys, Log: log})
	log.Info("gateway answers", zap.String("address", listener.Addr().String()))
	return gateway.Serve(ctx, listener, g.Handler(), log)
}

// onlyHere tells whether only this machine reaches an address.
func onlyHere(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
