// Package middleware limits the requests of a net/http server.
//
// What the wrapped handler gets is the ResponseWriter and the Request as they
// came, so whatever they can do beside their interface (flush, hijack, set
// deadlines) the handler can use.
package middleware

import (
	"net/http"
	"sync"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// Options configure the middleware. The zero value is ready to use.
type Options struct {
	// Headers is the dialect of the rate limit fields. Defaults to Draft10.
	Headers httpanswer.Dialect
	// Refuse answers a request that is not admitted. out is only valid during
	// the call. Defaults to httpanswer.Write.
	Refuse func(w http.ResponseWriter, r *http.Request, out *gate.Outcome)
}

// New returns what wraps a handler, so that only requests that g admits reach
// it. If the rules ask for seats, a request holds one until the handler has returned:
// also if it panics, and if its time is up and its caller has been answered. The
// handler's context carries the seat. A request of any method is one like others, HEAD and OPTIONS too. A nil
// o is the zero Options.
//
// The rate limit fields are set before the handler runs. A handler that sets
// fields of the same name replaces them; one that adds to them is understood
// as naming further policies.
//
// The handlers are safe for simultaneous use.
func New(g *gate.Gate, o *Options) func(http.Handler) http.Handler {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Refuse == nil {
		opts.Refuse = func(w http.ResponseWriter, r *http.Request, out *gate.Outcome) {
			httpanswer.Write(w, r, opts.Headers, out)
		}
	}
	return func(next http.Handler) http.Handler {
		return &handler{gate: g, options: opts, next: next}
	}
}

type handler struct {
	gate     *gate.Gate
	options  Options
	next     http.Handler
	outcomes sync.Pool // of *gate.Outcome
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pass, admitted := h.admit(w, r)
	switch {
	case !admitted:
	case !pass.Held():
		h.next.ServeHTTP(w, r)
	case pass.Until.IsZero():
		defer pass.Release()
		h.next.ServeHTTP(w, r.WithContext(pass.Context(r.Context())))
	default:
		serveUntil(pass.Until, w, r.WithContext(pass.Context(r.Context())), h.next, late(r), pass.Release)
	}
}

// late answers r when its time is up.
func late(r *http.Request) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		httpanswer.Problem{
			Status: http.StatusServiceUnavailable,
			Detail: "This request has taken as long as it may, waiting and running together. Try again in 1s.",
		}.Write(w, r)
	}
}

// admit decides r. It has answered r if that is not admitted.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) (gate.Pass, bool) {
	out, _ := h.outcomes.Get().(*gate.Outcome)
	if out == nil {
		out = new(gate.Outcome)
	}
	// Back before the next handler runs: that may take as long as a download.
	defer h.outcomes.Put(out)

	pass := h.gate.Enter(r, out)
	if !out.Allowed {
		h.options.Refuse(w, r, out)
		return gate.Pass{}, false
	}
	httpanswer.SetHeaders(w.Header(), h.options.Headers, out)
	return pass, true
}
