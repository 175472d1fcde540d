package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/rules"
)

// storeMetrics count what a limiter has to do with its store.
type storeMetrics struct {
	updates    map[string]prometheus.Counter // by outcome
	updateTook prometheus.Histogram
	perUpdate  prometheus.Histogram
	remembered prometheus.Counter
	open       prometheus.Gauge
	openings   prometheus.Counter
	nodes      prometheus.Gauge
}

func newStoreMetrics(r registry) storeMetrics {
	return storeMetrics{
		updates:    r.byOutcome("stint_store_updates_total", "Updates of the store.", "ok", "error"),
		updateTook: r.histogram("stint_store_update_duration_seconds", "Time that an update of the store took.", prometheus.ExponentialBuckets(50e-6, 2, 15)),
		perUpdate:  r.histogram("stint_store_update_spends", "Spends that went to the store in one update.", prometheus.ExponentialBuckets(1, 2, 11)),
		remembered: r.counter("stint_denials_remembered_total", "Denials that were answered from memory, without the store."),
		open:       r.gauge("stint_store_breaker_open", "1 while the store is not asked because it has failed, 0 otherwise."),
		openings:   r.counter("stint_store_breaker_openings_total", "How often the store has failed so often that it was not asked any more."),
		nodes:      r.gauge("stint_nodes", "Processes that share the store, as far as this one has seen; 0 before it has looked."),
	}
}

// Updated implements limit.Observer.
func (m *storeMetrics) Updated(spends int, took time.Duration, err error) {
	if spends > 0 {
		m.perUpdate.Observe(float64(spends))
	}
	m.updateTook.Observe(took.Seconds())
	m.updates[outcome(err)].Inc()
}

// Remembered implements limit.Observer.
func (m *storeMetrics) Remembered() { m.remembered.Inc() }

// Breaker implements limit.BreakerObserver.
func (m *storeMetrics) Breaker(open bool) {
	if !open {
		m.open.Set(0)
		return
	}
	m.open.Set(1)
	m.openings.Inc()
}

// Nodes implements limit.NodesObserver.
func (m *storeMetrics) Nodes(n int) { m.nodes.Set(float64(n)) }

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// syncMetrics count what synced rules tell the store, and by how much they
// pass their limits.
type syncMetrics struct {
	rounds     map[string]prometheus.Counter // by outcome
	took       prometheus.Histogram
	keys       prometheus.Gauge
	statements prometheus.Counter
	conflicts  prometheus.Counter
	overshoot  *prometheus.CounterVec

	policies atomic.Pointer[map[string]prometheus.Counter] // of overshoot
}

func newSyncMetrics(r registry) *syncMetrics {
	return &syncMetrics{
		rounds:     r.byOutcome("stint_sync_rounds_total", "Times that this process told the store what synced rules have spent, and heard what others have.", "ok", "error"),
		took:       r.histogram("stint_sync_duration_seconds", "Time that such a round took.", prometheus.ExponentialBuckets(250e-6, 2, 15)),
		keys:       r.gauge("stint_sync_keys", "Keys in the last round."),
		statements: r.counter("stint_sync_statements_total", "Calls of the store in all rounds."),
		conflicts:  r.counter("stint_sync_conflicts_total", "Keys that another process had changed meanwhile, so that they were told once more."),
		overshoot:  r.counters("stint_overshoot_units_total", "Units by which a synced policy was found to have passed its limit.", "policy"),
	}
}

// Synced implements limit.SyncObserver.
func (m *syncMetrics) Synced(keys, statements, conflicts int, took time.Duration, err error) {
	m.rounds[outcome(err)].Inc()
	m.took.Observe(took.Seconds())
	m.keys.Set(float64(keys))
	m.statements.Add(float64(statements))
	m.conflicts.Add(float64(conflicts))
}

// Overshot implements limit.SyncObserver.
func (m *syncMetrics) Overshot(policy string, units int64) {
	if known := m.policies.Load(); known != nil {
		if c, ok := (*known)[policy]; ok {
			c.Add(float64(max(0, units)))
		}
	}
}

// loaded makes a series for each policy of the synced rules of set, and ends
// those of others.
func (m *syncMetrics) loaded(set *rules.Set) {
	now := make(map[string]prometheus.Counter)
	for _, r := range set.Rules() {
		if r.Spec.Mode != "synced" {
			continue
		}
		for _, p := range r.Policies {
			now[p.Name] = m.overshoot.WithLabelValues(p.Name)
		}
	}
	before := m.policies.Swap(&now)
	if before == nil {
		return
	}
	for name := range *before {
		if _, still := now[name]; !still {
			m.overshoot.DeleteLabelValues(name)
		}
	}
}
