package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// httpMetrics count requests over HTTP as their callers see them: decision,
// waiting and the service behind it together.
type httpMetrics struct {
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newHTTPMetrics(r *prometheus.Registry) httpMetrics {
	m := httpMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stint_http_requests_total", Help: "Requests that were answered, by transport, method (other for unusual ones) and status."}, []string{"transport", "method", "code"}),
		took:     prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "stint_http_request_duration_seconds", Help: "Time from a request's header to the end of its answer, by transport.", Buckets: prometheus.ExponentialBuckets(250e-6, 2, 18)}, []string{"transport"}),
	}
	r.MustRegister(m.requests, m.took)
	return m
}

// HTTP returns a handler that answers as next does and counts what it
// answers. transport becomes a label, so it must be one of a few.
func (m *Metrics) HTTP(transport string, next http.Handler) http.Handler {
	took := m.http.took.WithLabelValues(transport)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		answered := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			took.Observe(time.Since(began).Seconds())
			m.http.requests.WithLabelValues(transport, methodLabel(r.Method), strconv.Itoa(answered.status)).Inc()
		}()
		next.ServeHTTP(answered, r)
	})
}

// methodLabel bounds the methods: a caller can make up any number of them.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// statusWriter remembers the status of an answer. http.ResponseController
// finds what else the writer can do.
type statusWriter struct {
	http.ResponseWriter
	status  int
	written bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.written && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status, w.written = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.written = true
	return w.ResponseWriter.Write(b)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
