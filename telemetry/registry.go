package telemetry

import "github.com/prometheus/client_golang/prometheus"

// registry makes the metrics of a process and keeps them.
type registry struct{ *prometheus.Registry }

func (r registry) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.MustRegister(c)
	return c
}

func (r registry) counters(name, help string, labels ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(vec)
	return vec
}

// byOutcome returns counters with the label outcome, which are there from the start.
func (r registry) byOutcome(name, help string, outcomes ...string) map[string]prometheus.Counter {
	vec := r.counters(name, help, "outcome")
	by := make(map[string]prometheus.Counter)
	for _, o := range outcomes {
		by[o] = vec.WithLabelValues(o)
	}
	return by
}

func (r registry) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.MustRegister(g)
	return g
}

func (r registry) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	r.MustRegister(h)
	return h
}

func (r registry) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	r.MustRegister(vec)
	return vec
}
