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
// it. A request of any method is one like others, HEAD and OPTIONS too. A nil
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
	if h.admit(w, r) {
		h.next.ServeHTTP(w, r)
	}
}

// admit decides r. It has answered r if that is not admitted.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) bool {
	out, _ := h.outcomes.Get().(*gate.Outcome)
	if out == nil {
		out = new(gate.Outcome)
	}
	// Back before the next handler runs: that may take as long as a download.
	defer h.outcomes.Put(out)

	h.gate.HTTP(r, out)
	if !out.Allowed {
		h.options.Refuse(w, r, out)
		return false
	}
	httpanswer.SetHeaders(w.Header(), h.options.Headers, out)
	return true
}
