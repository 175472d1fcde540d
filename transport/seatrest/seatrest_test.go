package seatrest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/transport/access"
)

func ask(h http.Handler, method, target, peer string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = peer
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	here  = "127.0.0.1:5000"
	there = "192.0.2.7:5000"
)

func decode(t *testing.T, w *httptest.ResponseRecorder) (s Seats) {
	t.Helper()
	if w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// tenant is a key of the attribute tenant, as rules make it.
func tenant(name string) string { return "\x06tenant" + string(rune(len(name))) + name }

func TestSeats(t *testing.T) {
	i, err := isolate.New(isolate.Config{Seats: 2, Plans: map[string]isolate.Plan{
		"default": {Weight: 1, Queue: 1, QueueTimeout: time.Minute},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // both seats
		s, err := i.Acquire(t.Context(), tenant("noisy"), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	for n, name := range []string{"noisy", "acme"} {
		go func() {
			if s, err := i.Acquire(ctx, tenant(name), 1); err == nil {
				s.Release()
			}
			ended <- struct{}{}
		}()
		for i.Snapshot(0).Waiting != n+1 {
			time.Sleep(time.Millisecond)
		}
	}
	defer func() {
		cancel()
		<-ended
		<-ended
	}()
	if _, err := i.Acquire(t.Context(), tenant("noisy"), 1); err == nil {
		t.Fatal("a full queue took one more")
	}
	time.Sleep(150 * time.Millisecond) // who waits behind whom is worked out every 100 ms
	canary := &isolate.Canary{}
	h := New(func() *isolate.Isolator { return i }, &Options{Canary: func() *isolate.Canary { return canary }})
	s := decode(t, ask(h, "GET", Path, here))
	if len(s.BySeatTime) < 1 || s.BySeatTime[0].SeatSeconds < 0.3 || len(s.Behind) < 1 || s.Behind[0].WaitedSeconds <= 0 {
		t.Fatalf("%+v", s)
	}
	noisy := Tenant{Tenant: "tenant=noisy", Plan: "default", Busy: 2, Waiting: 1, Cap: 2, Refused: 1}
	for n := range s.ByRefusals {
		s.ByRefusals[n].SeatSeconds, s.ByRefusals[n].WaitedSeconds, s.ByRefusals[n].Demand, s.ByRefusals[n].Share = 0, 0, 0, 0
	}
	behind := map[string]bool{}
	for _, b := range s.Behind {
		behind[b.Waiter+" "+b.Holder] = true
	}
	if !behind["tenant=acme tenant=noisy"] {
		t.Errorf("who waited behind whom: %+v", s.Behind)
	}
	s.BySeatTime, s.Behind = nil, nil
	want := Seats{Isolation: true, Seats: 2, Busy: 2, Waiting: 2, Tenants: 2, Started: 2, Refused: 1, Canary: &Canary{}, ByRefusals: []Tenant{noisy}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := decode(t, ask(h, "GET", Path+"?top=0", here)); len(s.BySeatTime)+len(s.ByRefusals)+len(s.Behind) != 0 || s.Busy != 2 {
		t.Errorf("top=0: %+v", s)
	}
}

func TestNoSeats(t *testing.T) {
	h := New(func() *isolate.Isolator { return nil }, nil)
	w := ask(h, "GET", Path, here)
	if body := w.Body.String(); !strings.Contains(body, `"bySeatTime":[]`) || !strings.Contains(body, `"canary":null`) {
		t.Errorf("programs need lists, also empty ones: %s", body)
	}
	if s := decode(t, w); s.Isolation {
		t.Errorf("%+v", s)
	}
}

func TestWhoIsAnswered(t *testing.T) {
	none := func() *isolate.Isolator { return nil }
	open := New(none, nil)
	closed := New(none, &Options{Admin: access.New(&access.Options{Tokens: []access.Token{
		{Name: "ops", Hash: sha256.Sum256([]byte("correct horse battery staple"))}, // may look
	}})})
	for _, tt := range []struct {
		name           string
		handler        http.Handler
		method, target string
		peer, token    string
		status         int
	}{
		{"no token, here", open, "GET", Path, here, "", 200},
		{"a token, and none sent", closed, "GET", Path, here, "", 401},
		{"another token", closed, "GET", Path, there, "Bearer correct horse battery stapl", 401},
		{"another scheme", closed, "GET", Path, there, "Basic correct horse battery staple", 401},
		{"the token", closed, "GET", Path, there, "Bearer correct horse battery staple", 200},
		{"the token, in lower case", closed, "HEAD", Path, there, "bearer correct horse battery staple", 200},
		{"another method", open, "POST", Path, here, "", 405},
		{"the method is told to nobody without the token", closed, "POST", Path, here, "", 401},
		{"too many", open, "GET", Path + "?top=101", here, "", 400},
		{"less than none", open, "GET", Path + "?top=-1", here, "", 400},
		{"not a number", open, "GET", Path + "?top=ten", here, "", 400},
	} {
		w := ask(tt.handler, tt.method, tt.target, tt.peer, "Authorization", tt.token)
		if w.Code != tt.status || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d %v %s; want %d", tt.name, w.Code, w.Header(), w.Body, tt.status)
		}
		if w.Code == 400 && !strings.Contains(w.Body.String(), "0 to 100 is") {
			t.Errorf("%s: %s", tt.name, w.Body)
		}
	}
}
