package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"headgate/config"
	"headgate/starter/gateway"
	"headgate/workers"
)

// process is what the long-running commands have in common.
type process struct {
	file      string // configuration
	address   string // of Temporal; empty: configuration, then environment
	namespace string
	tls       tlsFiles // of the connection to Temporal
	level     string
	json      bool // log lines as JSON

	apply bool   // put the file's policy in force at the start
	actor string // who says so
}

func (p *process) flags(c *cobra.Command, level string) {
	configFlag(c, &p.file)
	c.Flags().StringVar(&p.address, "temporal-address", "", "host:port of Temporal (default: configuration, then TEMPORAL_ADDRESS)")
	c.Flags().StringVar(&p.namespace, "namespace", "", "Temporal namespace (default: configuration, then TEMPORAL_NAMESPACE)")
	p.tls.clientFlags(c, "temporal-tls", "Temporal's server")
	c.Flags().StringVar(&p.level, "log-level", level, "debug, info, warn or error")
	c.Flags().BoolVar(&p.json, "log-json", false, "log lines as JSON")
}

// controlFlags are for processes that run a control worker.
func (p *process) controlFlags(c *cobra.Command) {
	c.Flags().BoolVar(&p.apply, "apply", false, "put the limits of the configuration in force, as headgate apply does")
	actorFlag(c, &p.actor)
}

// work runs workers; a control worker looks after the budget's policy, too.
func (p *process) work(ctx context.Context, o workers.Options) error {
	var aside sync.WaitGroup
	defer aside.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if slices.Contains(o.Roles, controlRole) {
		actor := ""
		if p.apply {
			actor = cmp.Or(p.actor, o.Identity, "headgate worker")
		}
		keeper := gateway.New(gateway.Options{Client: o.Client, Operations: o.Config, Policy: o.Config.Budget})
		aside.Go(func() { settlePolicy(ctx, keeper, o.Config.Budget, actor, o.Log) })
	}
	return workers.Run(ctx, o)
}

// controlRole is the worker that runs the workflows.
const controlRole = "control"

// load reads the configuration and fills in what the flags left open.
func (p *process) load() (*config.Config, error) {
	checked, err := loadConfig(p.file)
	if err != nil {
		return nil, err
	}
	p.address = cmp.Or(p.address, checked.Temporal.Address)
	p.namespace = cmp.Or(p.namespace, checked.Temporal.Namespace)
	return checked, nil
}

// logger writes to stderr.
func (p *process) logger(stderr io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(p.level)
	if err != nil {
		return nil, withStatus(exitUsage, "--log-level %q: want debug, info, warn or error", p.level)
	}
	return zap.New(zapcore.NewCore(p.encoder(), zapcore.Lock(zapcore.AddSync(stderr)), level)), nil
}

// auditor writes the orders of operators to stderr, whatever the log's level is.
func (p *process) auditor(stderr io.Writer) *zap.Logger {
	return zap.New(zapcore.NewCore(p.encoder(), zapcore.Lock(zapcore.AddSync(stderr)), zapcore.InfoLevel))
}

func (p *process) encoder() zapcore.Encoder {
	format := zap.NewProductionEncoderConfig()
	format.EncodeTime = zapcore.RFC3339TimeEncoder
	if p.json {
		return zapcore.NewJSONEncoder(format)
	}
	return zapcore.NewConsoleEncoder(format)
}

// connect reaches Temporal. What the connection and its workers do is measured.
func (p *process) connect(ctx context.Context, w *watch, log *zap.Logger) (client.Client, error) {
	var secure *tls.Config // nil: the environment decides
	if !p.tls.none() {
		var err error
		if secure, err = clientTLS("--temporal-tls", p.tls); err != nil {
			return nil, err
		}
	}
	c, err := workers.Watch{Metrics: w.metrics.Handler, Interceptors: w.traces.Interceptors()}.Connect(ctx, p.address, p.namespace, secure, log)
	if err != nil {
		return nil, withStatus(exitUnreachable, "%w\nStart a server (headgate dev does), or name one with --temporal-address or TEMPORAL_ADDRESS.", err)
	}
	return c, nil
}

// untilSignal ends its context at the first SIGINT or SIGTERM. The second one
// ends the process at once.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// onHangup tells of each SIGHUP, which then no longer ends the process.
func onHangup() (<-chan struct{}, func()) {
	signals, told, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
			}
			select {
			case <-done:
				return
			case told <- struct{}{}:
			}
		}
	}()
	return told, func() { signal.Stop(signals); close(done) }
}

// listen takes a port; a taken one is a clear error that names the flag.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, withStatus(exitInternal, "%s: cannot listen on %s: %w\nIs another headgate running? Choose another port with %s.", flag, address, withoutAddress(err), flag)
	}
	return l, nil
}

// withoutAddress takes the repetition of the address out of a listen error.
func withoutAddress(err error) error {
	if e, ok := err.(*net.OpError); ok { //nolint:errorlint // the outermost one is meant
		return e.Err
	}
	return err
}

// free checks that nobody has a port that a child will listen on.
func free(flag, address string) error {
	l, err := listen(flag, address)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", address, err)
	}
	return nil
}
