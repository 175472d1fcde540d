package telemetry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-dev/stint/telemetry"
)

func TestHTTP(t *testing.T) {
	m := telemetry.NewMetrics("test")
	s := httptest.NewServer(m.HTTP("proxy", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/denied":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		case "/late":
			io.WriteString(w, "ok")
			w.WriteHeader(http.StatusTeapot) // too late
		case "/flush":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
		}
	})))
	defer s.Close()
	for _, request := range []string{"GET /", "GET /denied", "POST /hints", "PUT /late", "PATCH /flush", "BREW /"} {
		method, path, _ := strings.Cut(request, " ")
		r, _ := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`stint_http_requests_total{code="200",method="GET",transport="proxy"} 1`,
		`stint_http_requests_total{code="429",method="GET",transport="proxy"} 1`,
		`stint_http_requests_total{code="201",method="POST",transport="proxy"} 1`,
		`stint_http_requests_total{code="200",method="PUT",transport="proxy"} 1`,
		`stint_http_requests_total{code="200",method="PATCH",transport="proxy"} 1`,
		`stint_http_requests_total{code="200",method="other",transport="proxy"} 1`,
		`stint_http_request_duration_seconds_count{transport="proxy"} 6`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}
