package slotrest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/openapitest"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/store/sqlite"
	"github.com/stint-dev/stint/transport/access"
)

// noon is what the clock of a testAPI shows at first.
var noon = plan.At(time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC))

// testAPI is the API over a real ledger in a file. Every exchange with it is held
// against the document.
type testAPI struct {
	http.Handler
	now      *atomic.Int64
	ledger   slots.Ledger
	contract *openapitest.Contract
}

func newTestAPI(t testing.TB) *testAPI {
	return newTestAPIWith(t, func(l slots.Ledger) slots.Ledger { return l }, nil)
}

// newTestAPIWith returns an API over what wrap makes of the ledger.
func newTestAPIWith(t testing.TB, wrap func(slots.Ledger) slots.Ledger, o *Options) *testAPI {
	t.Helper()
	a := &testAPI{now: new(atomic.Int64), contract: newContract(t)}
	a.now.Store(int64(noon))
	l := wrap(openLedger(t, filepath.Join(t.TempDir(), "slots.db"), a.now))
	s := slots.New(l, nil)
	t.Cleanup(func() { s.Close() })
	if o == nil {
		o = &Options{Logger: slog.New(slog.DiscardHandler)}
	}
	a.Handler, a.ledger = New(s, l, o), l
	return a
}

func openLedger(t testing.TB, file string, now *atomic.Int64) slots.Ledger {
	t.Helper()
	store, err := sqlite.Open(file, &sqlite.Options{Now: func() algo.Ticks { return algo.Ticks(now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store.Ledger()
}

// do sends a request. It has a JSON body unless body is "". Headers are given as name,
// value, name, value.
func (a *testAPI) do(t testing.TB, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, reader)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	a.contract.Check(t, r, body, w)
	return w
}

// answered sends a request that must have a status, and returns the answer.
func answered[T any](t testing.TB, a *testAPI, status int, method, path, body string) (answer T) {
	t.Helper()
	w := a.do(t, method, path, body)
	if w.Code != status {
		t.Fatalf("%s %s %.200s: status %d, %s; want %d", method, path, body, w.Code, w.Body, status)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// configure makes a config of so many slots in a window.
func (a *testAPI) configure(t testing.TB, name string, most int, window string) Config {
	t.Helper()
	return answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", fmt.Sprintf(`{"configName":%q,"maxPerWindow":%d,"windowSize":%q}`, name, most, window))
}

// request asks for a slot at noon, with more fields.
func request(id string, more ...string) string {
	text, err := json.Marshal(id)
	if err != nil {
		panic(err)
	}
	fields := append([]string{`"requestedTime":"2025-06-01T12:00:00Z","eventId":` + string(text)}, more...)
	return "{" + strings.Join(fields, ",") + "}"
}

func (a *testAPI) book(t testing.TB, id string, more ...string) Booking {
	t.Helper()
	return answered[Booking](t, a, 200, "POST", "/api/v1/slots", request(id, more...))
}

// at reads a time of an answer.
func at(t testing.TB, text string) plan.Ticks {
	t.Helper()
	when, err := parseTime(text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// faulty is a ledger that fails.
type faulty struct {
	slots.Ledger
	err atomic.Pointer[error] // of all that begins from now on; nil if none
}

func (f *faulty) fault() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *faulty) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.Ledger.Begin(ctx, config, ids, cached)
}

func (f *faulty) Create(ctx context.Context, config string) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.Ledger.Create(ctx, config)
}

func (f *faulty) Configs(ctx context.Context, after string, limit int) ([]slots.Config, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.Ledger.Configs(ctx, after, limit)
}

func (f *faulty) Config(ctx context.Context, name string) (slots.Config, plan.Ticks, error) {
	if err := f.fault(); err != nil {
		return slots.Config{}, 0, err
	}
	return f.Ledger.Config(ctx, name)
}

func (f *faulty) Event(ctx context.Context, config, id string) (slots.Event, error) {
	if err := f.fault(); err != nil {
		return slots.Event{}, err
	}
	return f.Ledger.Event(ctx, config, id)
}

func (f *faulty) Events(ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.Ledger.Events(ctx, config, q)
}

func (f *faulty) Count(ctx context.Context, config string, from, step plan.Ticks, n int) ([]int64, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.Ledger.Count(ctx, config, from, step, n)
}

// newFaultyAPI returns an API and what makes its ledger fail.
func newFaultyAPI(t testing.TB) (*testAPI, func(err error)) {
	f := new(faulty)
	a := newTestAPIWith(t, func(l slots.Ledger) slots.Ledger {
		f.Ledger = l
		return f
	}, nil)
	return a, func(err error) { f.err.Store(&err) }
}

// everything is a request of each kind.
var everything = []struct{ method, path, body string }{
	{"POST", "/api/v1/slots", request("a")},
	{"GET", "/api/v1/slots", ""},
	{"POST", "/api/v1/slots/batch", `{"requestedTime":"2025-06-01T12:00:00Z","events":[{"eventId":"a"}]}`},
	{"POST", "/api/v1/slots/quote", `{"requestedTime":"2025-06-01T12:00:00Z"}`},
	{"GET", "/api/v1/slots/timeline?from=2025-06-01T12:00:00Z&to=2025-06-01T12:00:04Z&step=PT4S", ""},
	{"GET", "/api/v1/slots/dead", ""},
	{"POST", "/api/v1/slots/dead/redrive", `{"eventIds":["a"]}`},
	{"GET", "/api/v1/slots/a", ""},
	{"DELETE", "/api/v1/slots/a", ""},
	{"PATCH", "/api/v1/slots/a", `{"requestedTime":"2025-06-01T13:00:00Z"}`},
	{"GET", "/admin/rate-limit/config", ""},
	{"POST", "/admin/rate-limit/config", `{"maxPerWindow":1,"windowSize":"PT1S"}`},
	{"GET", "/admin/rate-limit/config/history", ""},
	{"GET", "/admin/rate-limit/configs", ""},
	{"POST", "/admin/rate-limit/pause", `{"until":null}`},
}

func TestStoreDoesNotAnswer(t *testing.T) {
	for _, test := range []struct {
		err    error
		detail string
	}{
		{&slots.LedgerError{Store: "s", Op: "begin", Err: errors.New("connection refused")}, "The store did not answer. Nothing was done; try again in 1s."},
		{&slots.LedgerError{Store: "s", Op: "commit", Sent: true, Err: errors.New("connection reset")}, "The store did not answer. It may have been done, and is not done twice; try again in 1s."},
		{&slots.LedgerError{Store: "s", Op: "begin", Err: slots.ErrClosed}, "The store did not answer. Nothing was done; try again in 1s."},
		{context.DeadlineExceeded, "The store did not answer. It may have been done, and is not done twice; try again in 1s."},
	} {
		a, fail := newFaultyAPI(t)
		a.configure(t, "default", 1, "PT1S")
		fail(test.err)
		for _, e := range everything {
			w := a.do(t, e.method, e.path, e.body)
			p := problemOf(t, w)
			if w.Code != 503 || p.Reason != StoreUnavailable || p.Detail != test.detail || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%v: %s %s: %d, Retry-After %q, %s", test.err, e.method, e.path, w.Code, w.Header().Get("Retry-After"), w.Body)
			}
		}
	}
}

// A fault of Stint's own is told to the log, and to no caller.
func TestFaultsAreLogged(t *testing.T) {
	var log strings.Builder
	f := new(faulty)
	a := newTestAPIWith(t, func(l slots.Ledger) slots.Ledger {
		f.Ledger = l
		return f
	}, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a.configure(t, "default", 1, "PT1S")
	err := errors.New("the moon is full")
	f.err.Store(&err)
	for _, e := range everything {
		log.Reset()
		w := a.do(t, e.method, e.path, e.body)
		if w.Code != 500 || strings.Contains(w.Body.String(), "moon") || !strings.Contains(log.String(), "the moon is full") {
			t.Errorf("%s %s: %d %s, logged %q", e.method, e.path, w.Code, w.Body, log.String())
		}
	}
}

// A store that is away is logged, and not once for each request; a caller that has gone
// is not.
func TestStoreFaultsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		fault := error(&slots.LedgerError{Store: "postgres", Op: "begin", Err: errors.New("connection refused")})
		f := new(faulty)
		f.err.Store(&fault)
		s := slots.New(f, nil)
		defer s.Close()
		h := New(s, f, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		gone, leave := context.WithCancel(t.Context())
		leave()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, "GET", "/api/v1/slots", nil))
		if log.Len() > 0 {
			t.Errorf("that a caller has gone is logged: %s", log.String())
		}
		for range 2 {
			for range 10 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/slots", nil))
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "postgres: begin: connection refused"); n != 2 {
			t.Errorf("two seconds without the store are logged in %d lines:\n%s", n, log.String())
		}
	})
}

