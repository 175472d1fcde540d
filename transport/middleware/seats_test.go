package middleware_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/middleware"
)

// byTenant identifies callers by a header.
type byTenant struct{}

func (byTenant) Identify(r *http.Request) rules.Request { return tenantRequest{r} }

type tenantRequest struct{ r *http.Request }

func (t tenantRequest) Method() string            { return t.r.Method }
func (t tenantRequest) Host() string              { return t.r.Host }
func (t tenantRequest) Path() string              { return t.r.URL.EscapedPath() }
func (t tenantRequest) Header(name string) string { return t.r.Header.Get(name) }
func (t tenantRequest) Attribute(name string) (string, bool) {
	value := t.r.Header.Get("X-Tenant")
	return value, name == "tenant" && value != ""
}

func to[T any](v T) *T { return &v }

// seated serves h with one seat for each tenant, and one place in its queue; requests of
// /slow have 200 ms.
func seated(t *testing.T, h http.HandlerFunc) (*httptest.Server, *isolate.Isolator) {
	set, problems := rules.Compile(rules.Spec{Isolation: &rules.IsolationSpec{
		Seats: 8, Tenant: "tenant",
		Plans:  map[string]rules.SeatPlanSpec{"default": {MaxSeats: to(1), Queue: to(1)}},
		Routes: []rules.RouteSpec{{Match: rules.MatchSpec{Path: "/slow"}, Timeout: to(rules.Duration(200 * time.Millisecond))}},
	}})
	if set == nil {
		t.Fatal(problems)
	}
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set, Identity: byTenant{}}, nil)
	s := httptest.NewServer(middleware.New(g, nil)(h))
	t.Cleanup(s.Close)
	return s, g.Seats()
}

func request(t *testing.T, s *httptest.Server, path, tenant string, body io.Reader) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest("POST", s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Tenant", tenant)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Error(err)
		return &http.Response{Header: http.Header{}}, ""
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp, string(data)
}

// until waits for something to become so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what + " has not come")
		}
	}
}

func TestSeats(t *testing.T) {
	finish := make(chan struct{})
	var running, read atomic.Int64
	s, seats := seated(t, func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		n, _ := io.Copy(io.Discard, r.Body)
		read.Add(n)
		if r.Header.Get("X-Tenant") == "ann" {
			<-finish
		}
	})
	answered := make(chan int, 2)
	for range 2 {
		go func() {
			resp, _ := request(t, s, "/", "ann", nil)
			answered <- resp.StatusCode
		}()
	}
	until(t, "one that runs, and one that waits", func() bool {
		return running.Load() == 1 && seats.Snapshot(0).Waiting == 1
	})
	resp, body := request(t, s, "/", "ann", strings.NewReader(strings.Repeat("x", 1<<20)))
	var problem struct {
		Type, Detail string
		Status       int
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil {
		t.Error(err, body)
	}
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || problem.Status != 503 ||
		problem.Type != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" ||
		!strings.HasPrefix(problem.Detail, "Too many requests of this caller are running and waiting: ") {
		t.Errorf("the third: %v %s", resp, body)
	}
	if read.Load() != 0 {
		t.Errorf("%d bytes of what was refused were read", read.Load())
	}
	if resp, _ := request(t, s, "/", "bob", nil); resp.StatusCode != 200 {
		t.Errorf("another tenant: %d", resp.StatusCode)
	}
	close(finish)
	for range 2 {
		if status := <-answered; status != 200 {
			t.Errorf("one of the first two: %d", status)
		}
	}
	until(t, "all seats", func() bool { return seats.Snapshot(0).Busy == 0 })
}

// A panic gives the seat back, once.
func TestPanicGivesTheSeatBack(t *testing.T) {
	s, seats := seated(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for range 20 {
		r, _ := http.NewRequest("GET", s.URL, nil)
		r.Header.Set("X-Tenant", "ann")
		if resp, err := s.Client().Do(r); err == nil {
			resp.Body.Close()
			t.Fatalf("a handler that aborts has answered %v", resp)
		}
	}
	until(t, "all seats", func() bool { return seats.Snapshot(0).Busy == 0 })
	if s := seats.Snapshot(0); s.ReleasedTwice != 0 || s.Started != 20 {
		t.Errorf("%+v", s)
	}
}

// A caller whose time is up is answered. What runs for it keeps its seat until it has
// ended; what waited for it does not begin.
func TestSeatOutlastsTheAnswer(t *testing.T) {
	finish := make(chan struct{})
	var began atomic.Int64
	s, seats := seated(t, func(w http.ResponseWriter, r *http.Request) {
		began.Add(1)
		<-finish
	})
	first := make(chan int, 1)
	go func() {
		resp, body := request(t, s, "/slow", "ann", nil)
		if !strings.Contains(body, "has taken as long as it may") || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%v %s", resp, body)
		}
		first <- resp.StatusCode
	}()
	until(t, "the first", func() bool { return began.Load() == 1 })
	resp, body := request(t, s, "/slow", "ann", nil)
	if resp.StatusCode != 503 || !strings.Contains(body, "has waited for as long as it may") {
		t.Errorf("the second: %v %s", resp, body)
	}
	if status := <-first; status != 503 {
		t.Errorf("the first: %d", status)
	}
	if s := seats.Snapshot(0); s.Busy != 1 || began.Load() != 1 {
		t.Errorf("when both are answered, %d requests have begun and %d seats are held", began.Load(), s.Busy)
	}
	close(finish)
	until(t, "all seats", func() bool { return seats.Snapshot(0).Busy == 0 })
}

// The handler's context carries the seat, so what it asks for itself cannot wait for it.
func TestHandlersOwnRequestsShareTheSeat(t *testing.T) {
	var seats *isolate.Isolator
	s, seats := seated(t, func(w http.ResponseWriter, r *http.Request) {
		seat, err := seats.AcquireFor(r.Context(), isolate.Request{Tenant: "ann"})
		if err != nil {
			http.Error(w, err.Error(), 500)
		}
		seat.Release()
	})
	if resp, body := request(t, s, "/", "ann", nil); resp.StatusCode != 200 {
		t.Error(resp, body)
	}
	until(t, "all seats", func() bool { return seats.Snapshot(0).Busy == 0 })
}
