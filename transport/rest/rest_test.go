package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/internal/openapitest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// testAPI is the API over a store in memory. Every exchange with it is held
// against the document.
type testAPI struct {
	http.Handler
	store    limit.Store
	contract *openapitest.Contract
}

// The rules of a testAPI.
var testRules = []rules.RuleSpec{
	{
		Name: "items", Match: rules.MatchSpec{Path: "/items/{user}"}, Key: []string{"user"}, OnStoreError: "deny",
		Limits: []rules.LimitSpec{{Quota: 2, Window: rules.Duration(10 * time.Second)}},
	},
	{
		Name: "report", Match: rules.MatchSpec{Path: "/report"}, Key: []string{"tenant"}, Status: 503, OnStoreError: "deny",
		Limits: []rules.LimitSpec{{Quota: 10, Window: rules.Duration(time.Minute)}},
	},
	{
		Name: "trial", Match: rules.MatchSpec{Path: "/items/{user}"}, Shadow: true, OnStoreError: "deny",
		Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Minute)}},
	},
	{
		Name: "export", Match: rules.MatchSpec{Path: "/export"}, OnStoreError: "allow",
		Limits: []rules.LimitSpec{{Quota: 10, Window: rules.Duration(time.Minute)}},
	},
	{
		Name: "internal", Match: rules.MatchSpec{Headers: map[string]rules.Pattern{"X-Internal": "yes"}, Methods: []string{"PUT"}, Host: "a.example"}, OnStoreError: "deny",
		Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Minute)}},
	},
}

func newTestAPI(t testing.TB) *testAPI {
	store := memory.New(nil)
	return &testAPI{New(newTestGate(t, store), nil), store, newContract(t)}
}

func newTestGate(t testing.TB, s limit.Store) *gate.Gate {
	t.Helper()
	set, problems := rules.Compile(rules.Spec{Rules: testRules})
	if set == nil {
		t.Fatal(problems)
	}
	return gate.New(limit.New(s, nil), &gate.Snapshot{Rules: set}, nil)
}

// one asks for an item of user.
func one(user string) string {
	return fmt.Sprintf(`{"descriptors":[{"method":"GET","path":"/items/%s"}]}`, user)
}

// post asks for decisions, with headers given as name, value, name, value.
func (a *testAPI) post(t testing.TB, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := request(t, body, headers...)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	a.contract.Check(t, r, body, w)
	return w
}

func request(t testing.TB, body string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/decisions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (a *testAPI) get(t testing.TB, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	a.contract.Check(t, r, "", w)
	return w
}

func decoded(t testing.TB, w *httptest.ResponseRecorder) (a Answer) {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// detail is that of a problem.
func detail(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var p httpanswer.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return p.Detail
}

func TestDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAPI(t)
		w := a.post(t, one("alex"))
		const first = `{"allowed":true,"status":0,"retryAfterMs":0,"decisions":[` +
			`{"descriptor":0,"rule":"items","policy":"items","allowed":true,"shadow":false,"limit":2,"remaining":1,"retryAfterMs":0,"resetAfterMs":5000,"degraded":false},` +
			`{"descriptor":0,"rule":"trial","policy":"trial","allowed":true,"shadow":true,"limit":1,"remaining":0,"retryAfterMs":0,"resetAfterMs":60000,"degraded":false}]}`
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != first {
			t.Errorf("first answer is %d %s; want %s", w.Code, got, first)
		}
		want := http.Header{
			"Content-Type": {"application/json"}, "Cache-Control": {"no-store"},
			"Ratelimit-Policy": {`"items";q=2;w=10`}, "Ratelimit": {`"items";r=1;t=5`},
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" {
			t.Errorf("header (-want +got):\n%s", diff)
		}

		second := decoded(t, a.post(t, one("alex")))
		if !second.Allowed || len(second.Decisions) != 2 || second.Decisions[1].Allowed || !second.Decisions[1].Shadow {
			t.Errorf("second answer is %+v; want it allowed, though not by the rule in shadow", second)
		}
		third := decoded(t, a.post(t, one("alex")))
		if third.Allowed || third.Status != 429 || third.RetryAfterMS != 5000 || third.Decisions[0].RetryAfterMS != third.RetryAfterMS {
			t.Errorf("third answer is %+v; want it denied with 429 for 5s", third)
		}
		if kim := decoded(t, a.post(t, one("kim"))); !kim.Allowed {
			t.Errorf("another user's answer is %+v", kim)
		}
	})
}

func TestNoRuleApplies(t *testing.T) {
	w := newTestAPI(t).post(t, `{"descriptors":[{}]}`)
	if got, want := strings.TrimSpace(w.Body.String()), `{"allowed":true,"status":0,"retryAfterMs":0,"decisions":[]}`; got != want {
		t.Errorf("answer is %s; want %s", got, want)
	}
}

