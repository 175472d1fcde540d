package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/rules"
)

// askingProxies are the configurations of deploy/, and what of them differs.
// Each proxy asks a process of Stint about every request.
var askingProxies = []struct {
	name, file string
	start      func(t testing.TB, address, config string) *servertest.Process
	down       int  // the status of a request while Stint does not answer
	fields     bool // a visitor gets the RateLimit fields of what is allowed, too
	problem    bool // and the whole problem document of what is not
}{
	{"nginx/fail-open", "nginx/fail-open.conf", servertest.StartNginx, 200, true, false},
	{"nginx/fail-closed", "nginx/fail-closed.conf", servertest.StartNginx, 503, true, false},
	{"caddy/fail-open", "caddy/fail-open.Caddyfile", servertest.StartCaddy, 200, true, true},
	{"caddy/fail-closed", "caddy/fail-closed.Caddyfile", servertest.StartCaddy, 503, true, true},
	{"haproxy/fail-open", "haproxy/fail-open.cfg", servertest.StartHAProxy, 200, true, true},
	{"haproxy/fail-closed", "haproxy/fail-closed.cfg", servertest.StartHAProxy, 503, true, true},
	{"traefik/fail-open", "traefik/fail-open.yaml", servertest.StartTraefik, 200, true, true},
	{"traefik/fail-closed", "traefik/fail-closed.yaml", servertest.StartTraefik, 500, false, true},
}

// behindProxies is what Stint is configured by there. /items/{user} admits two.
const behindProxies = `
identity: {trusted_proxies: [127.0.0.1]}
rules:
  - name: items
    match: {path: "/items/{user}"}
    key: [user, ip]
    limits: [{quota: 2, window: 1h}]
`

// behindProxy is a service behind a proxy that asks Stint.
type behindProxy struct {
	t       *testing.T
	stint   *process
	proxy   *servertest.Process
	reached atomic.Int64 // requests for /items/alex that the service got
}

// startProxyOf runs a configuration of deploy/, on other addresses, in front of
// a service and a process of Stint.
func startProxyOf(t *testing.T, file string, start func(t testing.TB, address, config string) *servertest.Process) *behindProxy {
	t.Helper()
	b := &behindProxy{t: t}
	b.stint = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/forbidden":
			http.Error(w, "forbidden by the service", http.StatusForbidden)
			return
		case rules.NormalizePath(r.URL.EscapedPath()) == "/items/alex":
			b.reached.Add(1)
		}
		fmt.Fprintf(w, "hello %s %s%s", r.Method, r.URL.Path, body)
	}), behindProxies)
	upstream, err := os.ReadFile(b.stint.file)
	if err != nil {
		t.Fatal(err)
	}
	_, service, _ := strings.Cut(string(upstream), "upstream: http://")
	service, _, _ = strings.Cut(service, ",")
	address := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
	b.proxy = start(t, address, placed(t, file, address, strings.TrimPrefix(b.stint.api, "http://"), strings.TrimPrefix(b.stint.proxy, "http://"), service))
	return b
}

// placed returns a configuration of deploy/ with its addresses replaced.
func placed(t testing.TB, file, address, api, proxy, service string) string {
	t.Helper()
	_, apiPort, _ := net.SplitHostPort(api)
	_, port, _ := net.SplitHostPort(address)
	read := func(file string) string {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer(
			"127.0.0.1:8080", api, "127.0.0.1:8000", proxy, "127.0.0.1:9000", service, "port: 8080", "port: "+apiPort,
			"listen 80;", "listen "+address+";", "bind :80\n", "bind "+address+"\n", ":80 {", "http://:"+port+" {\n\tbind 127.0.0.1",
			"\n{\n\tservers", "\n{\n\tadmin off\n\tservers", "abns@stint", "abns@stint-"+address,
		).Replace(string(text))
	}
	config := read(file)
	if strings.HasPrefix(file, "haproxy") {
		lua := t.TempDir() + "/stint.lua"
		if err := os.WriteFile(lua, []byte(read("haproxy/stint.lua")), 0o600); err != nil {
			t.Fatal(err)
		}
		config = strings.Replace(config, "/etc/haproxy/stint.lua", lua, 1)
	}
	return config
}

