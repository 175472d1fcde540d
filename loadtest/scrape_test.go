package loadtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestScrape(t *testing.T) {
	const text = `# HELP stint_requests_total Requests that were decided.
# TYPE stint_requests_total counter
stint_requests_total{outcome="allowed"} 12
stint_requests_total{outcome="denied"} 1.5e+06
stint_requests_total{outcome="error"} 3
stint_store_updates_total{outcome="error"} 1
stint_store_updates_total{outcome="ok"} 40
`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
	defer server.Close()
	got, err := scrape(t.Context(), []*instance{{metrics: server.URL}, {metrics: ""}, {metrics: server.URL}})
	if want := (counts{granted: 24, denied: 3e6, updates: 82}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestScrapeOfWhatIsNoMetric(t *testing.T) {
	var c counts
	if err := c.add(strings.NewReader("stint_requests_total{outcome=\"denied\"} many\n")); err == nil {
		t.Error("no error")
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := scrape(t.Context(), []*instance{{number: 1, metrics: server.URL + "/metrics"}})
	if want := "instance 1: " + server.URL + "/metrics answers 404"; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}
