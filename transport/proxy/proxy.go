// Package proxy is a reverse proxy in front of one upstream.
//
// It limits nothing by itself: wrap it with transport/middleware.
package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"time"
)

// Options configure a proxy. Upstream is required.
type Options struct {
	// Upstream is where requests go: http or https, a host, and nothing else.
	Upstream *url.URL
	// PreserveHost sends the caller's Host to the upstream. Otherwise the
	// upstream sees its own.
	PreserveHost bool
	// Timeout is the longest that the upstream may take to accept a
	// connection, and then from the end of a request to the header of its
	// answer. A body may take as long as it likes. Defaults to 30s.
	Timeout time.Duration
	// TrustedProxy reports whether what a peer says in X-Forwarded headers is
	// to be believed. If nil, no peer is trusted.
	TrustedProxy func(netip.Addr) bool
	// Logger is told about trouble with the upstream. Defaults to slog.Default().
	Logger *slog.Logger
}

// New returns a reverse proxy, or an error that says what is wrong with o.
//
// Path and query reach the upstream encoded as the caller sent them. Bodies,
// trailers, server-sent events and protocol upgrades such as WebSocket are
// passed on as they come. When the caller goes, the request to the upstream is
// cancelled.
//
// An upstream that cannot be reached, or breaks off before its answer, is
// answered with 502, one that takes longer than Timeout with 504, both with a
// problem body.
//
// The handler is safe for simultaneous use.
func New(o Options) (http.Handler, error) {
	if err := checkUpstream(o.Upstream); err != nil {
		return nil, fmt.Errorf("proxy: upstream: %w", err)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("proxy: timeout: %v is negative; more than 0 is allowed, such as 30s", o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.TrustedProxy == nil {
		o.TrustedProxy = func(netip.Addr) bool { return false }
	}
	reverse := &httputil.ReverseProxy{
		Rewrite:      o.rewrite,
		Transport:    newTransport(o.Timeout),
		BufferPool:   new(buffers),
		ErrorHandler: o.fail,
		ErrorLog:     slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			// An upstream may answer while it still reads. Without this, net/http then
			// takes the rest of the body for itself, and the upstream gets half of it.
			http.NewResponseController(w).EnableFullDuplex() // HTTP/2 is that anyway
		}
		reverse.ServeHTTP(&keeper{ResponseWriter: w, before: maps.Clone(w.Header())}, r)
	}), nil
}

func checkUpstream(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("missing; a URL is needed, such as http://localhost:9000")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("scheme %q is not supported; http and https are allowed", u.Scheme)
	case u.Host == "" || u.Opaque != "":
		return fmt.Errorf("%q has no host; a URL is needed, such as http://localhost:9000", u.Redacted())
	case u.User != nil:
		return errors.New("a user is not supported; let callers send their own Authorization")
	case u.Path != "" && u.Path != "/":
		// A caller's ../ would lead out of it.
		return fmt.Errorf("path %q is not supported; only a host is allowed", u.Path)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fmt.Errorf("%q has a query or fragment; only a host is allowed", u.Redacted())
	}
	return nil
}

// newTransport returns the connections to the upstream.
func newTransport(timeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: timeout}).DialContext,
		TLSHandshakeTimeout:   timeout,
		ResponseHeaderTimeout: timeout,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256, // there is only one host
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		// The caller and the upstream agree on an encoding between themselves.
		DisableCompression: true,
	}
}

// rewrite makes of the caller's request what the upstream gets.
func (o *Options) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme = o.Upstream.Scheme
	p.Out.URL.Host = o.Upstream.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // even what cannot be parsed
	p.Out.Host = ""
	if o.PreserveHost {
		p.Out.Host = p.In.Host
	}
	// Not the copy that Out has: In's is filled in when the body has ended.
	p.Out.Trailer = p.In.Trailer
	o.forward(p)
}
