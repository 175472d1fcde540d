// Package telemetry shows what a running process decides: as Prometheus
// metrics and as log lines. It attaches to the gate and the limiter through
// their observer interfaces; they know nothing of it.
package telemetry

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/rules"
)

// Metrics counts decisions. Its labels are rules and outcomes, never keys, so
// the number of series does not grow with the number of callers. It implements
// gate.Observer, limit.Observer and what a limit.Observer may be besides, and is
// safe for simultaneous use.
type Metrics struct {
	storeMetrics
	*syncMetrics
	http     httpMetrics
	grpc     grpcMetrics
	rates    *policyRates
	registry registry

	requests  map[string]prometheus.Counter // by outcome
	decisions *prometheus.CounterVec
	took      prometheus.Histogram
	waited    prometheus.Histogram
	reloads   map[string]prometheus.Counter // by outcome
	current   prometheus.Gauge

	rules atomic.Pointer[map[string]ruleCounters]
}

// ruleCounters are the series of one rule, by outcome.
type ruleCounters struct{ allowed, denied, wouldDeny, degraded prometheus.Counter }

// NewMetrics returns Metrics in a registry of their own, with those of the Go
// runtime and the process.
func NewMetrics(version string) *Metrics {
	r := registry{prometheus.NewRegistry()}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_build_info", Help: "Always 1; the label is the version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	r.MustRegister(build)
	return &Metrics{
		storeMetrics: newStoreMetrics(r),
		syncMetrics:  newSyncMetrics(r),
		http:         newHTTPMetrics(r.Registry),
		grpc:         newGRPCMetrics(r.Registry),
		rates:        newPolicyRates(r),
		registry:     r,

		requests:  r.byOutcome("stint_requests_total", "Requests that were decided: allowed, denied, or error where nothing could be decided.", "allowed", "denied", "error"),
		decisions: r.counters("stint_decisions_total", "What each rule said: allowed, denied, would_deny (a rule in shadow), degraded (decided without the store).", "rule", "outcome"),
		took:      r.histogram("stint_decision_duration_seconds", "Time that a decision took, without waiting in line.", prometheus.ExponentialBuckets(250e-9, 4, 12)),
		waited:    r.histogram("stint_queue_wait_seconds", "Time that requests waited for their turn.", prometheus.ExponentialBuckets(1e-3, 2, 14)),
		reloads:   r.byOutcome("stint_config_reloads_total", "Attempts to load a changed configuration.", "ok", "error"),
		current:   r.gauge("stint_config_current", "1 if the configuration in force is the one in the file, 0 if the file has problems."),
	}
}

// Handler serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Counter adds a counter whose value is read when the metrics are.
func (m *Metrics) Counter(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// Gauge adds a gauge whose value is read when the metrics are.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Loaded takes note of the rules that are in force from now on. The series of
// rules that are no more end.
func (m *Metrics) Loaded(set *rules.Set) {
	now := make(map[string]ruleCounters)
	for _, r := range set.Rules() {
		now[r.Name] = ruleCounters{
			allowed:   m.decisions.WithLabelValues(r.Name, "allowed"),
			denied:    m.decisions.WithLabelValues(r.Name, "denied"),
			wouldDeny: m.decisions.WithLabelValues(r.Name, "would_deny"),
			degraded:  m.decisions.WithLabelValues(r.Name, "degraded"),
		}
	}
	before := m.rules.Swap(&now)
	if before != nil {
		for name := range *before {
			if _, still := now[name]; !still {
				m.decisions.DeletePartialMatch(prometheus.Labels{"rule": name})
			}
		}
	}
	m.syncMetrics.loaded(set)
	m.rates.set.Store(set)
	m.current.Set(1)
}

// Reloaded takes note of an attempt to load a changed configuration.
func (m *Metrics) Reloaded(ok bool) {
	if ok {
		m.reloads["ok"].Inc()
		return
	}
	m.reloads["error"].Inc()
	m.current.Set(0)
}

// Decided implements gate.Observer.
func (m *Metrics) Decided(out *gate.Outcome, took time.Duration) {
	m.took.Observe(took.Seconds())
	if out.Waited > 0 {
		m.waited.Observe(out.Waited.Seconds())
	}
	switch {
	case out.Err != nil:
		m.requests["error"].Inc()
	case out.Allowed:
		m.requests["allowed"].Inc()
	default:
		m.requests["denied"].Inc()
	}
	series := m.rules.Load()
	if series == nil {
		return
	}
	for _, d := range out.Decisions {
		c, ok := (*series)[d.Rule.Name]
		if !ok {
			continue // a rule that has just been replaced
		}
		switch {
		case d.Allowed:
			c.allowed.Inc()
		case d.Rule.Shadow:
			c.wouldDeny.Inc()
		default:
			c.denied.Inc()
		}
		if d.Degraded {
			c.degraded.Inc()
		}
	}
}
