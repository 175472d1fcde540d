package telemetry_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/telemetry"
)

func TestGRPC(t *testing.T) {
	m := telemetry.NewMetrics("test")
	answered := m.GRPC("grpc")
	for _, code := range []string{"OK", "OK", "InvalidArgument"} {
		answered(code, time.Millisecond)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`stint_grpc_requests_total{code="OK",transport="grpc"} 2`,
		`stint_grpc_requests_total{code="InvalidArgument",transport="grpc"} 1`,
		`stint_grpc_request_duration_seconds_count{transport="grpc"} 3`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}
