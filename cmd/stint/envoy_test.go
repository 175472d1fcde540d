package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/servertest"
)

// TestEnvoy puts a real Envoy, with the configuration of deploy/envoy, in front of
// a service: the limits of Stint hold, callers are told, and a caller whose value is
// no text at all is limited as any other.
func TestEnvoy(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	defer service.Close()
	rules, err := os.ReadFile("../../deploy/envoy/stint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := os.ReadFile("../../deploy/envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stint := startGRPC(t, string(rules))
	port := func(address string) string { _, p, _ := net.SplitHostPort(address); return "port_value: " + p }
	listen := "127.0.0.1:" + strconv.Itoa(servertest.FreePort(t))
	servertest.Envoy(t, listen, strings.NewReplacer(
		port(":10000"), port(listen),
		port(":9000"), port(service.Listener.Addr().String()),
		port(":8081"), port(stint),
	).Replace(string(configuration)))

	for i, tt := range []struct {
		path, user string
		status     int
		fields     map[string]string // by their beginnings
	}{
		{"/", "", 200, map[string]string{"Ratelimit-Policy": `"addresses";q=100;w=60`, "Ratelimit": `"addresses";r=99;t=`}},
		{"/search", "ann", 200, map[string]string{"Ratelimit": `"search";r=1;`}},
		{"/search", "ann", 200, map[string]string{"Ratelimit": `"search";r=0;`}},
		{"/search", "ann", 429, map[string]string{"Ratelimit": `"search";r=0;`, "Retry-After": "1", "X-Envoy-Ratelimited": "true"}},
		{"/search", "bob", 200, map[string]string{"Ratelimit": `"search";r=1;`}},
		{"/search", "monitoring", 200, map[string]string{"Ratelimit": `"addresses";`}},
		{"/search", "monitoring", 200, nil},
		{"/search", "monitoring", 200, nil},
		{"/other", "ann", 200, nil},
		{"/search", "\xff\xfe", 200, map[string]string{"Ratelimit": `"search";r=1;`}},
		{"/search", "\xff\xfe", 200, map[string]string{"Ratelimit": `"search";r=0;`}},
		{"/search", "\xff\xfe", 429, nil},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+listen+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.user != "" {
			r.Header.Set("X-User", tt.user)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != tt.status {
			t.Errorf("%d: %s for %q: %d, want %d (%v)", i, tt.path, tt.user, answer.StatusCode, tt.status, answer.Header)
		}
		for name, beginning := range tt.fields {
			if got := answer.Header.Get(name); !strings.HasPrefix(got, beginning) {
				t.Errorf("%d: %s for %q: %s: %q, want %s...", i, tt.path, tt.user, name, got, beginning)
			}
		}
	}
}
