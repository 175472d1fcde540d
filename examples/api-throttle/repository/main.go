// Command repository is the service of the example that throttles an API: entities,
// and an export that takes its time. It limits nothing by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9001", "`address` to accept connections on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: *address, Handler: newService(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		slog.Error("repository failed", "error", err)
		os.Exit(1)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		slog.Error("repository did not stop well", "error", err)
	}
}

// exportTime is how long an export takes.
const exportTime = 5 * time.Second

// newService returns everything that the repository answers.
func newService() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /repo/v1/export", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(exportTime):
			fmt.Fprintln(w, "all of it")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Method, r.URL.Path) })
	return mux
}
