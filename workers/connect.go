package workers

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/interceptor"
	temporallog "go.temporal.io/sdk/log"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"headgate/contract/codec"
)

// Connect opens a client on the standard environment configuration
// (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TLS, API key, the profile file). An
// address, namespace or TLS setting that is given here comes first. It waits for the server no
// longer than the SDK does, or ctx.
func Connect(ctx context.Context, address, namespace string, secure *tls.Config, log *zap.Logger) (client.Client, error) {
	return Watch{}.Connect(ctx, address, namespace, secure, log)
}

// Watch is what looks on at a connection and at the workers that use it. The zero
// value is nothing.
type Watch struct {
	Metrics client.MetricsHandler // nil: nothing is counted
	// Interceptors see every call, and those that are for workers every task, too.
	Interceptors []interceptor.ClientInterceptor
}

// Connect is Connect, watched.
func (w Watch) Connect(ctx context.Context, address, namespace string, secure *tls.Config, log *zap.Logger) (client.Client, error) {
	options, err := connectOptions(address, namespace, log)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options.ConnectionOptions.TLS = secure
	}
	options.MetricsHandler, options.Interceptors = w.Metrics, w.Interceptors
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("connect to Temporal at %s, namespace %s (TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE change that): %w",
			options.HostPort, options.Namespace, err)
	}
	ensureAttributes(ctx, c, options.Namespace, log)
	return c, nil
}

func connectOptions(address, namespace string, log *zap.Logger) (client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return options, fmt.Errorf("read the Temporal environment configuration: %w", err)
	}
	options.HostPort = first(address, options.HostPort, client.DefaultHostPort)
	options.Namespace = first(namespace, options.Namespace, client.DefaultNamespace)
	options.Identity = "headgate@" + process()
	options.Logger = Logger(log)
	options.DataConverter = codec.Converter()
	// Calls are small and near; what is large is compressed by the codec.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	return options, nil
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Logger writes the SDK's logs with zap, without the payloads that some of them
// hold.
func Logger(log *zap.Logger) temporallog.Logger {
	zapped := zapslog.NewHandler(log.Core(), zapslog.WithName("temporal"), zapslog.AddStacktraceAt(slog.LevelError+1))
	return temporallog.NewStructuredLogger(slog.New(discreet{zapped}))
}

// discreet drops the attribute in which the SDK logs an activity's result.
type discreet struct{ slog.Handler }

const resultAttribute = "Result"

// Handle passes the record on without results.
func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != resultAttribute {
			clean.AddAttrs(a)
		}
		return true
	})
	return d.Handler.Handle(ctx, clean)
}

// WithAttrs keeps the wrapping.
func (d discreet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return discreet{d.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the wrapping.
func (d discreet) WithGroup(name string) slog.Handler { return discreet{d.Handler.WithGroup(name)} }
