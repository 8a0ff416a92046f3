package workers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/uber-go/tally/v4"
	tallyprometheus "github.com/uber-go/tally/v4/prometheus"
	"go.temporal.io/sdk/client"
	contribtally "go.temporal.io/sdk/contrib/tally"
	"go.uber.org/zap"
)

// MetricsPath is where a process shows its metrics.
const MetricsPath = "/metrics"

// reportEvery is how far a scrape is behind what the SDK's handler was told.
const reportEvery = time.Second

// secondsBuckets reach from a call on one machine to a task that waited for a day.
var secondsBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600}

// Metrics is what one process measures: the Temporal SDK's metrics under their
// documented names, those of Headgate's workers, which go the same way, and those
// of the Go runtime. Counters end in _total and durations, in seconds, in _seconds.
type Metrics struct {
	Registry *prometheus.Registry
	Handler  client.MetricsHandler // for the connection: see Watch
	close    func() error
}

// NewMetrics makes the metrics of a process, which counts until Close.
func NewMetrics(log *zap.Logger) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reporter := tallyprometheus.NewReporter(tallyprometheus.Options{
		Registerer:              registry,
		DefaultTimerType:        tallyprometheus.HistogramTimerType,
		DefaultHistogramBuckets: secondsBuckets,
		OnRegisterError: func(err error) { // the default is to panic; a metric is worth no worker
			log.Warn("a metric is not shown", zap.Error(err))
		},
	})
	// The names are the SDK's documented ones; the values of labels are left as they
	// are, so that an operation is called the same here and at the gateway.
	sanitize := contribtally.PrometheusSanitizeOptions
	sanitize.ValueCharacters = tally.ValidCharacters{Ranges: tally.AlphanumericRange, Characters: []rune("_-.:/@")}
	scope, closer := tally.NewRootScope(tally.ScopeOptions{
		CachedReporter:         reporter,
		Separator:              tallyprometheus.DefaultSeparator,
		SanitizeOptions:        &sanitize,
		OmitCardinalityMetrics: true,
	}, reportEvery)
	return &Metrics{
		Registry: registry,
		Handler:  contribtally.NewMetricsHandler(contribtally.NewPrometheusNamingScope(scope)),
		close:    closer.Close,
	}
}

// Close ends the counting; what was counted can still be scraped.
func (m *Metrics) Close() { _ = m.close() } // the reporter keeps no connection that could fail

// Serve shows the metrics at MetricsPath, and nothing else, until ctx ends.
func (m *Metrics) Serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // a scrape that breaks off is made again
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics on %s: %w", listener.Addr(), err)
	}
	return nil
}
