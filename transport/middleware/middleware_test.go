package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/middleware"
)

// perUser limits each user of /items/{user}.
func perUser(quota int64, window time.Duration) rules.RuleSpec {
	return rules.RuleSpec{
		Name:   "items",
		Match:  rules.MatchSpec{Path: "/items/{user}"},
		Key:    []string{"user"},
		Limits: []rules.LimitSpec{{Quota: quota, Window: rules.Duration(window)}},
	}
}

func newGate(t testing.TB, s limit.Store, specs ...rules.RuleSpec) *gate.Gate {
	set, problems := rules.Compile(rules.Spec{Rules: specs})
	if set == nil {
		t.Fatal(problems)
	}
	id, _ := identity.New(identity.Spec{}, nil)
	t.Cleanup(id.Close)
	return gate.New(limit.New(s, nil), &gate.Snapshot{Rules: set, Identity: id}, nil)
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "hello")
})

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

func TestAdmitsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := middleware.New(newGate(t, memory.New(nil), perUser(1, 10*time.Second)), nil)(hello)

		w := ask(h, http.MethodGet, "/items/alex")
		got := []any{w.Code, w.Body.String(), w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"), w.Header().Get("Retry-After")}
		if diff := cmp.Diff([]any{200, "hello", `"items";q=1;w=10`, `"items";r=0;t=10`, ""}, got); diff != "" {
			t.Errorf("first answer (-want +got):\n%s", diff)
		}

		w = ask(h, http.MethodGet, "/items/alex")
		got = []any{w.Code, w.Header().Get("Content-Type"), w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"), w.Header().Get("Retry-After")}
		if diff := cmp.Diff([]any{429, "application/problem+json", `"items";q=1;w=10`, `"items";r=0;t=10`, "10"}, got); diff != "" {
			t.Errorf("second answer (-want +got):\n%s", diff)
		}

		if w := ask(h, http.MethodGet, "/items/kim"); w.Code != 200 {
			t.Errorf("another user: status %d; want 200", w.Code)
		}
		if w := ask(h, http.MethodGet, "/other"); w.Code != 200 || len(w.Header()["Ratelimit"]) > 0 {
			t.Errorf("no rule: status %d, RateLimit %q; want 200 and none", w.Code, w.Header().Get("RateLimit"))
		}
	})
}

func TestEveryMethodCounts(t *testing.T) {
	for _, method := range []string{"HEAD", "OPTIONS", "POST", "PROPFIND"} {
		h := middleware.New(newGate(t, memory.New(nil), perUser(1, time.Minute)), nil)(hello)
		if first, second := ask(h, method, "/items/alex").Code, ask(h, method, "/items/alex").Code; first != 200 || second != 429 {
			t.Errorf("%s twice: %d, %d; want 200, 429", method, first, second)
		}
	}
}

// A HEAD that is refused has the header of the GET and no body.
func TestRefusedHeadHasNoBody(t *testing.T) {
	server := httptest.NewServer(middleware.New(newGate(t, memory.New(nil), perUser(0, time.Minute)), nil)(hello))
	defer server.Close()
	answer, err := http.Head(server.URL + "/items/alex")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "60" || len(body) > 0 || err != nil {
		t.Errorf("status %d, Retry-After %q, body %q, %v", answer.StatusCode, answer.Header.Get("Retry-After"), body, err)
	}
}

func TestRefuse(t *testing.T) {
	h := middleware.New(newGate(t, memory.New(nil), perUser(0, time.Minute)), &middleware.Options{
		Refuse: func(w http.ResponseWriter, r *http.Request, out *gate.Outcome) {
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, out.Decisions[0].Policy+" "+out.RetryAfter.String())
		},
	})(hello)
	if w := ask(h, http.MethodGet, "/items/alex"); w.Code != http.StatusTeapot || w.Body.String() != "items 1m0s" {
		t.Errorf("answer is %d %q", w.Code, w.Body)
	}
}

func TestHeadersDialect(t *testing.T) {
	h := middleware.New(newGate(t, memory.New(nil), perUser(5, time.Minute)), &middleware.Options{Headers: httpanswer.Draft03})(hello)
	w := ask(h, http.MethodGet, "/items/alex")
	want := http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {"12"}, "Content-Type": {"text/plain; charset=utf-8"}}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

// The handler has the last word about fields of the same name.
func TestHandlerFieldsReplaceOurs(t *testing.T) {
	h := middleware.New(newGate(t, memory.New(nil), perUser(5, time.Minute)), nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"own";r=7`)
		w.Header().Add("RateLimit-Policy", `"own";q=9`)
	}))
	w := ask(h, http.MethodGet, "/items/alex")
	want := http.Header{"Ratelimit": {`"own";r=7`}, "Ratelimit-Policy": {`"items";q=5;w=60`, `"own";q=9`}}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

// What a ResponseWriter can do beside its interface is not hidden.
func TestResponseWriterIsPassedAsItIs(t *testing.T) {
	var got http.ResponseWriter
	h := middleware.New(newGate(t, memory.New(nil), perUser(5, time.Minute)), nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = w
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/items/alex", nil))
	if got != http.ResponseWriter(w) {
		t.Errorf("the handler got a %T; want the %T that came", got, w)
	}
}

func TestStoreCannotAnswer(t *testing.T) {
	tests := []struct {
		onStoreError string
		status       int
	}{{"deny", 503}, {"allow", 200}}
	for _, test := range tests {
		store := memory.New(nil)
		store.Close()
		rule := perUser(5, time.Minute)
		rule.OnStoreError = test.onStoreError
		h := middleware.New(newGate(t, store, rule), nil)(hello)
		w := ask(h, http.MethodGet, "/items/alex")
		if w.Code != test.status || w.Header().Get("RateLimit") != "" {
			t.Errorf("on_store_error %s: status %d, RateLimit %q; want %d and none", test.onStoreError, w.Code, w.Header().Get("RateLimit"), test.status)
		}
		if degraded := w.Header().Get("Stint-Degraded") == "store"; degraded != (test.status == 200) {
			t.Errorf("on_store_error %s: Stint-Degraded is %q", test.onStoreError, w.Header().Get("Stint-Degraded"))
		}
		if retry := w.Header().Get("Retry-After"); test.status == 503 && retry != "1" {
			t.Errorf("Retry-After is %q; want 1", retry)
		}
	}
}

func TestAdmitsExactlyTheQuota(t *testing.T) {
	var handled atomic.Int64
	h := middleware.New(newGate(t, memory.New(nil), perUser(10, time.Hour)), nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		handled.Add(1)
	}))
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { ask(h, http.MethodGet, "/items/alex") })
	}
	wg.Wait()
	if n := handled.Load(); n != 10 {
		t.Errorf("%d of 100 requests reached the handler; want 10", n)
	}
}
