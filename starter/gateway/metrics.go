package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headgate/admission"
	"headgate/contract"
)

// metricsRoute shows what this process measures. It has no credentials to show,
// but names of tenants: a proxy that faces the world leaves it out.
const metricsRoute = "/metrics"

// What becomes of a submission, beside the verdicts of the budget.
const (
	decisionReplay = "replay" // the key had its task already
	decisionError  = "error"  // no decision was to be had
)

const (
	decisionsCounter = "headgate_admission_decisions_total"
	admissionTimer   = "headgate_admission_seconds"
	requestTimer     = "headgate_http_request_seconds"
)

// counters is what the gateway itself has done.
type counters struct {
	decisions *prometheus.CounterVec
	admission prometheus.Histogram
	requests  *prometheus.HistogramVec
}

// quick are the buckets of what a client waits for, in seconds.
var quick = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newCounters(registry prometheus.Registerer) *counters {
	c := &counters{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: decisionsCounter,
			Help: "Submissions to this gateway by what became of them: run, queue, defer and reject are the budget's verdicts or refusals before it, replay found the task of its key, error had no decision."},
			[]string{contract.DecisionLabel, contract.ReasonLabel}),
		admission: prometheus.NewHistogram(prometheus.HistogramOpts{Name: admissionTimer, Buckets: quick,
			Help: "Time that a submission waited for the budget's verdict."}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: requestTimer, Buckets: quick,
			Help: "Time of answers by route and status; long polls are as long as they were asked to be."},
			[]string{"route", "status"}),
	}
	registry.MustRegister(c.decisions, c.admission, c.requests)
	return c
}

// decided counts a verdict that was accepted; refusals are counted by the problem
// that they become.
func (c *counters) decided(v admission.Verdict, took time.Duration) {
	c.admission.Observe(took.Seconds())
	if v.Accepted() {
		c.decisions.WithLabelValues(string(v.Action), contract.MetricReason(string(v.Reason))).Inc()
	}
}

// counted counts the refusals of submissions. Reasons are those of the catalogue.
func (g *Gateway) counted(submit handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := submit(w, r)
		var p *problemError
		switch {
		case err == nil:
		case errors.As(err, &p) && p.DeliveryState == contract.DeliveryRejected && !upstreamReasons[p.Reason]:
			g.counters.decisions.WithLabelValues(string(admission.Reject), contract.MetricReason(p.Reason)).Inc()
		case p != nil:
			g.counters.decisions.WithLabelValues(decisionError, contract.MetricReason(p.Reason)).Inc()
		default:
			g.counters.decisions.WithLabelValues(decisionError, "internal").Inc()
		}
		return err
	}
}

// upstreamReasons are refusals because nobody was there to decide.
var upstreamReasons = map[string]bool{"gateway_busy": true, "budget_unavailable": true, "temporal_unavailable": true, "not_confirmed": true, "internal": true}

// answered counts a request. What no route is for has one series.
func (c *counters) answered(r *http.Request, status int, took time.Duration) {
	route := r.Pattern
	if route == "" || route == "/" {
		route = contract.OtherLabel
	}
	if status == 0 { // nothing was written, which net/http sends as this
		status = http.StatusOK
	}
	c.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}

// metrics is GET /metrics. It answers also when Temporal does not: headgate_up is 0
// then.
func (g *Gateway) metrics(w http.ResponseWriter, r *http.Request) error {
	g.scrape.ServeHTTP(w, r)
	return nil
}

// measure registers everything that the gateway shows.
func (g *Gateway) measure(registry *prometheus.Registry) {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	g.counters = newCounters(registry)
	registry.MustRegister(&gauges{gateway: g})
	g.scrape = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
