package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/deliver"
	"github.com/stint-dev/stint/slots/plan"
)

// SlotMetrics count what is booked. Their labels are configs and outcomes, never
// events. They are safe for simultaneous use.
type SlotMetrics struct {
	events   *prometheus.CounterVec
	commits  map[string]prometheus.Counter // by outcome
	took     prometheus.Histogram
	perGroup prometheus.Histogram
	backlog  *prometheus.Desc
	delivery *DeliveryMetrics

	mu   sync.Mutex
	last map[string]plan.Ticks // the latest slot that this process has booked, by config
}

// maxConfigs bounds how many configs have series of their own. What is booked in
// others is counted under the config "other".
const maxConfigs = 100

// Slots adds metrics of slots.
func (m *Metrics) Slots() *SlotMetrics {
	r := m.registry
	s := &SlotMetrics{
		events:   r.counters("stint_slot_events_total", "Events that a slot was asked for: booked, repeated (known already), refused, cancelled, moved.", "config", "outcome"),
		commits:  r.byOutcome("stint_slot_commits_total", "Transactions of the ledger.", "ok", "error"),
		took:     r.histogram("stint_slot_commit_duration_seconds", "Time that a transaction of the ledger took.", prometheus.ExponentialBuckets(100e-6, 2, 16)),
		perGroup: r.histogram("stint_slot_commit_events", "Events that went together in one transaction.", prometheus.ExponentialBuckets(1, 2, 14)),
		backlog:  prometheus.NewDesc("stint_slot_backlog_seconds", "How far ahead the latest slot lies that this process has booked.", []string{"config"}, nil),
		last:     make(map[string]plan.Ticks),
	}
	s.delivery = &DeliveryMetrics{
		slots:    s,
		events:   r.counters("stint_slot_delivery_events_total", "Events that were due: delivered; failed, to be tried again; dead, not to be; reslotted, for they were late; superseded by whoever moved or cancelled them; unsettled, perhaps to be delivered again.", "config", "outcome"),
		lateness: r.histogram("stint_slot_delivery_lateness_seconds", "Time from a slot to the attempt to deliver its event.", prometheus.ExponentialBuckets(500e-6, 2, 13)),
		took:     r.histogram("stint_slot_delivery_duration_seconds", "Time that an attempt took.", prometheus.ExponentialBuckets(1e-3, 2, 16)),
	}
	r.MustRegister(s)
	return s
}

// DeliveryMetrics count what becomes of events that are due. They are safe for
// simultaneous use.
type DeliveryMetrics struct {
	slots          *SlotMetrics
	events         *prometheus.CounterVec
	lateness, took prometheus.Histogram
}

// Delivery returns the metrics of delivery.
func (m *SlotMetrics) Delivery() *DeliveryMetrics { return m.delivery }

// Attempted implements deliver.Observer.
func (m *DeliveryMetrics) Attempted(_ string, late, took time.Duration, _ error) {
	m.lateness.Observe(late.Seconds())
	m.took.Observe(took.Seconds())
}

// Ended implements deliver.Observer.
func (m *DeliveryMetrics) Ended(config string, o deliver.Outcome) {
	m.events.WithLabelValues(m.slots.note(config, 0), string(o)).Inc()
}

// Grouped implements slots.Observer.
func (m *SlotMetrics) Grouped(g *slots.Group) {
	m.took.Observe(g.Took.Seconds())
	m.perGroup.Observe(float64(g.Events))
	m.commits[outcome(g.Err)].Inc()
	if g.Err != nil {
		return
	}
	config := m.note(g.Config, g.Last)
	for outcome, n := range map[string]int{"booked": g.Booked, "repeated": g.Repeated, "refused": g.Refused, "cancelled": g.Cancelled, "moved": g.Moved} {
		m.events.WithLabelValues(config, outcome).Add(float64(n))
	}
}

// note takes note of the latest slot of a config, and returns what its label is.
func (m *SlotMetrics) note(config string, last plan.Ticks) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.last[config]
	if !known && len(m.last) >= maxConfigs {
		config = "other"
	}
	m.last[config] = max(before, last)
	return config
}

// Describe implements prometheus.Collector.
func (m *SlotMetrics) Describe(out chan<- *prometheus.Desc) { out <- m.backlog }

// Collect implements prometheus.Collector.
func (m *SlotMetrics) Collect(out chan<- prometheus.Metric) {
	now := plan.At(time.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	for config, last := range m.last {
		ahead := float64(max(0, last-now)) / float64(plan.Second)
		out <- prometheus.MustNewConstMetric(m.backlog, prometheus.GaugeValue, ahead, config)
	}
}
