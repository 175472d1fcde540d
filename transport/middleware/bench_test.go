package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
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

// BenchmarkNoSeat is a bare handler, and the refusal of a tenant whose queue is full:
// by themselves, and over a connection. The difference is what a refusal costs.
func BenchmarkNoSeat(b *testing.B) {
	full, release := fullQueue(b)
	defer release()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Tenant", "noisy")
	for _, bench := range []struct {
		name    string
		handler http.Handler
		status  int
	}{{"handler", small, 200}, {"refused", full, 503}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serve(bench.handler, r)
			}
		})
		b.Run("http/"+bench.name, func(b *testing.B) {
			s := httptest.NewServer(bench.handler)
			defer s.Close()
			over := r.Clone(b.Context())
			over.RequestURI = ""
			over.URL, _ = url.Parse(s.URL)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := s.Client().Do(over)
				if err != nil || resp.StatusCode != bench.status {
					b.Fatal(resp, err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}

// fullQueue returns a handler in front of which tenant noisy has one that runs and none
// that may wait.
func fullQueue(b *testing.B) (http.Handler, func()) {
	set, problems := rules.Compile(rules.Spec{Isolation: &rules.IsolationSpec{
		Seats: 8, Tenant: "tenant",
		Plans: map[string]rules.SeatPlanSpec{"default": {MaxSeats: to(1), Queue: to(0)}},
	}})
	if set == nil {
		b.Fatal(problems)
	}
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set, Identity: byTenant{}}, nil)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Tenant", "noisy")
	var out gate.Outcome
	pass := g.Enter(r, &out)
	if !pass.Held() {
		b.Fatal("no seat in an empty room")
	}
	return middleware.New(g, nil)(small), pass.Release
}