func problemOf(t testing.TB, w *httptest.ResponseRecorder) (p Problem) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if p.Message != p.Detail {
		t.Errorf("error is %q, and detail %q", p.Message, p.Detail)
	}
	return p
}

// Once too many wait for the ledger, more are refused at once.
func TestOverload(t *testing.T) {
	slow := &slowLedger{entered: make(chan struct{}, 1), leave: make(chan struct{})}
	a := newTestAPIWith(t, func(l slots.Ledger) slots.Ledger {
		slow.Ledger = l
		return slow
	}, nil)
	a.configure(t, "default", 1, "PT1S")
	s := slots.New(slow, &slots.Options{MaxWaiting: 1})
	defer s.Close()
	a.Handler = New(s, slow, nil)
	slow.on.Store(true)
	done := make(chan *httptest.ResponseRecorder, 2)
	book := func(id string) { done <- a.do(t, "POST", "/api/v1/slots", request(id)) }
	go book("a")
	<-slow.entered
	// Of what waits behind a, one alone is let in.
	go book("b")
	go book("c")
	w := <-done
	if p := problemOf(t, w); w.Code != 503 || p.Reason != Overloaded || p.RetryAfterMS != 1000 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("the third of three is answered %d %s", w.Code, w.Body)
	}
	slow.on.Store(false)
	close(slow.leave)
	for range 2 {
		if w := <-done; w.Code != 200 {
			t.Errorf("one of those that waited is answered %d %s", w.Code, w.Body)
		}
	}
}