// send sends a request through the proxy exactly as it is written, and returns
// the answer, or nil if there is none.
func (b *behindProxy) send(method, target, body string, fields ...string) (*http.Response, string) {
	b.t.Helper()
	c, err := net.Dial("tcp", b.proxy.Address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n", method, target)
	if body != "" {
		request += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	for _, f := range fields {
		request += f + "\r\n"
	}
	go io.WriteString(c, request+"\r\n"+body) // an answer may come before its end
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return nil, ""
	}
	text, _ := io.ReadAll(r.Body)
	return r, string(text)
}

// old sends a request as clients did before there were hosts, and returns the
// status of the answer.
func (b *behindProxy) old(target string) int {
	b.t.Helper()
	c, err := net.Dial("tcp", b.proxy.Address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", target)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.StatusCode
}

// status is send for who only wants to know the status; 0 for no answer.
func (b *behindProxy) status(method, target string, fields ...string) int {
	r, _ := b.send(method, target, "", fields...)
	if r == nil {
		return 0
	}
	return r.StatusCode
}

// TestProxies runs each configuration of deploy/ on a real proxy.
func TestProxies(t *testing.T) {
	for _, tt := range askingProxies {
		t.Run(tt.name, func(t *testing.T) {
			b := startProxyOf(t, tt.file, tt.start)

			t.Run("allowed", func(t *testing.T) {
				r, body := b.send("GET", "/items/alex?page=1", "")
				if r.StatusCode != 200 || body != "hello GET /items/alex" || tt.fields != (r.Header.Get("RateLimit") == `"items";r=1;t=1800`) {
					t.Errorf("GET: %d %q, %v", r.StatusCode, body, r.Header)
				}
				r, body = b.send("POST", "/items/alex", "a body", "Content-Type: text/plain")
				if r.StatusCode != 200 || body != "hello POST /items/alexa body" {
					t.Errorf("POST: %d %q", r.StatusCode, body)
				}
				if r, body = b.send("GET", "/forbidden", ""); r.StatusCode != 403 || !strings.Contains(body, "by the service") {
					t.Errorf("the service's own 403: %d %q", r.StatusCode, body)
				}
				if got := b.old("/free"); got != 200 && got != 400 && got != 426 {
					t.Errorf("HTTP/1.0 without a host: %d", got)
				}
				if _, limited := r.Header["Ratelimit"]; limited {
					t.Errorf("RateLimit %q where no rule is", r.Header["Ratelimit"])
				}
			})

			t.Run("denied", func(t *testing.T) {
				for _, method := range []string{"GET", "POST", "HEAD"} {
					r, body := b.send(method, "/items/alex", "")
					h := r.Header
					if r.StatusCode != 429 || h.Get("Retry-After") != "1800" && h.Get("Retry-After") != "1799" || !strings.HasPrefix(h.Get("RateLimit"), `"items";r=0;t=`) || h.Get("RateLimit-Policy") != `"items";q=2;w=3600` {
						t.Errorf("%s: %d %v", method, r.StatusCode, h)
					}
					if method == "HEAD" {
						continue
					}
					if h.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "#quota-exceeded") || tt.problem != strings.Contains(body, `"instance":"/items/alex"`) {
						t.Errorf("%s: %v %s", method, h, body)
					}
				}
			})

			t.Run("forged", func(t *testing.T) {
				before := b.reached.Load()
				for _, field := range []string{
					"X-Forwarded-Uri: /free", "X-Original-URI: /free", "X-Original-Url: /free", "X-Rewrite-Url: /free", "X-Forwarded-Uri: /free\r\nX-Forwarded-Uri: /free",
					"X-Forwarded-Method: OPTIONS", "X-Original-Method: OPTIONS", "X-Forwarded-Host: free.example", "X-Http-Method-Override: OPTIONS",
					"X-Forwarded-For: 203.0.113.9", "X-Real-Ip: 203.0.113.9", "Forwarded: for=203.0.113.9", "X-Forwarded-Prefix: /free",
					"X_Original_URI: /free", "X-Stint-Status: 200", "Stint-Status: 200", "Stint-Down: 1", "Upgrade: websocket\r\nConnection: Upgrade",
					"Connection: X-Forwarded-Uri", "Connection: X-Original-URI, X-Forwarded-For",
				} {
					if got := b.status("GET", "/items/alex", field); got < 400 || got > 499 {
						t.Errorf("%s: %d", field, got)
					}
				}
				if got := b.status("GET", "/items/alex?uri=/free&peek=true&cost=0"); got != 429 {
					t.Errorf("with a query of options: %d", got)
				}
				if got := b.reached.Load(); got != before {
					t.Errorf("%d requests reached the service", got-before)
				}
			})

			t.Run("spelled", func(t *testing.T) {
				before := b.reached.Load()
				for _, target := range []string{
					"//items//alex", "/items/./alex", "/x/../items/alex", "/%69tems/alex", "/items%2falex", "/items/alex/", "/items;v=1/alex", "/%2e/items/alex", "/x/%2e%2e/items/alex",
					"/items/%61lex", "/items/alex//", "/items/alex/.", "/../items/alex", "/items/alex;x", "http://shop.example/items/alex", "http://free.example/items/alex", "/items/alex?",
				} {
					if got := b.status("GET", target); got < 400 || got > 499 {
						t.Errorf("%s: %d", target, got)
					}
				}
				// For some proxies a # is part of the path, and so it is for the service.
				for _, target := range []string{"/items/alex#/../../free", "/items/alex#", "/free#/../items/alex"} {
					b.status("GET", target)
				}
				if got := b.reached.Load(); got != before {
					t.Errorf("%d requests reached the service", got-before)
				}
			})

			t.Run("bad", func(t *testing.T) {
				before := b.reached.Load()
				long := func(n int) string { return strings.Repeat("a", n) }
				for what, status := range map[string]int{
					"64 KB URI":           b.status("GET", "/items/alex;"+long(64<<10)),
					"64 KB query":         b.status("GET", "/items/alex?"+long(64<<10)),
					"20 KB URI":           b.status("GET", "/items/alex?"+long(20<<10)),
					"14 KB URI":           b.status("GET", "/items/alex?"+long(14<<10)),
					"14 KB header":        b.status("GET", "/items/alex", "X-Long: "+long(14<<10)),
					"15,000 bytes":        b.status("GET", "/items/alex", "X-Long: "+long(15000)),
					"16,000 bytes":        b.status("GET", "/items/alex", "X-Long: "+long(16000)),
					"7,500 bytes, twice":  b.status("GET", "/items/alex?"+long(7500), "X-Long: "+long(7500)),
					"7,000 bytes, thrice": b.status("GET", "/items/alex?"+long(7000), "X-Long: "+long(7000), "Y-Long: "+long(7000)),
					"64 KB header":        b.status("GET", "/items/alex", "X-Long: "+long(64<<10)),
					"900 KB header":       b.status("GET", "/items/alex", "X-Long: "+long(900<<10)),
					"broken escape":       b.status("GET", "/items/alex%zz"),
					"half an escape":      b.status("GET", "/items/alex%2"),
					"absurd method":       b.status(strings.Repeat("G", 100), "/items/alex"),
					"lower-case method":   b.status("get", "/items/alex"),
					"method that is none": b.status("G(T", "/items/alex"),
					"NUL":                 b.status("GET", "/items/alex\x00"),
				} {
					if status != 0 && status < 400 {
						t.Errorf("%s: %d", what, status)
					}
				}
				b.status("CONNECT", "shop.example:80")
				b.status("OPTIONS", "*")
				b.status("GET", "items/alex")
				if got := b.reached.Load(); got != before {
					t.Errorf("%d requests reached the service", got-before)
				}
			})

			t.Run("down", func(t *testing.T) {
				b.stint.stop()
				if err := <-b.stint.ended; err != nil {
					t.Fatal(err)
				}
				// Traefik looks once a second whether Stint is there.
				within(t, 20*time.Second, fmt.Sprintf("status %d", tt.down), func() bool { return b.status("GET", "/items/alex") == tt.down })
				began := time.Now()
				r, body := b.send("POST", "/items/alex", "a body", "Content-Type: text/plain")
				if r.StatusCode != tt.down || (body == "hello POST /items/alexa body") != (tt.down == 200) {
					t.Errorf("%d %q", r.StatusCode, body)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
			})

			t.Run("silent", func(t *testing.T) {
				if tt.name == "traefik/fail-closed" {
					t.Skip("Traefik waits 30 s for an answer, and cannot be told otherwise")
				}
				l, err := net.Listen("tcp", strings.TrimPrefix(b.stint.api, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close() // until then connections are accepted by the system, and by nobody
				began := time.Now()
				if got := b.status("GET", "/items/alex"); got != tt.down || time.Since(began) > 5*time.Second {
					t.Errorf("%d after %v", got, time.Since(began))
				}
			})
		})
	}
}
