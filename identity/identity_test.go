package identity_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse reads an identity section as people write it.
func parse(t testing.TB, section string) identity.Spec {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(section))
	d.KnownFields(true)
	var spec identity.Spec
	if err := d.Decode(&spec); err != nil && err != io.EOF {
		t.Fatalf("%v in\n%s", err, section)
	}
	return spec
}

// open returns an Identifier for a section that has no problem.
func open(t testing.TB, section string, o *identity.Options) *identity.Identifier {
	t.Helper()
	if o == nil {
		o = &identity.Options{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	id, problems := identity.New(parse(t, section), o)
	for _, p := range problems {
		t.Fatalf("%v in\n%s", p, section)
	}
	t.Cleanup(id.Close)
	return id
}

// get returns a request from peer with headers such as "X-User: ann".
func get(target, peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = peer
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// ask returns an attribute of a request, or "-" if it is absent.
func ask(id *identity.Identifier, r *http.Request, attribute string) string {
	value, ok := id.Identify(r).Attribute(attribute)
	if !ok {
		return "-" + value
	}
	return value
}

// write makes a file in a new folder and returns the folder.
func write(t testing.TB, name string, data []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const (
	proxy    = "10.0.0.1:4711"
	stranger = "203.0.113.9:4711"
)

func TestClaimsNeedAProxyOrTheWordUnverified(t *testing.T) {
	id := open(t, `
trusted_proxies: [10.0.0.0/8]
attributes:
  tenant: [{header: {name: x-tenant}}]
  anyone: [{header: {name: X-Tenant, unverified: true}}]
  session: [{cookie: {name: sid}}]
  any_session: [{cookie: {name: sid, unverified: true}}]
  user: [{basic_user: {}}]
  any_user: [{basic_user: {unverified: true}}]
`, nil)
	basic := base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	headers := []string{"X-Tenant: acme", "Cookie: a=b; sid=s1", "Authorization: Basic " + basic}
	for _, tt := range []struct{ attribute, proxy, stranger string }{
		{"tenant", "acme", "-"},
		{"anyone", "acme", "acme"},
		{"session", "s1", "-"},
		{"any_session", "s1", "s1"},
		{"user", "ann", "-"},
		{"any_user", "ann", "ann"},
		{"never_heard_of", "-", "-"},
	} {
		if got := ask(id, get("/", proxy, headers...), tt.attribute); got != tt.proxy {
			t.Errorf("%s from a proxy = %q, want %q", tt.attribute, got, tt.proxy)
		}
		if got := ask(id, get("/", stranger, headers...), tt.attribute); got != tt.stranger {
			t.Errorf("%s from a stranger = %q, want %q", tt.attribute, got, tt.stranger)
		}
		if got := ask(id, get("/", proxy), tt.attribute); got != "-" {
			t.Errorf("%s of an empty request = %q, want it absent", tt.attribute, got)
		}
	}
}

func TestSources(t *testing.T) {
	id := open(t, `
attributes:
  lang: [{query: {name: lang}}]
  owner: [{path: {segment: 2}}]
  first: [{header: {name: X-A, unverified: true}}, {header: {name: X-B, unverified: true}}, {query: {name: c}}]
  vhost: [{header: {name: host, unverified: true}}]
`, nil)
	long := strings.Repeat("x", 8<<10)
	for _, tt := range []struct {
		name      string
		request   *http.Request
		attribute string
		want      string
	}{
		{"query", get("/?a=b&lang=de&lang=fr", stranger), "lang", "de"},
		{"query, escaped", get("/?l%61ng=%C3%BC+x", stranger), "lang", "ü x"},
		{"query, broken", get("/?lang=%zz&lang=de", stranger), "lang", "de"},
		{"query, semicolon", get("/?lang=a;b", stranger), "lang", "-"},
		{"query, empty", get("/?lang=", stranger), "lang", "-"},
		{"query, none", get("/", stranger), "lang", "-"},
		{"path", get("/repos/acme/issues", stranger), "owner", "acme"},
		{"path, last", get("/repos/acme", stranger), "owner", "acme"},
		{"path, spelled otherwise", get("//repos/./x/../%61cme;v=1/", stranger), "owner", "acme"},
		{"path, short", get("/repos", stranger), "owner", "-"},
		{"path, root", get("/", stranger), "owner", "-"},
		{"the first that yields", get("/?c=3", stranger, "X-A: 1", "X-B: 2"), "first", "1"},
		{"an empty one yields nothing", get("/?c=3", stranger, "X-A: ", "X-B: 2"), "first", "2"},
		{"the last", get("/?c=3", stranger), "first", "3"},
		{"twice is absent", get("/", stranger, "X-A: 1", "X-A: 2"), "first", "-"},
		{"twice passes on", get("/", stranger, "X-A: 1", "X-A: 2", "X-B: 3"), "first", "3"},
		{"8 KiB", get("/", stranger, "X-A: "+long), "first", long},
		{"over 8 KiB", get("/", stranger, "X-A: x"+long, "X-B: 2"), "first", "2"},
		{"odd bytes", get("/", stranger, "X-A: \x80\x00"), "first", "\x80\x00"},
		{"host", get("http://example.com/", stranger), "vhost", "example.com"},
	} {
		if got := ask(id, tt.request, tt.attribute); got != tt.want {
			t.Errorf("%s: got %.40q, want %.40q", tt.name, got, tt.want)
		}
	}
}

func TestRequestIsWhatRulesLookAt(t *testing.T) {
	id := open(t, "", nil)
	r := id.Identify(get("http://example.com:81/a%2Fb/c?d=e", stranger, "Accept: text/html", "Accept: */*"))
	for _, tt := range []struct{ what, got, want string }{
		{"method", r.Method(), "GET"},
		{"host", r.Host(), "example.com:81"},
		{"path", r.Path(), "/a%2Fb/c"},
		{"header", r.Header("accept"), "text/html"},
		{"no header", r.Header("X-Absent"), ""},
		{"header Host", r.Header("host"), "example.com:81"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s = %q, want %q", tt.what, tt.got, tt.want)
		}
	}
}

func TestReleaseForgets(t *testing.T) {
	id := open(t, "{trusted_proxies: [10.0.0.0/8], attributes: {user: [{header: {name: X-User}}]}}", nil)
	for i := range 100 {
		name := fmt.Sprint("user", i)
		for _, step := range []struct{ peer, user, ip string }{
			{proxy, name, "10.0.0.1"},
			{stranger, "", "203.0.113.9"},
		} {
			q := id.Identify(get("/", step.peer, "X-User: "+name)).(*identity.Request)
			user, _ := q.Attribute("user")
			ip, _ := q.Attribute("ip")
			if user != step.user || ip != step.ip {
				t.Fatalf("the request of %s is of %q from %q, want %q from %q", name, user, ip, step.user, step.ip)
			}
			q.Release()
		}
	}
}

// TestIdentitiesStayApart sends requests of many users over real connections
// at the same time; every answer must be about the one who asks.
func TestIdentitiesStayApart(t *testing.T) {
	signer := newSigner(t, "ES256", "k1")
	id := open(t, `
trusted_proxies: [127.0.0.0/8, "::1"]
attributes:
  user: [{jwt: {pem_file: key.pem}}, {header: {name: X-User}}]
  client: [{api_key: {unverified: true}}]
  lang: [{query: {name: lang}}]
`, &identity.Options{Dir: write(t, "key.pem", signer.pem(t))})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := id.Identify(r).(*identity.Request)
		defer q.Release()
		for _, name := range []string{"user", "ip", "client", "lang", "user"} {
			value, _ := q.Attribute(name)
			fmt.Fprintln(w, value)
		}
	}))
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxConnsPerHost = 32

	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			user, ip := fmt.Sprint("user", i), fmt.Sprintf("198.51.%d.%d", i/250, i%250)
			r, _ := http.NewRequest(http.MethodGet, server.URL+"/?lang=l"+fmt.Sprint(i), nil)
			r.Header.Set("X-Forwarded-For", ip)
			key := ""
			switch i % 3 {
			case 0:
				r.Header.Set("Authorization", "Bearer "+signer.sign(t, claims{"sub": user}))
			case 1:
				r.Header.Set("X-User", user)
			case 2:
				r.Header.Set("X-API-Key", fmt.Sprint("key of ", i))
				user, key = "", "key:"+sha256hex(fmt.Sprint("key of ", i))[:16]
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			want := fmt.Sprintf("%s\n%s\n%s\nl%d\n%s\n", user, ip, key, i, user)
			if string(body) != want {
				t.Errorf("request %d was taken for\n%s, want\n%s", i, body, want)
			}
		})
	}
	wg.Wait()
}
