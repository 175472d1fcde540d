package forwardauth_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/forwardauth"
)

// proxyAddress is the peer that the tests trust, and strangerAddress one that
// they do not.
const (
	proxyAddress    = "192.0.2.1:4711"
	strangerAddress = "198.51.100.7:4711"
)

// newHandler limits by rules what proxyAddress asks for.
func newHandler(t testing.TB, logs *slog.Logger, specs ...rules.RuleSpec) http.Handler {
	t.Helper()
	set, problems := rules.Compile(rules.Spec{Rules: specs})
	if set == nil {
		t.Fatal(problems)
	}
	callers, problems := identity.New(identity.Spec{
		TrustedProxies: []string{"192.0.2.1"},
		Attributes: map[string][]identity.SourceSpec{
			"session": {{Cookie: &identity.NamedSpec{Name: "session", Unverified: true}}},
			"app":     {{BasicUser: &identity.BasicUserSpec{Unverified: true}}},
			"key":     {{APIKey: &identity.APIKeySpec{Unverified: true}}},
			"page":    {{Query: &identity.QuerySpec{Name: "page"}}},
			"form":    {{Form: &identity.FormSpec{Name: "name", Unverified: true}}},
		},
	}, nil)
	if callers == nil {
		t.Fatal(problems)
	}
	t.Cleanup(callers.Close)
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set, Identity: callers}, nil)
	return forwardauth.New(g, &forwardauth.Options{TrustedProxy: callers.Trusts, Logger: logs})
}

func once(name string, match rules.MatchSpec, key ...string) rules.RuleSpec {
	return rules.RuleSpec{Name: name, Match: match, Key: key, Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Hour)}}}
}

// original is what a visitor asked a proxy for.
type original struct {
	method, host, uri, client string
	header                    http.Header
}

// ask is how a proxy asks path about o.
func (o original) ask(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = proxyAddress
	for name, values := range o.header {
		r.Header[name] = values
	}
	method, uri := "X-Forwarded-Method", "X-Forwarded-Uri"
	if strings.HasPrefix(path, forwardauth.PathNginx) {
		method, uri = "X-Original-Method", "X-Original-URI"
		r.Host = o.host
	} else {
		r.Host = "stint.internal"
		r.Header.Set("X-Forwarded-Host", o.host)
	}
	r.Header.Set(method, o.method)
	r.Header.Set(uri, o.uri)
	r.Header.Set("X-Forwarded-For", o.client)
	return r
}

