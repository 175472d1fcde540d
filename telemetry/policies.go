package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/rules"
)

// policyRates shows what the policies in force admit in the long run, so that
// a chart of what they did admit can have the line of the limit in it. It
// implements prometheus.Collector.
type policyRates struct {
	series *prometheus.Desc
	set    atomic.Pointer[rules.Set]
}

func newPolicyRates(r registry) *policyRates {
	p := &policyRates{series: prometheus.NewDesc("stint_policy_units_per_second",
		"Units that a policy admits for each key in the long run: its quota by its window, without overrides.", []string{"policy"}, nil)}
	r.MustRegister(p)
	return p
}

// Describe implements prometheus.Collector.
func (p *policyRates) Describe(to chan<- *prometheus.Desc) { to <- p.series }

// Collect implements prometheus.Collector.
func (p *policyRates) Collect(to chan<- prometheus.Metric) {
	set := p.set.Load()
	if set == nil {
		return
	}
	for _, r := range set.Rules() {
		for _, policy := range r.Policies {
			to <- prometheus.MustNewConstMetric(p.series, prometheus.GaugeValue, float64(policy.Quota)/policy.Window.Seconds(), policy.Name)
		}
	}
}
