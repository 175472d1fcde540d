package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/middleware"
)

// sink is a ResponseWriter as cheap as one can be.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// small is a handler that does what the least of them do.
var small = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = plain
	w.Write(body)
})

var (
	plain = []string{"text/plain"}
	body  = []byte("hello")
)

func serve(h http.Handler, r *http.Request) {
	h.ServeHTTP(&sink{make(http.Header)}, r)
}

func limited(t testing.TB) http.Handler {
	return middleware.New(newGate(t, memory.New(nil), perUser(1_000_000_000, time.Second)), nil)(small)
}

// BenchmarkMiddleware is a handler alone and behind one rule. The difference
// is what a request pays: at most 1 us and 3 allocations.
func BenchmarkMiddleware(b *testing.B) {
	r := httptest.NewRequest(http.MethodGet, "/items/alex", nil)
	for _, bench := range []struct {
		name    string
		handler http.Handler
	}{{"handler", small}, {"limited", limited(b)}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serve(bench.handler, r)
			}
		})
	}
}
