package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Health adds to mux what an orchestrator asks: /healthz is 200 while the
// process lives, /readyz is 200 while it should be sent requests and 503 while
// it should not; and /metrics.
//
// A store that does not answer makes a process unready only if a rule refuses
// requests then. Otherwise every process that shares the store would be taken
// out of service at once, and with them the decisions that they can still make.
func Health(mux *http.ServeMux, p *Process) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		switch err := p.Ready(ctx); {
		case err == nil:
			fmt.Fprintln(w, "ok")
		case errors.Is(err, ErrDegraded):
			p.Logger.Warn("degraded", "error", err)
			fmt.Fprintln(w, "degraded: the store does not answer")
		case errors.Is(err, ErrRulesStale):
			p.Logger.Warn("degraded", "error", err)
			fmt.Fprintln(w, "degraded: "+ErrRulesStale.Error())
		default:
			p.Logger.Warn("not ready", "error", err)
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /metrics", p.Metrics.Handler())
}
