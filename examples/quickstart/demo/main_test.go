package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func send(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestItems(t *testing.T) {
	h := newService()
	const starters = `{"user":"alex","items":[{"id":1,"name":"notebook"},{"id":2,"name":"pencil"},{"id":3,"name":"lamp"}]}`
	steps := []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/items/alex", "", 200, starters},
		{"POST", "/items/alex", `{"name":"stapler"}`, 201, `{"id":4,"name":"stapler"}`},
		{"GET", "/items/alex", "", 200, strings.Replace(starters, `]`, `,{"id":4,"name":"stapler"}]`, 1)},
		{"GET", "/items/kim", "", 200, strings.Replace(starters, "alex", "kim", 1)},
		{"POST", "/items/alex", `stapler`, 400, `{"error":"a JSON object is needed, such as {\"name\":\"stapler\"}"}`},
		{"POST", "/items/alex", `{"name":""}`, 400, `{"error":"names of 1 to 100 bytes are allowed"}`},
		{"POST", "/items/" + strings.Repeat("a", 101), `{"name":"x"}`, 400, `{"error":"names of 1 to 100 bytes are allowed"}`},
	}
	for _, s := range steps {
		w := send(h, s.method, s.target, s.body)
		if got := strings.TrimSpace(w.Body.String()); w.Code != s.status || got != s.want {
			t.Errorf("%s %s %s: %d %s; want %d %s", s.method, s.target, s.body, w.Code, got, s.status, s.want)
		}
	}
}

func TestItemsAreBounded(t *testing.T) {
	h := newService()
	for i := range maxItems - len(starters) {
		if w := send(h, "POST", "/items/alex", `{"name":"x"}`); w.Code != 201 {
			t.Fatalf("item %d: %d %s", i, w.Code, w.Body)
		}
	}
	for i := range maxUsers - 1 {
		if w := send(h, "POST", fmt.Sprintf("/items/user%d", i), `{"name":"x"}`); w.Code != 201 {
			t.Fatalf("user %d: %d %s", i, w.Code, w.Body)
		}
	}
	for _, target := range []string{"/items/alex", "/items/one-too-many"} {
		if w := send(h, "POST", target, `{"name":"x"}`); w.Code != 507 {
			t.Errorf("POST %s: %d %s; want 507", target, w.Code, w.Body)
		}
	}
}

func TestReport(t *testing.T) {
	w := send(newService(), "GET", "/report", "")
	var got summary
	if err := json.Unmarshal(w.Body.Bytes(), &got); w.Code != 200 || err != nil {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	sum := 0
	for _, n := range got.ByRegion {
		sum += n
	}
	if got.Orders != orders || sum != orders || len(got.ByRegion) != 4 || got.MedianCents >= got.P99Cents || got.RevenueCents < orders*500 {
		t.Errorf("report is %+v", got)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := summarize(gone, orders); err != context.Canceled {
		t.Errorf("a report for a caller who is gone: %v", err)
	}
}

func BenchmarkReport(b *testing.B) {
	for b.Loop() {
		if _, err := summarize(b.Context(), orders); err != nil {
			b.Fatal(err)
		}
	}
}

func TestToken(t *testing.T) {
	form := func(pairs ...string) string {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v.Encode()
	}
	const grantType, id, secret = "client_credentials", "demo-app", "demo-secret"
	tests := []struct {
		name, body     string
		user, password string
		status         int
		code           string
	}{
		{"form", form("grant_type", grantType, "client_id", id, "client_secret", secret), "", "", 200, ""},
		{"basic", form("grant_type", grantType), id, secret, 200, ""},
		{"basic, encoded", form("grant_type", grantType), "demo%2Dapp", "demo-secret", 200, ""},
		{"basic, badly encoded", form("grant_type", grantType), "demo%2", secret, 401, "invalid_client"},
		{"both", form("grant_type", grantType, "client_id", id, "client_secret", secret), id, secret, 400, "invalid_request"},
		{"neither", form("grant_type", grantType), "", "", 401, "invalid_client"},
		{"wrong secret", form("grant_type", grantType), id, "x", 401, "invalid_client"},
		{"unknown client without a secret", form("grant_type", grantType, "client_id", "x"), "", "", 401, "invalid_client"},
		{"no grant type", form(), id, secret, 400, "invalid_request"},
		{"for a user", form("grant_type", "password", "username", "alex", "password", "alex-password"), id, secret, 200, ""},
		{"a user's wrong password", form("grant_type", "password", "username", "alex", "password", "kim-password"), id, secret, 400, "invalid_grant"},
		{"an unknown user", form("grant_type", "password", "username", "nobody", "password", ""), id, secret, 400, "invalid_grant"},
		{"another grant type", form("grant_type", "implicit"), id, secret, 400, "unsupported_grant_type"},
		{"twice", form("grant_type", grantType, "grant_type", grantType), id, secret, 400, "invalid_request"},
		{"too large", form("grant_type", strings.Repeat("x", 9<<10)), id, secret, 400, "invalid_request"},
	}
	h := newService()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/oauth/token", strings.NewReader(test.body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if test.user != "" {
				r.SetBasicAuth(test.user, test.password)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var got struct {
				grant
				failure
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.status || got.Error != test.code || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%d %s, Cache-Control %q; want %d %q", w.Code, w.Body, w.Header().Get("Cache-Control"), test.status, test.code)
			}
			if challenge := w.Header().Get("WWW-Authenticate") != ""; challenge != (test.status == 401) {
				t.Errorf("WWW-Authenticate is %q with status %d", w.Header().Get("WWW-Authenticate"), w.Code)
			}
			if test.status == 200 && (len(got.AccessToken) < 20 || got.TokenType != "Bearer" || got.ExpiresIn != 3600) {
				t.Errorf("grant is %+v", got.grant)
			}
		})
	}
}

func TestTokensDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for range 10 {
		r := httptest.NewRequest("POST", "/oauth/token", strings.NewReader("grant_type=client_credentials"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("trusted-app", "trusted-secret")
		w := httptest.NewRecorder()
		newService().ServeHTTP(w, r)
		seen[w.Body.String()] = true
	}
	if len(seen) != 10 {
		t.Errorf("10 requests got %d tokens", len(seen))
	}
}

// A request that is under way when the service is told to stop is answered.
func TestShutdownIsGraceful(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()

	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The service waits for the rest of the body while it is told to stop.
	io.WriteString(conn, "POST /items/alex HTTP/1.1\r\nHost: demo\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n")
	head := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, head); err != nil {
		t.Fatal(err)
	}
	stop()
	io.WriteString(conn, `{"name":"x"}`)
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 201 Created\r\n") {
		t.Errorf("answer is %q, %v", answer, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the service did not stop")
	}
}
