package identity

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/rules"
)

// The sources in this file take what the caller says for what it is.

// claim is a source that any caller can make up. It is read only if a trusted
// proxy sent the request, or if every caller is believed.
type claim struct {
	what       string
	read       func(r *http.Request) string
	unverified bool
	credential bool
}

func (s claim) value(q *Request) string {
	if !q.believes(s.unverified) {
		return ""
	}
	return s.read(q.http)
}

func (s claim) name() string { return s.what }
func (s claim) secret() bool { return s.credential }

func (s claim) missed(q *Request) string {
	if s.read(q.http) != "" && !q.believes(s.unverified) {
		return unbelieved(q)
	}
	return absent
}

// absent is why most sources yield nothing.
const absent = "it is absent, or there more than once"

// unbelieved says that the sender of a claim is nobody's proxy.
func unbelieved(q *Request) string {
	peer := "the peer is not known, and so"
	if q.http.RemoteAddr != "" {
		peer = "the peer " + q.http.RemoteAddr + " is"
	}
	return peer + " no trusted proxy"
}

// header returns the value of a header whose name is in canonical form. One
// that comes more than once is absent: it can't be told which of them is the
// proxy's.
func header(r *http.Request, name string) string {
	if name == "Host" {
		return r.Host
	}
	if values := r.Header[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

func basicUser(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}

// urlencodedBasicUser is basicUser as OAuth 2 clients write it: RFC 6749,
// section 2.3.1.
func urlencodedBasicUser(r *http.Request) string {
	user, err := url.QueryUnescape(basicUser(r))
	if err != nil {
		return ""
	}
	return user
}

// query returns the first value of a query parameter. It reads no further than
// that, unlike url.ParseQuery, which makes a map of them all.
func query(r *http.Request, name string) string {
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		key, val, _ := strings.Cut(pair, "=")
		if strings.Contains(pair, ";") {
			continue
		}
		if key, err := url.QueryUnescape(key); err != nil || key != name {
			continue
		}
		if val, err := url.QueryUnescape(val); err == nil {
			return val
		}
	}
	return ""
}

// parameter is a query parameter.
type parameter struct{ key string }

func (s parameter) value(q *Request) string { return query(q.http, s.key) }
func (s parameter) name() string            { return "query parameter " + s.key }
func (s parameter) secret() bool            { return rules.IsCredential(s.key) }
func (s parameter) missed(*Request) string  { return "it is absent" }

// segment is the n-th segment of the normalised path, from 1.
type segment int

func (s segment) name() string           { return fmt.Sprintf("segment %d of the path", int(s)) }
func (s segment) secret() bool           { return false }
func (s segment) missed(*Request) string { return "the path is shorter" }

func (s segment) value(q *Request) string {
	rest := rules.NormalizePath(q.Path())
	part := ""
	for range s {
		_, rest, _ = strings.Cut(rest, "/")
		part, _, _ = strings.Cut(rest, "/")
	}
	return part
}

// bearer returns the credentials of an Authorization header of that scheme.
func bearer(s string) (credentials string, ok bool) {
	scheme, rest, found := strings.Cut(s, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimLeft(rest, " "), true
}
