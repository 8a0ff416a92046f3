package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync"
	"time"

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
	var o doorFlags
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Run the HTTP door and the operators' console",
		Long: `Gateway answers the HTTP API, and the operators' pages under /console. It keeps no
state: any number of gateways can run side by side. Stop it with SIGTERM; open
requests get a few seconds. Its metrics are at /metrics.`,
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
			at, err := o.front(checked, c.ErrOrStderr(), &p)
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
			watch, err := newWatch(ctx, "headgate-gateway", log)
			if err != nil {
				return err
			}
			defer watch.close()
			temporal, err := p.connect(ctx, watch, log)
			if err != nil {
				return err
			}
			defer temporal.Close()
			return p.serveGateway(ctx, listener, temporal, checked, at, cmp.Or(ui, checked.Temporal.UI), watch, log)
		},
	}
	p.flags(c, "info")
	o.flags(c)
	o.tlsFlags(c)
	c.Flags().StringVar(&address, "listen", "", "host:port (default: gateway.listen of the configuration)")
	c.Flags().StringVar(&ui, "temporal-ui", "", "base URL of the Temporal Web UI, for links (default: temporal.ui of the configuration; none: no links)")
	return c
}

// doorFlags are for processes that run a gateway.
type doorFlags struct {
	apiKeys string   // file; empty: the configuration decides
	files   tlsFiles // none: no TLS
	rate    float64  // of one client; zero: no limit
}

// front is what stands before the gateway's handlers.
type front struct {
	keys  *gateway.Keys
	tls   *tls.Config
	rate  float64
	audit *zap.Logger
}

// defaultClientRate is far above what a client that waits for answers asks.
const defaultClientRate = 200

func (o *doorFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.apiKeys, "api-keys", "", "`FILE` of API keys (default: gateway.api_keys of the configuration; none: no key is asked for)")
	f.Float64Var(&o.rate, "client-rate", defaultClientRate, "requests a second of each key, or of each other address; 0: no limit")
}

func (o *doorFlags) tlsFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.files.cert, "tls-cert", "", "`FILE` of the gateway's certificate, in PEM; read again when it changes (default: no TLS)")
	f.StringVar(&o.files.key, "tls-key", "", "`FILE` of its key")
	f.StringVar(&o.files.ca, "tls-client-ca", "", "`FILE` of the CA that every client's certificate must be signed by (default: clients need none)")
}

// front reads the files; what cannot be used is refused before anything starts.
func (o *doorFlags) front(checked *config.Config, stderr io.Writer, p *process) (front, error) {
	at := front{rate: o.rate}
	if o.rate < 0 {
		return at, withStatus(exitUsage, "--client-rate %v: want 0 or more", o.rate)
	}
	log, err := p.logger(stderr)
	if err != nil {
		return at, err
	}
	at.audit = p.auditor(stderr)
	if file := cmp.Or(o.apiKeys, checked.Gateway.APIKeys); file != "" {
		if at.keys, err = gateway.OpenKeys(file, log); err != nil {
			return at, withStatus(exitUsage, "--api-keys: %w", err)
		}
	}
	at.tls, err = serverTLS(o.files)
	return at, err
}

// keysLook is how often a changed file of API keys is noticed without SIGHUP.
const keysLook = time.Second

// serveGateway answers until the context ends. The console links to the Web UI, if
// one is known.
func (p *process) serveGateway(ctx context.Context, listener net.Listener, temporal client.Client, checked *config.Config, at front, ui string, w *watch, log *zap.Logger) error {
	var aside sync.WaitGroup
	defer aside.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	switch {
	case at.keys != nil:
		hup, forget := onHangup()
		defer forget()
		aside.Go(func() { at.keys.Watch(ctx, keysLook, hup) })
	case !onlyHere(listener.Addr()):
		log.Warn("everybody who reaches this address may do everything: give the gateway API keys (--api-keys)", zap.String("address", listener.Addr().String()))
	}
	g := gateway.New(gateway.Options{Client: temporal, Operations: checked, Policy: checked.Budget, People: checked.People,
		Keys: at.keys, ClientRate: at.rate, Log: log, Audit: at.audit, Metrics: w.metrics.Registry, Traces: w.provider()})
	api := g.Handler()
	pages, err := console.New(console.Options{API: api, People: checked.People, UI: ui,
		Namespace: cmp.Or(p.namespace, os.Getenv("TEMPORAL_NAMESPACE")), Log: log})
	if err != nil {
		return withStatus(exitUsage, "--temporal-ui: %w", err)
	}
	log.Info("gateway answers", zap.String("address", listener.Addr().String()), zap.Bool("tls", at.tls != nil), zap.Bool("keys", at.keys != nil))
	return gateway.Serve(ctx, secured(listener, at.tls), console.Front(api, pages.Handler()), log)
}

// onlyHere tells whether only this machine reaches an address.
func onlyHere(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
