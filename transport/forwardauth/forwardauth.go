// Package forwardauth answers reverse proxies that ask, before they pass a
// request on, whether they may: nginx's auth_request, Traefik's ForwardAuth,
// Caddy's forward_auth and HAProxy's Lua.
//
// The proxy describes the request in headers. They are believed from trusted
// proxies only; whoever else asks is refused, whatever it says. What the
// request of the proxy has in its own query is not looked at: some proxies pass
// on that of their visitor.
package forwardauth

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// The paths that are answered.
const (
	// PathForward is for proxies that give their visitor the answer that they
	// get: 204 for a request that may pass, and otherwise the refusal as the
	// visitor is to see it. The request is described by X-Forwarded-Method,
	// -Uri, -Host and -For.
	PathForward = "/auth/forward"
	// PathNginx is for auth_request, which knows no refusals but 401 and 403:
	// 204 for a request that may pass, and otherwise 403, with the status to
	// refuse it with in Stint-Status. The request is described by
	// X-Original-Method, X-Original-URI, Host and X-Forwarded-For.
	PathNginx = "/auth/nginx"
)

// Options configure the handler.
type Options struct {
	// Headers is the dialect of the rate limit fields. Defaults to Draft10.
	Headers httpanswer.Dialect
	// TrustedProxy reports whether what a peer says of a request is to be
	// believed. If nil, no peer is trusted and nothing is ever let through.
	TrustedProxy func(netip.Addr) bool
	// Logger is told of requests that cannot be decided, at most one a second.
	// Defaults to slog.Default().
	Logger *slog.Logger
}

// New returns what answers PathForward and PathNginx by what g decides of the
// request that the proxy describes. A nil o is the zero Options. The handler is
// safe for simultaneous use.
//
// Who sent the described request is found out from the headers of the proxy's
// own, as g's Identifier does for any other: cookies, Authorization and the
// rest are the visitor's. It has no body.
//
// A peer that is not trusted, or a description that is not complete, is
// refused: 403 and 400. So is a method, host or URI that services could
// understand otherwise than the rules do.
func New(g *gate.Gate, o *Options) http.Handler {
	h := &handler{gate: g}
	if o != nil {
		h.options = *o
	}
	if h.options.TrustedProxy == nil {
		h.options.TrustedProxy = func(netip.Addr) bool { return false }
	}
	if h.options.Logger == nil {
		h.options.Logger = slog.Default()
	}
	return h
}

type handler struct {
	gate     *gate.Gate
	options  Options
	outcomes sync.Pool    // of *gate.Outcome
	logged   atomic.Int64 // when a refusal was last logged, in Unix seconds
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var d dialect
	switch r.URL.Path {
	case PathForward:
		d = forward
	case PathNginx:
		d = nginx
	default:
		httpanswer.Problem{Status: http.StatusNotFound, Detail: "There is no such path; " + PathForward + " and " + PathNginx + " are there."}.Write(w, r)
		return
	}
	original, bad := h.original(r, d)
	if bad != nil {
		h.log(r, bad)
		d.refuse(w, r, bad)
		return
	}
	out, _ := h.outcomes.Get().(*gate.Outcome)
	if out == nil {
		out = new(gate.Outcome)
	}
	defer h.outcomes.Put(out)
	h.gate.HTTP(original, out)
	switch {
	case out.Allowed:
		httpanswer.SetHeaders(w.Header(), h.options.Headers, out)
		w.Header()["Cache-Control"] = noStore
		w.WriteHeader(http.StatusNoContent)
	case d == nginx:
		httpanswer.SetHeaders(w.Header(), h.options.Headers, out)
		httpanswer.SetRetryAfter(w.Header(), out)
		w.Header()["Cache-Control"] = noStore
		// No body: nginx drops it, and the connection with it.
		w.Header().Set(statusHeader, strconv.Itoa(out.Status))
		w.WriteHeader(http.StatusForbidden)
	default:
		httpanswer.Write(w, original, h.options.Headers, out)
	}
}

var noStore = []string{"no-store"}

// statusHeader is the status that nginx is to refuse its visitor with.
const statusHeader = "Stint-Status"

// refuse answers a request about which nothing was decided.
func (d dialect) refuse(w http.ResponseWriter, r *http.Request, bad *refusal) {
	status := bad.status
	if d == nginx {
		w.Header().Set(statusHeader, strconv.Itoa(bad.status))
		status = http.StatusForbidden
	}
	httpanswer.Problem{Status: status, Detail: bad.detail}.Write(w, r)
}

// log tells an operator what is wrong with a proxy's configuration, or with its
// visitors. Anybody can cause a line, so there is one a second at most.
func (h *handler) log(r *http.Request, bad *refusal) {
	now := time.Now().Unix()
	if last := h.logged.Load(); last == now || !h.logged.CompareAndSwap(last, now) {
		return
	}
	h.options.Logger.Warn("forward-auth: a request was refused undecided", "path", r.URL.Path, "peer", r.RemoteAddr, "status", bad.status, "reason", bad.detail)
}

// original returns the request that r describes.
func (h *handler) original(r *http.Request, d dialect) (*http.Request, *refusal) {
	connection, _ := netip.ParseAddrPort(r.RemoteAddr) // that of a TCP connection always parses
	if peer := connection.Addr().Unmap(); !h.options.TrustedProxy(peer) {
		return nil, &refusal{http.StatusForbidden, fmt.Sprintf("peer: %s is not in identity.trusted_proxies, so it is not believed about requests", peer)}
	}
	return d.original(r)
}
