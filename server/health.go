package server

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Health adds to mux what an orchestrator asks: /healthz is 200 while the
// process lives, /readyz is 200 while it should be sent requests and 503, with
// the reason, while it should not; and /metrics.
func Health(mux *http.ServeMux, p *Process) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := p.Ready(ctx); err != nil {
			p.Logger.Warn("not ready", "error", err)
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", p.Metrics.Handler())
}
