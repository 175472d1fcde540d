package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/rest"
)

// api is Stint's, with quota units an hour for each user of /items/{user}.
func api(t testing.TB, quota int64) http.Handler {
	t.Helper()
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name: "items", Match: rules.MatchSpec{Path: "/items/{user}"}, Key: []string{"user"},
		Limits: []rules.LimitSpec{{Quota: quota, Window: rules.Duration(time.Hour)}},
	}}})
	if set == nil {
		t.Fatal(problems)
	}
	return rest.New(gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set}, nil), nil)
}

// start serves h and returns a Client of it.
func start(t testing.TB, h http.Handler, o *client.Options) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func items(user string) rest.Ask {
	return rest.Ask{Descriptors: []rest.Descriptor{{Method: "GET", Path: "/items/" + user}}}
}

func TestDecide(t *testing.T) {
	c := start(t, api(t, 1), nil)
	for i, want := range []bool{true, false} {
		a, err := c.Decide(t.Context(), items("alex"))
		if err != nil || a.Allowed != want || len(a.Decisions) != 1 || a.Decisions[0].Policy != "items" || want == (a.RetryAfterMS > 0) {
			t.Errorf("decision %d: %+v, %v", i, a, err)
		}
	}
}

// TestRetriesAreNotChargedAgain loses the answers of every other attempt after
// they have been charged.
func TestRetriesAreNotChargedAgain(t *testing.T) {
	const quota = 50
	h := api(t, quota)
	var attempts atomic.Int64
	lossy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := attempts.Add(1)
		if n%2 == 0 {
			h.ServeHTTP(w, r)
			return
		}
		lost := httptest.NewRecorder()
		h.ServeHTTP(lost, r)
		switch n % 6 {
		case 1:
			panic(http.ErrAbortHandler) // the connection breaks
		case 3:
			w.WriteHeader(http.StatusBadGateway) // a proxy in between gives up
		default:
			w.Header().Set("Content-Length", "1000") // the answer breaks off
			w.Write(lost.Body.Bytes())
		}
	})
	c := start(t, lossy, &client.Options{Timeout: 20 * time.Second, Attempts: 5})
	for i := range int64(quota) {
		a, err := c.Decide(t.Context(), items("alex"))
		if err != nil || !a.Allowed || a.Decisions[0].Remaining != quota-1-i {
			t.Fatalf("decision %d: %+v, %v", i, a, err)
		}
	}
	if n := attempts.Load(); n != 2*quota {
		t.Errorf("%d attempts for %d decisions", n, quota)
	}
	if a, err := c.Decide(t.Context(), items("alex")); err != nil || a.Allowed {
		t.Errorf("one more than the quota: %+v, %v", a, err)
	}
}

func TestBadAskIsToldAndNotRepeated(t *testing.T) {
	h := api(t, 1)
	var attempts atomic.Int64
	c := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { attempts.Add(1); h.ServeHTTP(w, r) }), &client.Options{
		OnError: func(error) bool { t.Error("OnError was asked"); return true },
	})
	_, err := c.Decide(t.Context(), rest.Ask{})
	bad, ok := errors.AsType[*client.AskError](err)
	if !ok || bad.Status != 400 || err.Error() != "client: 400: body.descriptors: none; 1 to 100 are needed" && !strings.Contains(err.Error(), "descriptors") || attempts.Load() != 1 {
		t.Errorf("%v after %d attempts", err, attempts.Load())
	}
}

// silent answers nothing until its caller goes away.
func silent(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // only then does a server look after its caller
	<-r.Context().Done()
}

// TestUndecided: each way in which there is no decision, and each policy for it.
func TestUndecided(t *testing.T) {
	for name, tt := range map[string]struct {
		serve    http.HandlerFunc
		attempts int64
	}{
		"always 503":     {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, 3},
		"503, for long":  {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Retry-After", "60"); w.WriteHeader(503) }, 1},
		"breaks off":     {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, 3},
		"no answer":      {silent, 1},
		"another server": {func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) }, 1},
		"sent elsewhere": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, 1},
		"an endless answer": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Write(make([]byte, 1<<16))
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for policy, onError := range map[string]func(error) bool{"error": nil, "allow": func(error) bool { return true }, "deny": func(error) bool { return false }} {
				var attempts atomic.Int64
				c := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { attempts.Add(1); tt.serve(w, r) }), &client.Options{Timeout: 500 * time.Millisecond, OnError: onError})
				began := time.Now()
				a, err := c.Decide(t.Context(), items("alex"))
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s: took %v", policy, took)
				}
				if (err != nil) != (policy == "error") || a.Allowed != (policy == "allow") || (a.Status == 503) != (policy == "deny") {
					t.Errorf("%s: %+v, %v", policy, a, err)
				}
				if got := attempts.Load(); got > tt.attempts || got < 1 {
					t.Errorf("%s: %d attempts, want %d", policy, got, tt.attempts)
				}
			}
		})
	}
}

func TestCallersContext(t *testing.T) {
	c := start(t, http.HandlerFunc(silent), &client.Options{
		Timeout: time.Minute, OnError: func(error) bool { t.Error("OnError was asked"); return true },
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Decide(ctx, items("alex")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestToken(t *testing.T) {
	var got string
	c := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.Write([]byte(`{"allowed":true}`))
	}), &client.Options{Token: "secret"})
	if _, err := c.Decide(t.Context(), items("alex")); err != nil || got != "Bearer secret" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNew(t *testing.T) {
	for _, base := range []string{"", "localhost:8080", "ftp://localhost", "http://", "http://user@localhost", "http://localhost?x=1", "http://localhost#x", "://"} {
		if c, err := client.New(base, nil); err == nil {
			t.Errorf("%q: %+v", base, c)
		}
	}
	for _, o := range []client.Options{{Timeout: -1}, {Attempts: -1}} {
		if _, err := client.New("http://localhost", &o); err == nil {
			t.Errorf("%+v", o)
		}
	}
}
