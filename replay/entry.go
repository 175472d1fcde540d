package replay

import (
	"strings"

	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit/algo"
)

// entry is what one line of a log says. Its strings are parts of the line. It
// is a rules.Request.
type entry struct {
	at         algo.Ticks
	method     string
	host       string
	path       string
	ip         string
	user       string
	userAgent  string
	referer    string
	attributes []attribute
	ipv6Prefix int
}

type attribute struct{ name, value string }

// reset makes e ready for the next line, and keeps its room.
func (e *entry) reset() {
	*e = entry{attributes: e.attributes[:0], ipv6Prefix: e.ipv6Prefix}
}

func (e *entry) Method() string { return e.method }
func (e *entry) Host() string   { return e.host }
func (e *entry) Path() string   { return e.path }

// Header knows the two headers that access logs have.
func (e *entry) Header(name string) string {
	switch {
	case strings.EqualFold(name, "User-Agent"):
		return e.userAgent
	case strings.EqualFold(name, "Referer"):
		return e.referer
	}
	return ""
}

func (e *entry) Attribute(name string) (string, bool) {
	for _, a := range e.attributes {
		if a.name == name {
			return a.value, true
		}
	}
	switch name {
	case "ip":
		return formatIP(e.ip, e.ipv6Prefix), e.ip != ""
	case "user":
		return e.user, e.user != ""
	}
	return "", false
}

// formatIP writes an address as the attribute ip of a live request. What is no
// address, such as the name of a host, stays as it is.
func formatIP(text string, ipv6Prefix int) string {
	if ip, ok := identity.IP(text, ipv6Prefix); ok {
		return ip
	}
	return text
}

// set sets what Options.Fields calls name.
func (e *entry) set(name, value string) {
	switch name {
	case "method":
		e.method = value
	case "host":
		e.host = value
	case "path":
		e.setTarget(value)
	case "ip":
		e.ip = value
	case "user":
		e.user = value
	case "user_agent":
		e.userAgent = value
	case "referer":
		e.referer = value
	default:
		e.attributes = append(e.attributes, attribute{name, value})
	}
}

// setTarget sets path, and host if the target names one, from the target of a
// request: /path?query, or a whole URL as it is sent to a proxy.
func (e *entry) setTarget(target string) {
	if !strings.HasPrefix(target, "/") {
		if scheme, rest, ok := strings.Cut(target, "://"); ok && !strings.ContainsAny(scheme, "/?#") {
			slash := strings.IndexAny(rest, "/?#")
			if slash < 0 {
				slash = len(rest)
			}
			e.host, target = rest[:slash], rest[slash:]
		}
	}
	if end := strings.IndexAny(target, "?#"); end >= 0 {
		target = target[:end]
	}
	e.path = target
}
