package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/server"
	"github.com/stint-dev/stint/store/memory"
)

// options are those of a process with one transport, on a configuration that
// has yaml behind its version.
func options(t *testing.T, yaml string) server.Options {
	file := filepath.Join(t.TempDir(), "stint.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	return server.Options{Config: file, Log: io.Discard, Transports: []server.Transport{{
		Name:    "api",
		Address: (*config.File).APIAddress,
		Handler: func(p *server.Process) (http.Handler, error) {
			mux := http.NewServeMux()
			server.Health(mux, p)
			return mux, nil
		},
	}}}
}

func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tt := range map[string]struct {
		yaml    string
		options func(*server.Options)
		want    string
	}{
		"an address that is taken": {
			yaml: "listen: {api: \"" + taken.Addr().String() + "\"}\n",
			want: "listen.api: listen tcp " + taken.Addr().String() + ": bind: address already in use; choose another address in the configuration",
		},
		"nothing to serve": {
			yaml: "listen: {api: off}\n",
			want: "nothing to serve: listen.api and listen.grpc are off, and there is no proxy.upstream or listen.proxy is off",
		},
		"a store that is not wired": {
			yaml: "store: sqlite:stint.db\n",
			want: `store: "sqlite" is not known; memory is allowed`,
		},
		"a store that does not open": {
			yaml: "store: sqlite:stint.db\n",
			options: func(o *server.Options) {
				o.Stores = []server.Store{{Schemes: []string{"sqlite"}, Open: func(context.Context, string, *slog.Logger) (limit.Store, error) {
					return nil, errors.New("disk full")
				}}}
			},
			want: "store: disk full",
		},
		"a transport that cannot be made": {
			options: func(o *server.Options) {
				o.Transports[0].Handler = func(*server.Process) (http.Handler, error) { return nil, errors.New("no upstream") }
			},
			want: "api: no upstream",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, tt.yaml)
			if tt.options != nil {
				tt.options(&o)
			}
			if err := server.Run(t.Context(), o); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestRunRefusesABadFileWithAllItsProblems(t *testing.T) {
	o := options(t, "stoer: memory\nlog: {format: xml}\n")
	problems, ok := errors.AsType[server.ConfigError](server.Run(t.Context(), o))
	if !ok || len(problems) != 2 {
		t.Fatalf("%v; want two problems", problems)
	}
	for _, want := range []string{":2:1: stoer: unknown field", ":3:7: log.format: "} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("%v\nlacks %q", problems, want)
		}
	}
}

// TestReadinessFollowsTheProcess: /readyz is 503 while a process that has been
// told to stop still answers what had begun.
func TestReadinessFollowsTheProcess(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	o := options(t, "listen: {api: 127.0.0.1:0}\n")
	ready := make(chan func(context.Context) error, 1)
	began, finish := make(chan struct{}), make(chan struct{})
	o.Transports[0].Handler = func(p *server.Process) (http.Handler, error) {
		ready <- p.Ready
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(began)
			<-finish
			fmt.Fprint(w, p.Ready(context.Background()))
		}), nil
	}
	address := make(chan string, 1)
	o.Started = func(a map[string]net.Addr) { address <- a["api"].String() }
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, o) }()

	isReady := <-ready
	url := "http://" + <-address
	if err := isReady(ctx); err != nil {
		t.Errorf("before: %v", err)
	}
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get(url)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-began
	stop()
	for isReady(context.Background()) == nil { // until Run has noticed
		if t.Context().Err() != nil {
			t.Fatal("still ready")
		}
	}
	close(finish)
	if got := <-answer; got != "shutting down" {
		t.Errorf("the request that had begun got %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// failing is a store that opens, and fails to answer while down is set.
type failing struct {
	limit.Store
	down *atomic.Bool
}

func (f failing) Ping(context.Context) error {
	if f.down.Load() {
		return &limit.StoreError{Store: "failing", Op: "ping", Err: errors.New("connection refused")}
	}
	return nil
}

// TestReadinessFollowsTheStore: without its store a process is only unready if
// a rule refuses requests then.
func TestReadinessFollowsTheStore(t *testing.T) {
	for name, tt := range map[string]struct {
		rule   string // behind its name
		status int
		body   string
	}{
		"counts here":       {"", 200, "degraded: the store does not answer\n"},
		"allows":            {"on_store_error: allow, ", 200, "degraded: the store does not answer\n"},
		"refuses":           {"on_store_error: deny, ", 503, "not ready\n"},
		"refuses, synced":   {"mode: synced, on_store_error: deny, ", 503, "not ready\n"},
		"refuses in shadow": {"shadow: true, on_store_error: deny, ", 200, "degraded: the store does not answer\n"},
		"needs no store":    {"mode: local, on_store_error: deny, ", 200, "degraded: the store does not answer\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var down atomic.Bool
			o := options(t, "listen: {api: 127.0.0.1:0}\nstore: sqlite:x\nrules: [{name: r, "+tt.rule+"limits: [{quota: 1, window: 1s}]}]\n")
			o.Stores = []server.Store{{Schemes: []string{"sqlite"}, Open: func(context.Context, string, *slog.Logger) (limit.Store, error) {
				return failing{memory.New(nil), &down}, nil
			}}}
			address := make(chan string, 1)
			o.Started = func(a map[string]net.Addr) { address <- a["api"].String() }
			ended := make(chan error, 1)
			go func() { ended <- server.Run(ctx, o) }()
			url := "http://" + <-address + "/readyz"
			for _, want := range []struct {
				down   bool
				status int
				body   string
			}{{false, 200, "ok\n"}, {true, tt.status, tt.body}, {false, 200, "ok\n"}} {
				down.Store(want.down)
				resp, err := http.Get(url)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != want.status || string(body) != want.body {
					t.Errorf("down=%v: %d %q; want %d %q", want.down, resp.StatusCode, body, want.status, want.body)
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