func get(uri string) original {
	return original{method: "GET", host: "shop.example", uri: uri, client: "203.0.113.9"}
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

var paths = []string{forwardauth.PathForward, forwardauth.PathNginx}

// TestAnswers: what a proxy is told, by both paths.
func TestAnswers(t *testing.T) {
	type answer struct {
		code                               int
		status, policy, remaining, retry   string
		contentType, instance, cacheableBy string
	}
	read := func(r *http.Response) answer {
		var body struct{ Instance string }
		json.NewDecoder(r.Body).Decode(&body) // none is as good
		h := r.Header
		return answer{r.StatusCode, h.Get("Stint-Status"), h.Get("RateLimit-Policy"), h.Get("RateLimit"), h.Get("Retry-After"), h.Get("Content-Type"), body.Instance, h.Get("Cache-Control")}
	}
	allowed := answer{code: 204, policy: `"items";q=1;w=3600`, remaining: `"items";r=0;t=3600`, cacheableBy: "no-store"}
	for path, denied := range map[string]answer{
		forwardauth.PathForward: {429, "", allowed.policy, `"items";r=0;t=3600`, "3600", "application/problem+json", "/items/alex", "no-store"},
		forwardauth.PathNginx:   {403, "429", allowed.policy, `"items";r=0;t=3600`, "3600", "", "", "no-store"},
	} {
		t.Run(path, func(t *testing.T) {
			h := newHandler(t, nil, once("items", rules.MatchSpec{Methods: []string{"POST"}, Host: "shop.example", Path: "/items/{user}"}, "user"))
			o := get("/items/alex?page=1")
			o.method = "POST"
			for i, want := range []answer{allowed, denied} {
				if diff := cmp.Diff(want, read(serve(h, o.ask(path))), cmp.AllowUnexported(answer{})); diff != "" {
					t.Errorf("answer %d (-want +got):\n%s", i, diff)
				}
			}
			for what, other := range map[string]func(*original){
				"another method": func(o *original) { o.method = "GET" },
				"another host":   func(o *original) { o.host = "blog.example" },
				"another path":   func(o *original) { o.uri = "/items" },
			} {
				o := o
				other(&o)
				if got := read(serve(h, o.ask(path))); got != (answer{code: 204, cacheableBy: "no-store"}) {
					t.Errorf("%s, for which there is no rule: %+v", what, got)
				}
			}
		})
	}
}

// TestIdentity: who sent the described request is told by what the visitor sent,
// and by the address that the proxy gives.
func TestIdentity(t *testing.T) {
	header := func(name, value string) func(*original) {
		return func(o *original) { o.header = http.Header{name: {value}} }
	}
	for _, path := range paths {
		for attribute, as := range map[string]func(value string) func(*original){
			"ip":      func(v string) func(*original) { return func(o *original) { o.client = "203.0.113." + v } },
			"page":    func(v string) func(*original) { return func(o *original) { o.uri = "/?page=" + v } },
			"session": func(v string) func(*original) { return header("Cookie", "session="+v) },
			"key":     func(v string) func(*original) { return header("X-Api-Key", "secret"+v) },
			"app": func(v string) func(*original) {
				r := httptest.NewRequest("GET", "/", nil)
				r.SetBasicAuth("app"+v, "x")
				return header("Authorization", r.Header.Get("Authorization"))
			},
		} {
			t.Run(path+"/"+attribute, func(t *testing.T) {
				h := newHandler(t, nil, once("one", rules.MatchSpec{}, attribute))
				var got []bool
				for _, v := range []string{"1", "1", "2", "2"} {
					o := get("/")
					as(v)(&o)
					got = append(got, serve(h, o.ask(path)).StatusCode == 204)
				}
				if diff := cmp.Diff([]bool{true, false, true, false}, got); diff != "" {
					t.Errorf("callers 1, 1, 2, 2 (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestOptionsOfTheVisitor: neither the query nor the body of the proxy's own
// request says anything, and the description of the other path does not either.
func TestOptionsOfTheVisitor(t *testing.T) {
	for _, path := range paths {
		h := newHandler(t, nil, once("one", rules.MatchSpec{Path: "/items"}, "ip"), once("forms", rules.MatchSpec{Path: "/form"}, "form"))
		for i, want := range []bool{true, false} {
			o := get("/items")
			o.header = http.Header{
				"X-Forwarded-Uri": {"/free"}, "X-Forwarded-Method": {"HEAD"}, "X-Forwarded-Host": {"free.example"}, // as a visitor's
				"X-Original-Uri": {"/free"}, "X-Original-Method": {"HEAD"}, "X-Rewrite-Url": {"/free"}, "X-Http-Method-Override": {"HEAD"},
			}
			if got := serve(h, o.ask(path+"?uri=/free&cost=0&peek=true&ip=1.1.1.1")).StatusCode == 204; got != want {
				t.Errorf("%s: request %d passes: %v", path, i, got)
			}
		}
		for i, name := range []string{"ann", "bob"} {
			o := get("/form")
			o.method = "POST"
			r := o.ask(path)
			body := httptest.NewRequest("POST", path, strings.NewReader("name="+name))
			r.Method, r.Body, r.ContentLength = "POST", body.Body, body.ContentLength
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if got := serve(h, r).StatusCode == 204; got != (i == 0) {
				t.Errorf("%s: %s, whose form is no part of the description and so like any other: passes: %v", path, name, got)
			}
		}
	}
}

// TestBadInput: each is refused with the status and the words, and counts nowhere.
func TestBadInput(t *testing.T) {
	set := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) {
			if r.Header.Del(name); values != nil {
				r.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	type row struct {
		what   string
		change func(*http.Request)
		status int
		detail string
	}
	common := func(method, uri string) []row {
		return []row{
			{"a stranger", func(r *http.Request) { r.RemoteAddr = strangerAddress }, 403, "peer: 198.51.100.7 is not in identity.trusted_proxies, so it is not believed about requests"},
			{"no peer", func(r *http.Request) { r.RemoteAddr = "@" }, 403, "peer: invalid IP is not in identity.trusted_proxies, so it is not believed about requests"},
			{"no method", set(method), 400, method + ": missing; the proxy has to set it for every request"},
			{"an empty method", set(method, ""), 400, method + `: "" is not a method; 1 to 32 characters of a token are allowed`},
			{"a method that is none", set(method, "GE T"), 400, method + `: "GE T" is not a method; 1 to 32 characters of a token are allowed`},
			{"an absurd method", set(method, strings.Repeat("G", 1000)), 400, method + `: "` + strings.Repeat("G", 64) + `"... is not a method; 1 to 32 characters of a token are allowed`},
			{"two methods", set(method, "GET", "POST"), 400, method + ": given 2 times; a proxy has to replace what its visitor sent"},
			{"no URI", set(uri), 400, uri + ": missing; the proxy has to set it for every request"},
			{"an empty URI", set(uri, ""), 400, uri + `: "" does not begin with a slash`},
			{"two URIs", set(uri, "/free", "/items"), 400, uri + ": given 2 times; a proxy has to replace what its visitor sent"},
			{"another host's URI", set(uri, "http://free.example/items"), 400, uri + `: "http://free.example/items" does not begin with a slash`},
			{"CONNECT", set(uri, "free.example:443"), 400, uri + `: "free.example:443" does not begin with a slash`},
			{"a relative URI", set(uri, "items"), 400, uri + `: "items" does not begin with a slash`},
			{"a broken escape", set(uri, "/%zz"), 400, uri + ": a percent sign in the path is not followed by two hexadecimal digits"},
			{"half an escape", set(uri, "/items%2"), 400, uri + ": a percent sign in the path is not followed by two hexadecimal digits"},
			{"a fragment", set(uri, "/items#/../free"), 400, uri + ": '#' at byte 6, which has to be percent-encoded"},
			{"a space", set(uri, "/items /free"), 400, uri + ": ' ' at byte 6, which has to be percent-encoded"},
			{"a line break", set(uri, "/items\r\n"), 400, uri + `: '\r' at byte 6, which has to be percent-encoded`},
			{"64 KB", set(uri, "/"+strings.Repeat("a", 64<<10)), 414, uri + ": 65537 bytes; at most 32768 are allowed"},
			{"64 KB of query", set(uri, "/?"+strings.Repeat("a", 64<<10)), 414, uri + ": 65538 bytes; at most 32768 are allowed"},
			{"no client", set("X-Forwarded-For"), 400, "X-Forwarded-For: missing; the proxy has to set it for every request"},
		}
	}
	for path, rows := range map[string][]row{
		forwardauth.PathForward: append(common("X-Forwarded-Method", "X-Forwarded-Uri"),
			row{"no host", set("X-Forwarded-Host"), 400, "X-Forwarded-Host: missing; the proxy has to set it for every request"},
			row{"two hosts", set("X-Forwarded-Host", "a", "b"), 400, "X-Forwarded-Host: given 2 times; a proxy has to replace what its visitor sent"},
			row{"a list of hosts", set("X-Forwarded-Host", "a, b"), 400, `host: "a, b" is not one; up to 512 visible ASCII characters without any of ,/\@?#" are allowed`},
			row{"nginx's headers", func(r *http.Request) {
				r.Header.Del("X-Forwarded-Uri")
				r.Header.Set("X-Original-URI", "/free")
			}, 400, "X-Forwarded-Uri: missing; the proxy has to set it for every request"}),
		forwardauth.PathNginx: append(common("X-Original-Method", "X-Original-Uri"),
			row{"a host that is none", func(r *http.Request) { r.Host = "a/b" }, 400, `host: "a/b" is not one; up to 512 visible ASCII characters without any of ,/\@?#" are allowed`},
			row{"others' headers", func(r *http.Request) {
				r.Header.Del("X-Original-Uri")
				r.Header.Set("X-Forwarded-Uri", "/free")
			}, 400, "X-Original-Uri: missing; the proxy has to set it for every request"}),
	} {
		for _, tt := range rows {
			t.Run(path+"/"+tt.what, func(t *testing.T) {
				h := newHandler(t, slog.New(slog.DiscardHandler), once("all", rules.MatchSpec{}, "host"))
				r := get("/items").ask(path)
				tt.change(r)
				resp := serve(h, r)
				var problem struct {
					Status int
					Detail string
				}
				if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
					t.Fatal(err)
				}
				status := resp.StatusCode
				if path == forwardauth.PathNginx {
					if status != 403 {
						t.Errorf("status %d, which nginx would take for a failure", status)
					}
					switch resp.Header.Get("Stint-Status") {
					case "400":
						status = 400
					case "414":
						status = 414
					}
				}
				if status != tt.status || problem.Status != resp.StatusCode || problem.Detail != tt.detail {
					t.Errorf("%d %+v\nwant %d %s", status, problem, tt.status, tt.detail)
				}
				if resp.Header.Get("RateLimit") != "" {
					t.Error("it was counted")
				}
			})
		}
	}
}

func TestNobodyIsTrustedUnlessSaid(t *testing.T) {
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{}, nil)
	quiet := slog.New(slog.DiscardHandler)
	h := forwardauth.New(g, &forwardauth.Options{Logger: quiet})
	if got := serve(h, get("/").ask(forwardauth.PathForward)).StatusCode; got != 403 {
		t.Errorf("status %d", got)
	}
	if got := serve(h, get("/").ask("/auth/other")).StatusCode; got != 404 {
		t.Errorf("another path: %d", got)
	}
	var trusted netip.Addr
	h = forwardauth.New(g, &forwardauth.Options{Logger: quiet, TrustedProxy: func(a netip.Addr) bool { trusted = a; return false }})
	r := get("/").ask(forwardauth.PathForward)
	r.RemoteAddr = "[::ffff:192.0.2.1]:80"
	if serve(h, r); trusted != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("asked whether %v is trusted", trusted)
	}
}

// TestLogIsBounded: strangers cannot fill the log.
func TestLogIsBounded(t *testing.T) {
	var log lockedBuilder
	h := newHandler(t, slog.New(slog.NewTextHandler(&log, nil)))
	began := time.Now()
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for range 500 {
				r := get("/").ask(forwardauth.PathForward)
				r.RemoteAddr = strangerAddress
				serve(h, r)
			}
		})
	}
	asking.Wait()
	lines := strings.Count(log.String(), "\n")
	if most := int(time.Since(began).Seconds()) + 2; lines < 1 || lines > most {
		t.Errorf("%d lines, want 1 to %d:\n%s", lines, most, log.String())
	}
	if !strings.Contains(log.String(), "identity.trusted_proxies") {
		t.Errorf("the log does not say what to do:\n%s", log.String())
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSpellings: no spelling of a path evades the rule for it.
func TestSpellings(t *testing.T) {
	for _, uri := range []string{
		"/items/alex", "//items//alex", "/items/./alex", "/x/../items/alex", "/%69tems/alex", "/items%2Falex", "/items/alex/", "/items;v=1/alex",
		"/items/alex?x", "/items/%61lex", "/../items/alex", "/items/alex//", "/items/%2e/alex", "/x/%2E%2e/items/alex", "/items/alex?a=%zz", "/items/alex;%23^",
	} {
		h := newHandler(t, nil, once("items", rules.MatchSpec{Path: "/items/alex"}, "host"))
		for i, want := range []int{204, 429} {
			if got := serve(h, get(uri).ask(forwardauth.PathForward)).StatusCode; got != want {
				t.Errorf("%s, request %d: %d, want %d", uri, i, got, want)
			}
		}
	}
}
