package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/server"
)

// shared are the stores that several processes can share, and how to start a
// server of each.
var shared = []struct {
	name     string
	url      func(t *testing.T) string
	migrates bool // it needs tables before it can be opened
}{
	{"postgres", func(t *testing.T) string { return servertest.StartPostgres(t).URL }, true},
	{"mysql", func(t *testing.T) string { return servertest.StartMariaDB(t).URL + "stint" }, true},
	{"mongodb", func(t *testing.T) string { return servertest.StartMongoDB(t).URL + "/stint" }, true},
	{"redis", func(t *testing.T) string { return servertest.StartRedis(t).URL }, false},
}

// TestSharedStore takes each store from an empty database to two processes
// that share a limit, as an operator does.
func TestSharedStore(t *testing.T) {
	for _, kind := range shared {
		t.Run(kind.name, func(t *testing.T) {
			url := kind.url(t)
			t.Setenv("STINT_TEST_STORE", url)
			const store = "store: env:STINT_TEST_STORE\n"

			if kind.migrates {
				refuseWithoutTables(t, url)
			}
			code, first, errs := stint(t, "migrate", "--store", "env:STINT_TEST_STORE")
			if code != exitOK || first == "" {
				t.Fatalf("migrate: %d %q %q", code, first, errs)
			}
			code, second, errs := stint(t, "migrate", "--store", url)
			if code != exitOK || !strings.Contains(second, "nothing to do") {
				t.Errorf("migrate again: %d %q %q", code, second, errs)
			}
			if code, script, errs := stint(t, "migrate", "--store", url, "--print"); code != exitOK || !strings.Contains(script, "stint") {
				t.Errorf("migrate --print: %d %q %q", code, script, errs)
			}

			one, two := serve(t, hello, store+itemsRule), serve(t, hello, store+itemsRule)
			if code := one.get(one.proxy + "/items/alex").StatusCode; code != http.StatusOK {
				t.Errorf("the first request, to one process: %d", code)
			}
			if code := two.get(two.proxy + "/items/alex").StatusCode; code != http.StatusTooManyRequests {
				t.Errorf("the second, to the other: %d, want 429", code)
			}
			if code := two.get(two.api + "/readyz").StatusCode; code != http.StatusOK {
				t.Errorf("/readyz: %d", code)
			}
		})
	}
}

// refuseWithoutTables starts a process on an empty database. It must say what
// is to be done.
func refuseWithoutTables(t *testing.T, url string) {
	t.Helper()
	if code, out, errs := stint(t, "migrate", "--store", url, "--print"); code != exitOK || out == "" {
		t.Errorf("migrate --print: %d %q %q", code, out, errs)
	}
	file := filepath.Join(t.TempDir(), "stint.yaml")
	text := "version: 1\nlisten: {api: 127.0.0.1:0}\nstore: env:STINT_TEST_STORE\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs := stint(t, "serve", "--config", file)
	if code != exitFailed || !strings.Contains(errs, "stint migrate --store") {
		t.Errorf("serve without tables: %d %q; want %d and what to do", code, errs, exitFailed)
	}
}

// TestFormReachesTheService: what the rules read of a body, the service reads
// again.
func TestFormReachesTheService(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	p := serve(t, echo, `
identity:
  attributes:
    user: [{form: {name: username, unverified: true}}]
rules:
  - {name: tokens, match: {path: /token}, key: user, limits: [{quota: 1, window: 1h}]}
`)
	const form = "application/x-www-form-urlencoded"
	large := "username=kim&x=" + strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		path, contentType, body string
		status                  int
	}{
		{"/token", form, "grant_type=password&username=ann", 200},
		{"/token", form, "grant_type=password&username=ann", 429},
		{"/token", form, "grant_type=password&username=bob", 200},
		{"/token", form, large, 200}, // of nobody
		{"/token", form, large, 429},
		{"/other", form, large, 200},
	} {
		resp, err := http.Post(p.proxy+tt.path, tt.contentType, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || err != nil || tt.status == 200 && string(body) != tt.body {
			t.Errorf("%s %.40s: %d with %d bytes (%v); want %d with %d", tt.path, tt.body, resp.StatusCode, len(body), err, tt.status, len(tt.body))
		}
	}
}

// TestEveryStoreIsWired: what a configuration may name can be opened, and what
// can be migrated can be printed.
func TestEveryStoreIsWired(t *testing.T) {
	for _, scheme := range config.StoreSchemes() {
		if scheme == "memory" {
			continue
		}
		s, err := server.StoreOf(stores, scheme+"://host")
		if err != nil {
			t.Error(err)
		}
		if (s.Migrate == nil) != (s.Script == nil) {
			t.Errorf("%s has only one of Migrate and Script", scheme)
		}
	}
}