// slowLedger keeps transactions waiting until leave is closed.
type slowLedger struct {
	slots.Ledger
	on      atomic.Bool
	entered chan struct{}
	leave   chan struct{}
}

func (s *slowLedger) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	if s.on.Load() {
		s.entered <- struct{}{}
		<-s.leave
	}
	return s.Ledger.Begin(ctx, config, ids, cached)
}

func TestRoutes(t *testing.T) {
	a := newTestAPI(t)
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"PUT", "/api/v1/slots", 405, "GET, POST"},
		{"OPTIONS", "/api/v1/slots/a", 405, "DELETE, GET, PATCH"},
		{"PUT", "/api/v1/slots/batch", 405, "DELETE, GET, PATCH, POST"},
		{"DELETE", "/admin/rate-limit/config", 405, "GET, POST"},
		{"GET", "/admin/rate-limit/cache/flush", 405, "POST"},
		{"HEAD", "/api/v1/slots/openapi.yaml", 200, ""},
		{"GET", "/api/v1/slot", 404, ""},
		{"GET", "/admin/rate-limit/", 404, ""},
		{"GET", "/admin/rate-limit/config/", 404, ""},
		{"GET", "/", 404, ""},
	} {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if w.Code != test.status || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", test.method, test.path, w.Code, w.Header().Get("Allow"), test.status, test.allow)
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: Content-Type %s", test.method, test.path, w.Header().Get("Content-Type"))
		}
	}
	if got := a.do(t, "GET", "/api/v1/slots/openapi.yaml", "").Body.String(); got != string(Document) {
		t.Errorf("the document is %.40q...", got)
	}
}

