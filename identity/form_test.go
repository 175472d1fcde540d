package identity_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const tokenForms = `
attributes:
  grant: [{form: {name: grant_type, unverified: true}}]
  user: [{form: {name: username, unverified: true}}]
`

// post returns a request that carries a form.
func post(target, form string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(form))
	r.RemoteAddr = stranger
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func TestForm(t *testing.T) {
	id := open(t, tokenForms, nil)
	const password = "grant_type=password&username=ann&password=secret"
	put := post("/token", password)
	put.Method = http.MethodPut
	bare := post("/token", password)
	bare.Header.Del("Content-Type")
	twice := post("/token", password)
	twice.Header.Add("Content-Type", "text/plain")
	chunked := post("/token", password)
	chunked.ContentLength = -1
	for _, tt := range []struct {
		name    string
		request *http.Request
		want    string // grant and user
	}{
		{"a form", post("/token", password), "password ann"},
		{"chunked", chunked, "password ann"},
		{"a charset", post("/token", password, "Content-Type: Application/X-WWW-Form-Urlencoded; charset=UTF-8"), "password ann"},
		{"escaped", post("/token", "grant%5Ftype=client%5fcredentials&username=a+%C3%BC"), "client_credentials a ü"},
		{"one is there", post("/token", "grant_type=client_credentials"), "client_credentials -"},
		{"empty", post("/token", "grant_type=&username"), "- -"},
		{"in capitals", post("/token", "GRANT_TYPE=password"), "password -"},
		{"twice is absent", post("/token", "grant_type=password&username=ann&grant_type=client_credentials"), "- ann"},
		{"twice, in capitals", post("/token", "grant_type=password&username=ann&Grant_Type=client_credentials"), "- ann"},
		{"in the query, too", post("/token?grant_type=client_credentials", password), "- ann"},
		{"in the query alone", post("/token?username=ann", "grant_type=password"), "password -"},
		{"another query", post("/token?trace=1", password), "password ann"},
		{"a semicolon", post("/token", "a=b;username=eve&grant_type=password"), "- -"},
		{"a broken escape", post("/token", "grant_type=password&username=ann&x=%zz"), "- -"},
		{"no form", post("/token", ""), "- -"},
		{"JSON", post("/token", `{"username": "ann"}`, "Content-Type: application/json"), "- -"},
		{"no type", bare, "- -"},
		{"two types", twice, "- -"},
		{"compressed", post("/token", password, "Content-Encoding: gzip"), "- -"},
		{"EBCDIC", post("/token", password, "Content-Type: application/x-www-form-urlencoded; charset=ibm037"), "- -"},
		{"PUT", put, "- -"},
		{"64 KiB", post("/token", password+"&x="+strings.Repeat("x", 64<<10-len(password)-3)), "password ann"},
		{"over 64 KiB", post("/token", password+"&x="+strings.Repeat("x", 64<<10-len(password)-2)), "- -"},
	} {
		body := sent(t, tt.request)
		if got := ask(id, tt.request, "grant") + " " + ask(id, tt.request, "user"); got != tt.want {
			t.Errorf("%s: got %.40q, want %q", tt.name, got, tt.want)
		}
		if after, err := io.ReadAll(tt.request.Body); string(after) != body || err != nil {
			t.Errorf("%s: %d bytes of the body are left, want %d (%v)", tt.name, len(after), len(body), err)
		}
	}
}

// TestFormIsAClaim: like a header, it needs a proxy or the word unverified.
func TestFormIsAClaim(t *testing.T) {
	id := open(t, "{trusted_proxies: [10.0.0.0/8], attributes: {user: [{form: {name: username}}]}}", nil)
	for peer, want := range map[string]string{proxy: "ann", stranger: "-"} {
		r := post("/token", "username=ann")
		r.RemoteAddr = peer
		if got := ask(id, r, "user"); got != want {
			t.Errorf("from %s: %q, want %q", peer, got, want)
		}
	}
}

// sent returns the body of r and makes it new.
func sent(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return string(body)
}

