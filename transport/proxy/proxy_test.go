package proxy_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/transport/proxy"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// front is a proxy on a socket, before an upstream.
type front struct {
	*httptest.Server
	log *lines
}

func listen(t testing.TB, upstream string, o proxy.Options) *front {
	t.Helper()
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{log: new(lines)}
	o.Upstream = u
	o.Logger = slog.New(slog.NewTextHandler(f.log, nil))
	h, err := proxy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.Server = httptest.NewServer(h)
	t.Cleanup(f.Close)
	return f
}

func upstream(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func do(t testing.TB, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func get(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, r)
}

func TestNewChecksOptions(t *testing.T) {
	tests := []struct{ upstream, want string }{
		{"ftp://localhost", `proxy: upstream: scheme "ftp" is not supported; http and https are allowed`},
		{"http:///x", `proxy: upstream: "http:///x" has no host; a URL is needed, such as http://localhost:9000`},
		{"http:localhost", `proxy: upstream: "http:localhost" has no host; a URL is needed, such as http://localhost:9000`},
		{"http://a:secret@localhost", `proxy: upstream: a user is not supported; let callers send their own Authorization`},
		{"http://localhost/base", `proxy: upstream: path "/base" is not supported; only a host is allowed`},
		{"http://localhost?a=b", `proxy: upstream: "http://localhost?a=b" has a query or fragment; only a host is allowed`},
	}
	for _, test := range tests {
		u, err := url.Parse(test.upstream)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := proxy.New(proxy.Options{Upstream: u}); err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v; want %s", test.upstream, err, test.want)
		}
	}
	if _, err := proxy.New(proxy.Options{}); err == nil || err.Error() != "proxy: upstream: missing; a URL is needed, such as http://localhost:9000" {
		t.Errorf("no upstream: error %v", err)
	}
	local := &url.URL{Scheme: "http", Host: "localhost"}
	if _, err := proxy.New(proxy.Options{Upstream: local, Timeout: -time.Second}); err == nil || err.Error() != "proxy: timeout: -1s is negative; more than 0 is allowed, such as 30s" {
		t.Errorf("negative timeout: error %v", err)
	}
}

// The upstream must see what the rules have seen: not one byte is decoded,
// cleaned or sorted on the way.
func TestTargetIsForwardedAsSent(t *testing.T) {
	var got string
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	f := listen(t, up.URL, proxy.Options{})

	for _, target := range []string{
		"/", "/a/b", "/a%2Fb", "/a%2fb/%41", "/a/../b", "/a/%2e%2e/b", "//a//b", "/a;x=1/b",
		"/?", "/?a=b;c=d&%zz&a", "/a?q=%2F+%20/?", "/%E2%82%AC", "/a:b@c,d!$&'()*+",
	} {
		conn, err := net.Dial("tcp", f.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: stint.test\r\nConnection: close\r\n\r\n")
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if got != target || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK\r\n")) {
			t.Errorf("sent %s, the upstream got %s, the answer is %q", target, got, answer)
		}
	}
}

func TestHost(t *testing.T) {
	var got string
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { got = r.Host })
	for _, preserve := range []bool{false, true} {
		f := listen(t, up.URL, proxy.Options{PreserveHost: preserve})
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL, nil)
		r.Host = "shop.example"
		do(t, r)
		want := strings.TrimPrefix(up.URL, "http://")
		if preserve {
			want = "shop.example"
		}
		if got != want {
			t.Errorf("PreserveHost %v: the upstream sees %s; want %s", preserve, got, want)
		}
	}
}

func TestForwardedHeaders(t *testing.T) {
	var got http.Header
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header })
	claims := http.Header{
		"X-Forwarded-For":   {"203.0.113.7, 198.51.100.2", "198.51.100.3"},
		"X-Forwarded-Host":  {"claimed.example"},
		"X-Forwarded-Proto": {"https"},
		"X-Forwarded-Port":  {"8443"},
		"X-Real-Ip":         {"203.0.113.7"},
		"Forwarded":         {"for=203.0.113.7"},
	}
	loopback := func(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.1") }
	nobody := func(netip.Addr) bool { return false }

	afresh := http.Header{
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"stint.example"}, "X-Forwarded-Proto": {"http"},
	}
	tests := []struct {
		name  string
		trust func(netip.Addr) bool
		sent  http.Header
		want  http.Header
	}{
		{"nobody is trusted by default", nil, claims, afresh},
		{"a peer that is not trusted", nobody, claims, afresh},
		{"a trusted peer is appended", loopback, claims, http.Header{
			"X-Forwarded-For":   {"203.0.113.7, 198.51.100.2, 198.51.100.3, 127.0.0.1"},
			"X-Forwarded-Host":  {"claimed.example"},
			"X-Forwarded-Proto": {"https"},
			"X-Forwarded-Port":  {"8443"},
			"X-Real-Ip":         {"203.0.113.7"},
		}},
		{"a trusted peer that says nothing", loopback, http.Header{}, afresh},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := listen(t, up.URL, proxy.Options{TrustedProxy: test.trust})
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL, nil)
			r.Host = "stint.example"
			r.Header = test.sent.Clone()
			do(t, r)
			for _, own := range []string{"Accept-Encoding", "User-Agent"} {
				got.Del(own)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("headers at the upstream (-want +got):\n%s", diff)
			}
		})
	}
}

// Connection cannot be used to take X-Forwarded-For from what the upstream sees.
func TestHopByHopHeaders(t *testing.T) {
	var got http.Header
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Connection", "X-Internal")
		w.Header().Set("X-Internal", "secret")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Kept", "yes")
	})
	f := listen(t, up.URL, proxy.Options{})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL, nil)
	r.Header = http.Header{
		"Connection":          {"X-Forwarded-For, X-Dropped"},
		"X-Dropped":           {"1"},
		"Proxy-Authorization": {"Basic eA=="},
		"Te":                  {"gzip"},
		"X-Kept":              {"1"},
	}
	answer, _ := do(t, r)
	for _, name := range []string{"X-Dropped", "Proxy-Authorization", "Te", "Connection"} {
		if got.Get(name) != "" {
			t.Errorf("the upstream got %s: %s", name, got.Get(name))
		}
	}
	if got.Get("X-Kept") != "1" || got.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("the upstream got X-Kept %q, X-Forwarded-For %q", got.Get("X-Kept"), got.Get("X-Forwarded-For"))
	}
	for _, name := range []string{"X-Internal", "Keep-Alive", "Connection"} {
		if answer.Header.Get(name) != "" {
			t.Errorf("the caller got %s: %s", name, answer.Header.Get(name))
		}
	}
	if answer.Header.Get("X-Kept") != "yes" {
		t.Error("the caller did not get X-Kept")
	}
}

// Encodings are between the caller and the upstream.
func TestEncodingIsUntouched(t *testing.T) {
	var accepted []string
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		accepted = r.Header["Accept-Encoding"]
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "not really gzip")
	})
	f := listen(t, up.URL, proxy.Options{})
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: stint.test\r\nConnection: close\r\n\r\n")
	answer, _ := io.ReadAll(conn)
	if accepted != nil || !bytes.Contains(answer, []byte("Content-Encoding: gzip\r\n")) || !bytes.HasSuffix(answer, []byte("\r\n\r\nnot really gzip")) {
		t.Errorf("the upstream got Accept-Encoding %q, the caller %q", accepted, answer)
	}
}