// Who may use the admin paths is for package access to say, which has more tests.
func TestAdminToken(t *testing.T) {
	const token = "correct horse battery staple"
	guard := access.New(&access.Options{Tokens: []access.Token{{Name: "ops", Hash: sha256.Sum256([]byte(token)), Write: true}}})
	a := newTestAPIWith(t, func(l slots.Ledger) slots.Ledger { return l }, &Options{Admin: guard})
	for authorization, status := range map[string]int{"": 401, "Bearer " + token + "x": 401, "Bearer " + token: 200} {
		w := a.do(t, "POST", "/admin/rate-limit/cache/flush", "", "Authorization", authorization)
		if w.Code != status {
			t.Errorf("Authorization %q: %d %s; want %d", authorization, w.Code, w.Body, status)
		}
	}
	for _, e := range everything {
		w := a.do(t, e.method, e.path, e.body)
		if admin := strings.HasPrefix(e.path, "/admin/"); admin != (w.Code == 401) || admin != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("without a token %s %s is answered %d", e.method, e.path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("GET", "/admin/rate-limit/no-such-path", nil))
	if w.Code != 401 {
		t.Errorf("without a token it can be found out which admin paths there are: %d", w.Code)
	}
}

func TestContentType(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 10, "PT1S")
	for _, test := range []struct {
		contentType string
		status      int
	}{
		{"application/json", 200},
		{"application/json; charset=utf-8", 200},
		{"application/x-www-form-urlencoded", 415},
		{"text/plain", 415},
		{"", 415},
	} {
		w := a.do(t, "POST", "/api/v1/slots", request("a"), "Content-Type", test.contentType)
		want := fmt.Sprintf("Content-Type: %q is not supported; send application/json", test.contentType)
		if w.Code != test.status || w.Code != 200 && problemOf(t, w).Detail != want {
			t.Errorf("%q: %d %s; want %d", test.contentType, w.Code, w.Body, test.status)
		}
	}
}

// counted counts what is read of a body.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// A body that is too large is refused before it is read, or, if nobody said how
// large it would be, after as much as is allowed.
func TestBodyTooLarge(t *testing.T) {
	a := newTestAPI(t)
	huge := request(strings.Repeat("x", 10<<20))
	for _, test := range []struct {
		path   string
		length int64
		most   int
		detail string
	}{
		{"/api/v1/slots", int64(len(huge)), 0, "body: more than 65536 bytes; send no more here"},
		{"/api/v1/slots", -1, MaxBody, "body: more than 65536 bytes; send no more here"},
		{"/api/v1/slots/batch", -1, MaxBatchBody, "body: more than 8388608 bytes; send no more here"},
		{"/api/v1/slots/quote", -1, MaxBody, "body: more than 65536 bytes; send no more here"},
		{"/admin/rate-limit/config", -1, MaxBody, "body: more than 65536 bytes; send no more here"},
		{"/admin/rate-limit/pause", -1, MaxBody, "body: more than 65536 bytes; send no more here"},
	} {
		body := &counted{Reader: strings.NewReader(huge)}
		r := httptest.NewRequest("POST", test.path, body)
		r.ContentLength = test.length
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		a.contract.Check(t, r, "", w)
		if w.Code != 413 || problemOf(t, w).Detail != test.detail || body.n > test.most+1 {
			t.Errorf("%s: %d %s after %d bytes; want 413 after at most %d", test.path, w.Code, w.Body, body.n, test.most)
		}
	}
	r := httptest.NewRequest("POST", "/api/v1/slots", iotest.ErrReader(errors.New("connection reset")))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if w.Code != 400 || problemOf(t, w).Detail != "body: could not be read to its end" {
		t.Errorf("a body that breaks off: %d %s", w.Code, w.Body)
	}
}

// Over a real connection, too, a body that is too large is not read to its end.
func TestBodyTooLargeEndsTheConnection(t *testing.T) {
	a := newTestAPI(t)
	server := httptest.NewServer(a)
	defer server.Close()
	endless := &counted{Reader: endlessly('x')}
	request, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/api/v1/slots", io.NopCloser(endless))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 413 || !answer.Close {
		t.Errorf("status %d, close %v; want 413 and the connection closed", answer.StatusCode, answer.Close)
	}
}

// endlessly reads one character for ever.
type endlessly byte

func (e endlessly) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestCacheFlushTellsTheTruth(t *testing.T) {
	got := answered[Flushed](t, newTestAPI(t), 200, "POST", "/admin/rate-limit/cache/flush", "")
	want := Flushed{"cache flushed", "There was nothing to flush: the config is read with each booking, so a change is in force on every node from the next booking on."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
