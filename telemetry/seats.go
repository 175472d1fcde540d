package telemetry

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/isolate/fair"
)

// SeatMetrics count who gets seats. Their labels are plans and outcomes, never tenants.
// They implement isolate.Observer and are safe for simultaneous use.
type SeatMetrics struct {
	requests *prometheus.CounterVec
	waited   *prometheus.HistogramVec
	held     *prometheus.HistogramVec

	mu    sync.RWMutex
	plans map[string]*planSeries
}

// planSeries are those of one plan.
type planSeries struct {
	acquired, released prometheus.Counter
	waited, held       prometheus.Observer
}

// Seats adds metrics of seats. now returns what there is at present; nil if there are no
// seats.
func (m *Metrics) Seats(now func() *isolate.Isolator) *SeatMetrics {
	r := m.registry
	s := &SeatMetrics{
		requests: r.counters("stint_seat_requests_total", "Requests for a seat: acquired, released, or why there was none.", "plan", "outcome"),
		waited:   r.histograms("stint_seat_wait_seconds", "Time that requests waited for a seat, those that got none among them.", prometheus.ExponentialBuckets(1e-3, 2, 16), "plan"),
		held:     r.histograms("stint_seat_held_seconds", "Time that requests held their seats.", prometheus.ExponentialBuckets(1e-3, 2, 18), "plan"),
		plans:    make(map[string]*planSeries),
	}
	gauge := func(name, help string, value func(s isolate.Snapshot) float64) {
		m.Gauge(name, help, func() float64 {
			if i := now(); i != nil {
				return value(i.Snapshot(0))
			}
			return 0
		})
	}
	gauge("stint_seats", "Seats that there are.", func(s isolate.Snapshot) float64 { return float64(s.Seats) })
	gauge("stint_seats_busy", "Seats that requests hold.", func(s isolate.Snapshot) float64 { return float64(s.Busy) })
	gauge("stint_seats_kept", "Seats that are free while somebody waits, because others are likely to need them.", func(s isolate.Snapshot) float64 { return float64(s.Held) })
	gauge("stint_seats_waiting", "Requests that wait for a seat.", func(s isolate.Snapshot) float64 { return float64(s.Waiting) })
	gauge("stint_seats_tenants", "Tenants that are known: active, or lately.", func(s isolate.Snapshot) float64 { return float64(s.Tenants) })
	shared := func(value func(s isolate.SharedStats) float64) func() float64 {
		return func() float64 {
			if i := now(); i != nil {
				return value(i.Shared())
			}
			return 0
		}
	}
	m.Gauge("stint_shared_seats", "Seats of shared plans that this process holds.", shared(func(s isolate.SharedStats) float64 { return float64(s.Seats) }))
	m.Gauge("stint_shared_seats_busy", "Seats of shared plans that requests hold in this process.", shared(func(s isolate.SharedStats) float64 { return float64(s.Busy) }))
	m.Gauge("stint_shared_tenants", "Tenants of shared plans that this process holds seats of, or waits for some.", shared(func(s isolate.SharedStats) float64 { return float64(s.Tenants) }))
	m.Counter("stint_shared_calls_total", "Calls of the store about shared seats.", shared(func(s isolate.SharedStats) float64 { return float64(s.Settled) }))
	m.Counter("stint_shared_failures_total", "Those of them that failed: this process went on with what it had.", shared(func(s isolate.SharedStats) float64 { return float64(s.Failed) }))
	return s
}

// Canary adds metrics of what c measures.
func (m *Metrics) Canary(c *isolate.Canary) {
	m.Gauge("stint_isolation_ratio", "How many times as long as its work takes a request of a well-behaved tenant takes at the 99th percentile of the last minute's waits for a seat, by the canary: 1 is perfect, 0 is not known.", func() float64 { return c.Reading().Ratio })
	m.Gauge("stint_isolation_wait_seconds", "The 99th percentile of the canary's waits for a seat in the last minute.", func() float64 { return c.Reading().Wait.Seconds() })
}

// Acquired implements isolate.Observer.
func (m *SeatMetrics) Acquired(r isolate.Request, waited time.Duration) {
	s := m.of(r.Plan)
	s.acquired.Inc()
	s.waited.Observe(waited.Seconds())
}

// Released implements isolate.Observer.
func (m *SeatMetrics) Released(r isolate.Request, held time.Duration) {
	s := m.of(r.Plan)
	s.released.Inc()
	s.held.Observe(held.Seconds())
}

// Rejected implements isolate.Observer.
func (m *SeatMetrics) Rejected(r isolate.Request, why isolate.Reason, waited time.Duration) {
	m.requests.WithLabelValues(planLabel(r.Plan), strings.ReplaceAll(why.String(), " ", "_")).Inc()
	m.of(r.Plan).waited.Observe(waited.Seconds())
}

// of returns the series of a plan. There are no more plans than a configuration has
// had.
func (m *SeatMetrics) of(plan string) *planSeries {
	m.mu.RLock()
	s := m.plans[plan]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plans[plan] == nil {
		label := planLabel(plan)
		m.plans[plan] = &planSeries{
			acquired: m.requests.WithLabelValues(label, "acquired"), released: m.requests.WithLabelValues(label, "released"),
			waited: m.waited.WithLabelValues(label), held: m.held.WithLabelValues(label),
		}
	}
	return m.plans[plan]
}

func planLabel(plan string) string {
	if plan == "" {
		return fair.DefaultPlan
	}
	return plan
}
