// Command demo is a small service to try Stint on: items of users, a report
// that is expensive to make, and an OAuth 2.0 token endpoint. It limits
// nothing by itself.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9000", "`address` to accept connections on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err == nil {
		slog.Info("demo service listens", "address", listener.Addr().String())
		err = serve(ctx, listener)
	}
	if err != nil {
		slog.Error("demo service failed", "error", err)
		os.Exit(1)
	}
}

// serve answers until ctx ends, and then lets what is under way end.
func serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           newService(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// newService returns everything that the demo answers.
func newService() http.Handler {
	items := newItems()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{user}", items.list)
	mux.HandleFunc("POST /items/{user}", items.add)
	mux.HandleFunc("GET /report", report)
	mux.HandleFunc("POST /oauth/token", token)
	return mux
}

// answer sends v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Debug("answer was not sent", "error", err)
	}
}

// failure is what is sent when a request cannot be served.
type failure struct {
	Error       string `json:"error"`
	Description string `json:"error_description,omitempty"`
}
