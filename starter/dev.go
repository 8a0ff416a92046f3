package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"headgate/activities"
	"headgate/config"
	"headgate/starter/console"
	"headgate/testsuite/provider"
	"headgate/workers"
)

// samplePort is where the sample third party listens; headgate.yaml names it.
const samplePort = "127.0.0.1:7291"

// dev is everything on one machine.
type dev struct {
	process
	data                 string
	listen               string
	temporalPort, uiPort int
	sample               bool
	noWorkers, noGateway bool
	slots                int
	sampleListen         string
	pages                browserFlags
	doorFlags            doorFlags
}

func newDevCommand() *cobra.Command {
	var d dev
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine",
		Long: `Dev runs a Temporal server, the workers, the gateway, and a sample third party with
a small workload. All data is in one folder; the next start goes on where this one
stopped. With TEMPORAL_ADDRESS set it uses that Temporal instead of its own.

The server is the program headgate-server: the one in HEADGATE_SERVER_BIN, else the
one beside this program, else "temporal" of the Temporal CLI on the PATH.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(c.Context())
			defer stop()
			return d.run(ctx, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	d.flags(c, "warn")
	d.controlFlags(c)
	d.pages.flags(c)
	d.doorFlags.flags(c)
	f := c.Flags()
	f.StringVar(&d.data, "data", ".headgate", "folder of all data")
	f.StringVar(&d.listen, "listen", "", "host:port of the gateway (default: gateway.listen of the configuration)")
	f.IntVar(&d.temporalPort, "temporal-port", 7233, "port of the Temporal server")
	f.IntVar(&d.uiPort, "ui-port", 8233, "port of the Temporal Web UI")
	f.BoolVar(&d.sample, "sample", true, "run the sample third party and a small workload (--sample=false: neither)")
	f.StringVar(&d.sampleListen, "sample-listen", samplePort, "host:port of the sample third party; the configuration calls it there")
	f.BoolVar(&d.noWorkers, "no-workers", false, "run no worker")
	f.BoolVar(&d.noGateway, "no-gateway", false, "run no gateway")
	f.IntVar(&d.slots, "slots", 0, "effects at one time (default: the worker's own)")
	return c
}

func (d *dev) run(ctx context.Context, stdout, stderr io.Writer) error {
	// 1. Everything that can be refused with a clear message.
	checked, err := d.load()
	if err != nil {
		return err
	}
	browser, err := d.pages.options()
	if err != nil {
		return err
	}
	log, err := d.logger(stderr)
	if err != nil {
		return err
	}
	at, err := d.doorFlags.front(checked, stderr, &d.process)
	if err != nil {
		return err
	}
	var door net.Listener
	if !d.noGateway {
		if door, err = listen("--listen", cmp.Or(d.listen, checked.Gateway.Listen)); err != nil {
			return err
		}
		defer func() { _ = door.Close() }()
	}
	if d.sample {
		if err := free("--sample-listen", d.sampleListen); err != nil {
			return err
		}
	}

	// 2. Temporal: the one that is named, or a child of ours.
	ui := ""
	var own *server
	if d.address == "" && os.Getenv("TEMPORAL_ADDRESS") == "" {
		if own, err = d.startServer(ctx, stderr); err != nil {
			return ended(ctx, err)
		}
		defer own.stop(log)
		d.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(d.temporalPort))
		ui = "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(d.uiPort))
		ctx = own.bind(ctx)
	}
	watch, err := newWatch(ctx, "headgate-dev", log) // of the workers too; the gateway shows their metrics
	if err != nil {
		return ended(ctx, err)
	}
	defer watch.close()
	temporal, err := d.connect(ctx, watch, log)
	if err != nil {
		return ended(ctx, err)
	}
	defer temporal.Close()
	if own != nil {
		if err := own.keep(ctx, temporal, d.namespace); err != nil {
			return ended(ctx, err)
		}
	}

	// 3. All parts, until the first one ends or a signal comes.
	parts := newParts(ctx)
	if d.sample {
		parts.start("sample third party", func(ctx context.Context) error {
			return provider.Serve(ctx, d.sampleListen, provider.Options{}, nil)
		})
	}
	if !d.noWorkers {
		parts.start("workers", func(ctx context.Context) error {
			return d.work(ctx, workers.Options{Client: temporal, Config: checked, Roles: workers.Roles(), Log: log,
				Slots: d.slots, Browser: browser, Build: buildID(), StopTimeout: devDrain})
		})
	}
	if !d.noGateway {
		parts.start("gateway", func(ctx context.Context) error {
			return d.serveGateway(ctx, door, temporal, checked, at, cmp.Or(ui, checked.Temporal.UI), watch, log)
		})
		url := "http://" + door.Addr().String()
		parts.start("greeting", func(ctx context.Context) error { return d.greet(ctx, stdout, url, ui, checked, log) })
	}
	return ended(ctx, parts.wait())
}

// devDrain is short: somebody waits at the terminal, and nothing is lost.
const devDrain = 5 * time.Second

// greet waits until work can be admitted, sends the sample workload, and says
// what can be done next.
func (d *dev) greet(ctx context.Context, stdout io.Writer, url, ui string, checked *config.Config, log *zap.Logger) error {
	to := &door{gateway: url, key: os.Getenv(keyVariable)}
	if err := to.ready(ctx); err != nil {
		log.Warn("the gateway is not ready yet", zap.Error(err))
	}
	var sent []string
	if d.sample && !d.noWorkers && ctx.Err() == nil {
		sent = sendSample(ctx, to, checked, time.Now(), log)
	}
	fmt.Fprintf(stdout, "\nHeadgate is running.\n  gateway      %s\n  console      %s%s\n", url, url, console.Root)
	if ui != "" {
		fmt.Fprintf(stdout, "  Temporal UI  %s\n  data         %s\n", ui, d.data)
	}
	if d.sample {
		fmt.Fprintf(stdout, "  third party  http://%s\n", d.sampleListen)
	}
	self, gatewayFlag := os.Args[0], ""
	if url != defaultGateway {
		gatewayFlag = " --gateway " + url
	}
	fmt.Fprintf(stdout, "\nTry, in another terminal:\n")
	if len(sent) > 0 {
		fmt.Fprintf(stdout, "  %s explain acme %s%s\n", self, sent[0], gatewayFlag)
	}
	for _, try := range []string{"list", "queue", "unknown"} {
		fmt.Fprintf(stdout, "  %s %s%s\n", self, try, gatewayFlag)
	}
	if len(checked.Operations) > 0 {
		fmt.Fprintf(stdout, "  %s submit %s --tenant acme --key my-first --payload '{\"amount\": 1200}' --wait%s\n", self, toTry(checked.Operations), gatewayFlag)
	}
	fmt.Fprintf(stdout, "\nStop with Ctrl-C; the next start goes on where this one stopped.\n")
	<-ctx.Done() // the parts end together
	return nil
}

// ended forgets errors that come of being told to stop.
func ended(ctx context.Context, err error) error {
	var own *statusError
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &own): // the server ended
		return cause
	case ctx.Err() != nil:
		return nil
	}
	return err
}

// parts are goroutines that end together: the first one that ends stops the others.
type parts struct {
	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func newParts(parent context.Context) *parts {
	ctx, stop := context.WithCancel(parent)
	return &parts{ctx: ctx, stop: stop}
}

func (p *parts) start(name string, run func(context.Context) error) {
	p.all.Go(func() {
		defer p.stop()
		if err := run(p.ctx); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
		}
	})
}

// wait is over when every part has ended.
func (p *parts) wait() error {
	<-p.ctx.Done()
	p.all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

// database is the file of a server's data.
func (d *dev) database() (string, error) {
	if err := os.MkdirAll(d.data, 0o700); err != nil {
		return "", withStatus(exitUsage, "--data: %w", err)
	}
	return filepath.Join(d.data, "temporal.db"), nil
}

// toTry is an operation for a first task: pages and models want payloads of their own.
func toTry(operations []config.Operation) string {
	i := slices.IndexFunc(operations, func(o config.Operation) bool { return o.Declared.Type == activities.HTTPType })
	return operations[max(i, 0)].Declared.Name
}
