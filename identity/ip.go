package identity

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHops bounds how many addresses of a forwarding header are looked at.
const maxHops = 64

// network is what is known about the way that requests come.
type network struct {
	proxies    []netip.Prefix
	header     string // where the proxies write, in canonical form
	cut        func(element string) (string, bool)
	ipv6Prefix int
}

// node is an address, and the text it was read from if that is its usual form.
type node struct {
	addr netip.Addr
	text string
}

// trusts reports whether addr is one of the trusted proxies.
func (n *network) trusts(addr netip.Addr) bool {
	for _, p := range n.proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// client walks from the peer backwards along the hops in h, for as long as the
// one that reports a hop is trusted, and returns the last hop. What lies
// beyond it could have been written by anyone. A hop that is no address ends
// the walk, too.
func (n *network) client(from node, h http.Header) node {
	at, hops := from, 0
	lines := h[n.header]
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; hops++ {
			if hops == maxHops || !n.trusts(at.addr) {
				return at
			}
			var element string
			rest, element, more = cutLast(rest)
			text, ok := n.cut(element)
			if !ok {
				return at
			}
			hop, ok := parseNode(text)
			if !ok {
				return at
			}
			at = hop
		}
	}
	return at
}

// format writes an address as the attribute ip: an IPv4 address, or the
// network that an IPv6 address belongs to.
func (n *network) format(of node) string {
	switch {
	case of.text != "":
		return of.text
	case !of.addr.IsValid():
		return ""
	case of.addr.Is4() || n.ipv6Prefix == 128:
		return of.addr.String()
	}
	whole, err := of.addr.Prefix(n.ipv6Prefix)
	if err != nil {
		return ""
	}
	var text [48]byte // more than any prefix has, so that only the result is allocated
	return string(whole.AppendTo(text[:0]))
}

// IP returns the attribute ip of a caller at address, which is written as in a
// log or in a connection's name: with or without a port, zone and brackets.
// ipv6Prefix is how many bits of an IPv6 address make one caller. It reports
// false if that is no address.
func IP(address string, ipv6Prefix int) (string, bool) {
	n, ok := parseNode(address)
	return (&network{ipv6Prefix: ipv6Prefix}).format(n), ok
}

// clientIP is the built-in attribute ip.
type clientIP struct{ network *network }

func (s clientIP) secret() bool           { return false }
func (s clientIP) missed(*Request) string { return "the peer has no address" }

func (s clientIP) name() string {
	if len(s.network.proxies) > 0 {
		return "connection, and " + s.network.header + " as far as the proxies are trusted"
	}
	return "connection"
}

func (s clientIP) value(q *Request) string {
	return s.network.format(s.network.client(q.connection().node, q.http.Header))
}

// parseNode reads an address, with or without a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80. An IPv4 address that is
// mapped into IPv6 becomes one of IPv4, and a zone is dropped.
func parseNode(s string) (node, bool) {
	host, bracketed := strings.CutPrefix(s, "[")
	port := ""
	if bracketed {
		var closed bool
		host, port, closed = strings.Cut(host, "]")
		if !closed || !strings.Contains(host, ":") || port != "" && !isPort(port) {
			return node{}, false
		}
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 && colon == strings.LastIndexByte(s, ':') {
		host, port = s[:colon], s[colon:]
		if !isPort(port) {
			return node{}, false
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return node{}, false
	}
	if addr.Is4() {
		return node{addr, host}, true
	}
	return node{addr: addr.Unmap().WithZone("")}, true
}

// isPort reports whether s is a colon and 1 to 5 digits.
func isPort(s string) bool {
	if len(s) < 2 || len(s) > 6 || s[0] != ':' {
		return false
	}
	return strings.Trim(s[1:], "0123456789") == ""
}
