package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// grpcMetrics count calls over gRPC as their callers see them.
type grpcMetrics struct {
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newGRPCMetrics(r *prometheus.Registry) grpcMetrics {
	m := grpcMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_grpc_requests_total", Help: "Calls over gRPC that were answered, by transport and code."}, []string{"transport", "code"}),
		took:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stint_grpc_request_duration_seconds", Help: "Time from a call's message to its answer, by transport.", Buckets: prometheus.ExponentialBuckets(16e-6, 2, 18)}, []string{"transport"}),
	}
	r.MustRegister(m.calls, m.took)
	return m
}

// GRPC returns what to call with the code and the time of each answer over gRPC.
// transport becomes a label, and so does code, so they must be of a few.
func (m *Metrics) GRPC(transport string) func(code string, took time.Duration) {
	duration := m.grpc.took.WithLabelValues(transport)
	calls := m.grpc.calls.MustCurryWith(prometheus.Labels{"transport": transport})
	ok := calls.WithLabelValues("OK")
	return func(code string, took time.Duration) {
		duration.Observe(took.Seconds())
		if code == "OK" {
			ok.Inc()
			return
		}
		calls.WithLabelValues(code).Inc()
	}
}
