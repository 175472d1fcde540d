package proxy

import (
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
)

// Header names as they are kept in an http.Header.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedHost  = "X-Forwarded-Host"
	forwardedProto = "X-Forwarded-Proto"
)

// forward tells the upstream who is asking. What the request says about that
// itself counts only if a trusted proxy has sent it: then the peer is appended
// to X-Forwarded-For, and the host and protocol that it names are kept.
//
// httputil has already taken Forwarded, X-Forwarded-For, X-Forwarded-Host and
// X-Forwarded-Proto from p.Out.
func (o *Options) forward(p *httputil.ProxyRequest) {
	in, out := p.In.Header, p.Out.Header
	if !o.TrustedProxy(peer(p.In.RemoteAddr)) {
		dropForwarded(out)
		p.SetXForwarded()
		return
	}
	if values := in[forwardedFor]; len(values) > 0 {
		out[forwardedFor] = values
	}
	p.SetXForwarded()
	for _, name := range []string{forwardedHost, forwardedProto} {
		if values := in[name]; len(values) > 0 {
			out[name] = values
		}
	}
}

// dropForwarded removes from h everything by which proxies tell upstreams
// about the caller, such as X-Forwarded-Port and X-Real-IP.
func dropForwarded(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip"
	})
}

// peer returns the address of whoever opened the connection, or the zero Addr.
func peer(remote string) netip.Addr {
	// What a server is told of a TCP connection always parses.
	addr, _ := netip.ParseAddrPort(remote)
	return addr.Addr().Unmap()
}