func TestSeveralDescriptorsAreAllOrNothing(t *testing.T) {
	a := newTestAPI(t)
	both := `{"descriptors":[{"path":"/report","attributes":{"tenant":"acme"}},{"path":"/report","attributes":{"tenant":"globex"}}],"cost":6}`
	first := decoded(t, a.post(t, both))
	if !first.Allowed || len(first.Decisions) != 2 || first.Decisions[1].Descriptor != 1 || first.Decisions[1].Remaining != 4 {
		t.Errorf("first answer is %+v", first)
	}
	if second := decoded(t, a.post(t, both)); second.Allowed || second.Status != 503 {
		t.Errorf("second answer is %+v; want it denied with the rule's 503", second)
	}
	fresh := `{"descriptors":[{"path":"/report","attributes":{"tenant":"initech"}},{"path":"/report","attributes":{"tenant":"acme"}}],"cost":6}`
	if third := decoded(t, a.post(t, fresh)); third.Allowed || third.Decisions[0].Remaining != 10 {
		t.Errorf("third answer is %+v; want nothing charged to the tenant that had enough", third)
	}
}

func TestPeek(t *testing.T) {
	a := newTestAPI(t)
	peek := `{"descriptors":[{"path":"/report","attributes":{"tenant":"acme"}}],"cost":10,"peek":true}`
	for range 3 {
		if got := decoded(t, a.post(t, peek)); !got.Allowed || got.Decisions[0].Remaining != 10 {
			t.Errorf("peek says %+v", got)
		}
	}
}

func TestHeadersOfADescriptor(t *testing.T) {
	a := newTestAPI(t)
	ask := `{"descriptors":[{"method":"PUT","host":"A.example:443","headers":{"x-INTERNAL":"yes"}}]}`
	if got := decoded(t, a.post(t, ask)); len(got.Decisions) != 1 || got.Decisions[0].Rule != "internal" {
		t.Errorf("answer is %+v; want the rule internal", got)
	}
}

func TestDialect(t *testing.T) {
	h := New(newTestGate(t, memory.New(nil)), &Options{Headers: httpanswer.Legacy})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t, one("alex")))
	if w.Header().Get("RateLimit-Remaining") != "1" || w.Header().Get("RateLimit") != "" {
		t.Errorf("header is %v", w.Header())
	}
}

func TestStoreCannotAnswer(t *testing.T) {
	a := newTestAPI(t)
	a.store.Close()
	w := a.post(t, one("alex"))
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || detail(t, w) != "The limits of this request could not be checked. Try again in 1s." {
		t.Errorf("answer is %d, Retry-After %q, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
}

func TestDegradedAnswerSaysSo(t *testing.T) {
	a := newTestAPI(t)
	const report = `{"descriptors":[{"path":"/export"}]}`
	if w := a.post(t, report); w.Header().Get("Stint-Degraded") != "" || decoded(t, w).Decisions[0].Degraded {
		t.Errorf("with the store: %v, %s", w.Header(), w.Body)
	}
	a.store.Close()
	w := a.post(t, report)
	if got := decoded(t, w); !got.Allowed || !got.Decisions[0].Degraded || w.Header().Get("Stint-Degraded") != "store" {
		t.Errorf("without it: %v, %s", w.Header(), w.Body)
	}
}

func TestRoutes(t *testing.T) {
	tests := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/api/v1/decisions", 405, "POST"},
		{"OPTIONS", "/api/v1/decisions", 405, "POST"},
		{"POST", "/api/v1/openapi.yaml", 405, "GET"},
		{"HEAD", "/api/v1/openapi.yaml", 200, ""},
		{"POST", "/api/v1/decisions/", 404, ""},
		{"GET", "/", 404, ""},
	}
	a := newTestAPI(t)
	for _, test := range tests {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if w.Code != test.status || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, %q", test.method, test.path, w.Code, w.Header().Get("Allow"), test.status, test.allow)
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: Content-Type %s", test.method, test.path, w.Header().Get("Content-Type"))
		}
	}
	if got := a.get(t, "/api/v1/openapi.yaml").Body.String(); got != string(Document) {
		t.Errorf("the document is %.40q...", got)
	}
}

func TestRefusedRequests(t *testing.T) {
	tests := []struct {
		name, contentType, body string
		status                  int
		detail                  string
	}{
		{"a form", "application/x-www-form-urlencoded", one("alex"), 415, `Content-Type: "application/x-www-form-urlencoded" is not supported; send application/json`},
		{"no type", "", one("alex"), 415, `Content-Type: "" is not supported; send application/json`},
		{"with a charset", "application/json; charset=utf-8", one("alex"), 200, ""},
		{"too large", "application/json", strings.Repeat(" ", MaxBody) + one("alex"), 413, "body: more than 1048576 bytes; ask in several requests"},
		{"cost above burst", "application/json", `{"descriptors":[{"path":"/items/alex"}],"cost":3}`, 400, `cost: policy "items": cost can never be admitted: 3 is more than fits at once, 2`},
	}
	a := newTestAPI(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := a.post(t, test.body, "Content-Type", test.contentType)
			if w.Code != test.status {
				t.Fatalf("status %d: %s; want %d", w.Code, w.Body, test.status)
			}
			if test.status != 200 && detail(t, w) != test.detail {
				t.Errorf("detail is %q; want %q", detail(t, w), test.detail)
			}
		})
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/decisions", iotest.ErrReader(fmt.Errorf("connection reset")))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if w.Code != 400 || detail(t, w) != "body: could not be read to its end" {
		t.Errorf("a body that breaks off: %d %s", w.Code, w.Body)
	}
}
