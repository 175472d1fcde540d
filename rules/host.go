package rules

import (
	"fmt"
	"net/netip"
	"strings"
)

// hostPattern is a host name, or all names below one. The zero hostPattern is
// any host.
type hostPattern struct {
	name  string // .example.com if below
	below bool
}

// normalizeHost returns a host in lower case, without its port, the brackets
// of an IPv6 address and the dot at its end.
func normalizeHost(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		return strings.ToLower(inner)
	}
	if name, _, ok := strings.Cut(host, ":"); ok && strings.Count(host, ":") == 1 {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// match reports whether host, which is normalised, is what h asks for.
func (h *hostPattern) match(host string) bool {
	if h.below {
		return len(host) > len(h.name) && strings.HasSuffix(host, h.name)
	}
	return host == h.name
}

func parseHost(text string) (hostPattern, error) {
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	if plain := normalizeHost(text); plain != name && !strings.Contains(text, "/") {
		return hostPattern{}, fmt.Errorf("%q has a port or brackets; write %q", text, plain)
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return hostPattern{name: name}, nil
	}
	labels, below := strings.CutPrefix(name, "*.")
	for label := range strings.SplitSeq(labels, ".") {
		if !isHostLabel(label) {
			return hostPattern{}, fmt.Errorf("%q is not a host; a name such as example.com, *.example.com for all names below it, or an IP address is allowed", text)
		}
	}
	if below {
		return hostPattern{"." + labels, true}, nil
	}
	return hostPattern{name: name}, nil
}

func isHostLabel(label string) bool {
	return label != "" && len(label) <= 63 && strings.IndexFunc(label, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	}) < 0
}
