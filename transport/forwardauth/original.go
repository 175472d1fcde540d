package forwardauth

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Bounds of what a proxy may say of a request.
const (
	maxURI    = 32 << 10 // bytes
	maxMethod = 32
	maxHost   = 512
)

// dialect is the headers by which a proxy describes a request, by their
// canonical names, and how it is answered. Each is read from one header only:
// what else there is may be the visitor's.
type dialect uint8

const (
	forward dialect = iota
	nginx
)

func (d dialect) headers() (method, uri, host string) {
	if d == nginx {
		return "X-Original-Method", "X-Original-Uri", "" // Host, as r has it
	}
	return "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"
}

// forwardedFor is where a proxy says who its visitor is. Who that makes the
// sender of the request is for identity to find out; without it, all visitors
// would be one.
const forwardedFor = "X-Forwarded-For"

// refusal is a request about which nothing can be decided, and the status to
// say so with.
type refusal struct {
	status int
	detail string
}

func invalid(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// original returns the request that r describes. It shares r's headers,
// context and peer, and has no body.
func (d dialect) original(r *http.Request) (*http.Request, *refusal) {
	methodHeader, uriHeader, hostHeader := d.headers()
	method, bad := single(r.Header, methodHeader)
	if bad != nil {
		return nil, bad
	}
	if !isMethod(method) {
		return nil, invalid("%s: %s is not a method; 1 to %d characters of a token are allowed", methodHeader, shorten(method), maxMethod)
	}
	uri, bad := single(r.Header, uriHeader)
	if bad != nil {
		return nil, bad
	}
	target, bad := parseURI(uri)
	if bad != nil {
		bad.detail = uriHeader + ": " + bad.detail
		return nil, bad
	}
	host := r.Host
	if hostHeader != "" {
		if host, bad = single(r.Header, hostHeader); bad != nil {
			return nil, bad
		}
	}
	if !isHost(host) {
		return nil, invalid("host: %s is not one; up to %d visible ASCII characters without any of %s are allowed", shorten(host), maxHost, notInHost)
	}
	if len(r.Header[forwardedFor]) == 0 {
		return nil, missing(forwardedFor)
	}
	original := r.WithContext(r.Context())
	original.Method, original.URL, original.Host, original.RequestURI = method, target, host, uri
	original.Body, original.ContentLength, original.TransferEncoding = http.NoBody, 0, nil
	return original, nil
}

// single returns the value of a header that must come once.
func single(h http.Header, name string) (string, *refusal) {
	switch values := h[name]; len(values) {
	case 0:
		return "", missing(name)
	case 1:
		return values[0], nil
	default:
		return "", invalid("%s: given %d times; a proxy has to replace what its visitor sent", name, len(values))
	}
}

func missing(name string) *refusal {
	return invalid("%s: missing; the proxy has to set it for every request", name)
}

// isMethod reports whether s is a token of RFC 9110, and no longer than any method.
func isMethod(s string) bool {
	if s == "" || len(s) > maxMethod {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

const notInHost = `,/\@?#"`

// isHost reports whether s may be a host, with or without a port. It may be
// empty: HTTP/1.0 has none.
func isHost(s string) bool {
	return len(s) <= maxHost && strings.IndexFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(notInHost, c)
	}) < 0
}

// parseURI reads the target of a request: a path that begins with a slash, with
// or without a query, or "*". It refuses what one service reads in another way
// than the next: signs that have no place in a target, and escapes that are
// none. A path that can be spelled in several ways is for the rules to normalise.
func parseURI(uri string) (*url.URL, *refusal) {
	switch {
	case len(uri) > maxURI:
		return nil, &refusal{http.StatusRequestURITooLong, fmt.Sprintf("%d bytes; at most %d are allowed", len(uri), maxURI)}
	case uri == "*":
		return &url.URL{Path: "*"}, nil
	case uri == "" || uri[0] != '/':
		return nil, invalid("%s does not begin with a slash", shorten(uri))
	}
	for i := range len(uri) {
		if c := uri[i]; c <= ' ' || c == 0x7f || c == '#' {
			return nil, invalid("%q at byte %d, which has to be percent-encoded", c, i)
		}
	}
	target, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, invalid("a percent sign in the path is not followed by two hexadecimal digits")
	}
	return target, nil
}

// shorten quotes s and keeps it from filling the answer.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