// TestFormIsReadForWhoAsks: a body is only touched by an attribute that needs
// it, at most once, and no further than it must be.
func TestFormIsReadForWhoAsks(t *testing.T) {
	id := open(t, tokenForms, nil)
	r := post("/token", "grant_type=password&username=ann")
	body := &counting{Reader: r.Body}
	r.Body = body
	q := id.Identify(r)
	q.Attribute("ip")
	if body.reads > 0 {
		t.Error("the body was read for the address")
	}
	q.Attribute("grant")
	reads := body.reads
	q.Attribute("user")
	if body.reads != reads {
		t.Error("the body was read twice")
	}
	if r.Body.Close(); !body.closed {
		t.Error("the body cannot be closed any more")
	}

	large := post("/token", "")
	large.ContentLength = 1 << 30
	body = &counting{Reader: strings.NewReader("grant_type=password")}
	large.Body = body
	if ask(id, large, "grant"); body.reads > 0 {
		t.Error("a body that says it is large was read")
	}
}

// counting is a body that knows what has been done to it.
type counting struct {
	io.Reader
	reads  int
	closed bool
}

func (c *counting) Read(p []byte) (int, error) { c.reads++; return c.Reader.Read(p) }
func (c *counting) Close() error               { c.closed = true; return nil }

// TestFormThatBreaksOff: who comes next finds what was sent, and the error.
func TestFormThatBreaksOff(t *testing.T) {
	id := open(t, tokenForms, nil)
	broken := errors.New("connection reset")
	r := post("/token", "")
	r.ContentLength = -1
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("grant_type=password"), iotest.ErrReader(broken)))
	if got := ask(id, r, "grant"); got != "-" {
		t.Errorf("half a form has the grant %q", got)
	}
	if after, err := io.ReadAll(r.Body); string(after) != "grant_type=password" || !errors.Is(err, broken) {
		t.Errorf("the body is %q, %v", after, err)
	}
}

func TestBasicUserOfOAuth(t *testing.T) {
	id := open(t, "attributes: {client: [{basic_user: {urlencoded: true, unverified: true}}], raw: [{basic_user: {unverified: true}}]}", nil)
	for user, want := range map[string]string{
		"app":           "app app",
		"%61pp":         "app %61pp",
		"my%3aapp+one":  "my:app one my%3aapp+one",
		"100%":          "- 100%",
		"%00%ff":        "\x00\xff %00%ff",
		"caf%C3%A9%20x": "café x caf%C3%A9%20x",
	} {
		r := get("/token", stranger)
		r.SetBasicAuth(user, "secret")
		if got := ask(id, r, "client") + " " + ask(id, r, "raw"); got != want {
			t.Errorf("%q is %q, want %q", user, got, want)
		}
	}
}

// TestFormBehindExpectContinue: a caller that waits before it sends the body is
// told to go on, and the next handler has the body.
func TestFormBehindExpectContinue(t *testing.T) {
	id := open(t, tokenForms, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := ask(id, r, "user")
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %v", user, body, err)
	}))
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, "POST /token HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 12\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n")
	answers := bufio.NewReader(c)
	first, err := http.ReadResponse(answers, nil)
	if err != nil || first.StatusCode != http.StatusContinue {
		t.Fatalf("%v, %v; want 100", first, err)
	}
	fmt.Fprint(c, "username=ann")
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); string(text) != "ann username=ann <nil>" {
		t.Errorf("got %q", text)
	}
}

// FuzzForm lets a caller write anything into a form. What the rules take for
// the user must be what the standard library takes for it, and nothing else;
// and the next handler gets what was sent.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{
		"", "username=ann", "username=ann&username=bob", "%75sername=ann", "username=%zz", "username=a;b", "=&&=", "username", "username=a=b", "user\x00name=x",
	} {
		f.Add(seed, "")
	}
	f.Add("username=ann", "username=bob")
	id := open(f, tokenForms, nil)
	f.Fuzz(func(t *testing.T, form, query string) {
		r := post("/token", form)
		r.URL.RawQuery = query
		got, ok := id.Identify(r).Attribute("user")
		if body, err := io.ReadAll(r.Body); string(body) != form || err != nil {
			t.Errorf("the body is %q, %v", body, err)
		}
		all, err := url.ParseQuery(form)
		if ok && (err != nil || !onlyValue(all, got)) {
			t.Errorf("the user is %q in %q", got, form)
		}
	})
}

// onlyValue reports whether a form has one user name, in any case, and that is want.
func onlyValue(form url.Values, want string) bool {
	var found []string
	for name, values := range form {
		if strings.EqualFold(name, "username") {
			found = append(found, values...)
		}
	}
	return len(found) == 1 && found[0] == want
}
