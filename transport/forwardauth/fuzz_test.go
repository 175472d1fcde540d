package forwardauth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-dev/stint/rules"
)

// FuzzParseURI: what is accepted means for the rules what it says, and could
// have been sent as it is.
func FuzzParseURI(f *testing.F) {
	for _, uri := range []string{
		"/", "*", "/items/alex?page=1", "//host/path", "/a/../b", "/%2e%2e/b", "/a%2fb^", "/a%zz", "/%00", "/a#b", "/ü", "http://host/", "/a;b/c?d=%zz&&=#",
		"/\xff", "/a?b?c", "/:", "/[::1]", "/a%3Fb^", "/%25zz", "/?", "host:443",
	} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		u, bad := parseURI(uri)
		if bad != nil {
			if u != nil || bad.detail == "" || bad.status != http.StatusBadRequest && bad.status != http.StatusRequestURITooLong {
				t.Fatalf("%q: %+v", uri, bad)
			}
			return
		}
		if strings.ContainsAny(uri, " \r\n\t\x00#") || len(uri) > maxURI {
			t.Fatalf("%q was accepted", uri)
		}
		path, query, _ := strings.Cut(uri, "?")
		if got, want := rules.NormalizePath(u.EscapedPath()), rules.NormalizePath(path); got != want {
			t.Errorf("%q is %q for the rules, and says %q", uri, got, want)
		}
		if u.RawQuery != query || u.Host != "" || u.Scheme != "" || u.Fragment != "" || u.User != nil || u.Opaque != "" {
			t.Errorf("%q: %+v", uri, u)
		}
	})
}

// FuzzOriginal: whatever a proxy says, there is a request or a refusal.
func FuzzOriginal(f *testing.F) {
	f.Add(false, "GET", "/items", "shop.example", "203.0.113.9")
	f.Add(true, "GE\tT", "/%", "a, b", "")
	f.Add(true, "", "*", "", "unknown, _hidden")
	f.Fuzz(func(t *testing.T, other bool, method, uri, host, client string) {
		d := forward
		if other {
			d = nginx
		}
		m, u, h := d.headers()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header[m], r.Header[u], r.Header[forwardedFor] = []string{method}, []string{uri}, []string{client}
		if r.Host = host; h != "" {
			r.Header[h] = []string{host}
		}
		got, bad := d.original(r)
		if (got == nil) == (bad == nil) {
			t.Fatalf("%v and %+v", got, bad)
		}
		if got != nil && (got.Method != method || got.Host != host || got.RequestURI != uri || got.Body != http.NoBody) {
			t.Errorf("%+v", got)
		}
	})
}
