package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/transport/rest"
)

const explainedFile = `version: 1
proxy: {upstream: http://127.0.0.1:9}
identity:
  trusted_proxies: [10.0.0.0/8]
  attributes:
    user: [{header: {name: X-User}}]
    session: [{cookie: {name: sid, unverified: true}}]
isolation:
  seats: 64
  tenant: user|ip
  plans: {default: {max_seats: 3, queue: 5, timeout: 30s}}
rules:
  - name: writes
    match: {methods: [POST, DELETE]}
    limits: [{quota: 1, window: 1m}]
  - name: all
    key: user|ip
    limits: [{quota: 600, window: 1m}]
  - name: sessions
    shadow: true
    key: session
    limits: [{quota: 1, window: 1m}]
  - name: never
    match: {path: "/items/{id}"}
    status: 503
    limits: [{quota: 0, window: 1m}]
`

// What people read, by a rules file alone.
func TestExplainForPeople(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stint.yaml")
	if err := os.WriteFile(file, []byte(explainedFile), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := stint(t, "explain", "-c", file, "--format", "text", "-H", "X-User: ann", "-H", "Cookie: sid=s3cr3t", "--peer", "10.0.0.1", "http://shop.example/items//7?x=1")
	if code != exitOK || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	const want = `REQUEST GET shop.example/items/7
  api  /items/#
CALLER
  ip       10.0.0.1, from connection, and X-Forwarded-For as far as the proxies are trusted
  session  not shown, from cookie sid
  user     ann, from header X-User
SEAT user=ann, by isolation
  plan default  3 at once, 5 more may wait; this takes 1
  time          30s, waiting and running together
RULES THAT APPLY
  all                counts user=ann; this costs 1
                     all: 600 of 600 in 1m left
  sessions (shadow)  counts session=(not shown); this costs 1
                     sessions: 1 of 1 in 1m left
  never              counts all requests; this costs 1
                     never: 0 of 0 in 1m left, denies with 503 for 1m
RULES THAT DO NOT
  writes  the method is GET, and not DELETE or POST
DECISION refused with 503: Policy "never" allows 0 in 1m, and this request would exceed that. Try again in 1m.
`
	if out != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
	_, out, _ = stint(t, "explain", "-c", file, "--format", "text", "-a", "user=\x1b[2Jann", "/")
	if strings.Contains(out, "\x1b") || !strings.Contains(out, "DECISION allowed\n") {
		t.Errorf("a terminal would obey: %q", out)
	}
}

// A process says what it has counted, programs get JSON, and nothing is spent.
func TestExplainByAProcess(t *testing.T) {
	p := serve(t, hello, itemsRule)
	p.get(p.proxy + "/items/alex")
	for range 2 {
		code, out, errs := stint(t, "explain", "--api", p.api, "/items/alex")
		var e rest.Explanation
		if err := json.Unmarshal([]byte(out), &e); code != exitOK || err != nil {
			t.Fatalf("%d %s %s: %v", code, out, errs, err)
		}
		if policy := e.Rules[0].Policies[0]; e.Decision.Allowed || e.Decision.Status != 429 || policy.Remaining != 0 || policy.RetryAfterMS < 3_500_000 {
			t.Errorf("%+v", e)
		}
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"explain", "--api", p.api + "/", "--http", "-"}, streams{strings.NewReader("GET /items/kim HTTP/1.1\nHost: x"), &out, &errs})
	if code != exitOK || !strings.Contains(out.String(), `"decision":{"allowed":true`) {
		t.Errorf("%d %s %s", code, out.String(), errs.String())
	}
	if code := p.get(p.proxy + "/items/kim").StatusCode; code != 200 {
		t.Errorf("what was only asked about has been spent: %d", code)
	}
	if metrics := p.text(p.api + "/metrics"); !strings.Contains(metrics, `stint_requests_total{outcome="denied"} 0`) {
		t.Error("an explanation is counted as a denial")
	}
}

func TestExplainFailures(t *testing.T) {
	p := serve(t, hello, itemsRule)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitFailed, "give what is asked for, a path or a URL, or a request with --http"},
		{[]string{"--http", "x", "/"}, exitFailed, "give what is asked for"},
		{[]string{"--http", "x", "-X", "GET"}, exitFailed, "leave out -X and -H"},
		{[]string{"--http", "/does/not/exist"}, exitFailed, "no such file"},
		{[]string{"items"}, exitFailed, `"items" is neither a path nor a URL`},
		{[]string{"-H", "secret-in-a-typo", "/"}, exitFailed, "-H is not a header; such as 'X-User: ann' is"},
		{[]string{"-H", "a: 1", "-H", "A: 2", "/"}, exitFailed, "-H has A twice"},
		{[]string{"--api", p.api, "--peer", "here", "/"}, exitFailed, `peer: "here" is not an address`},
		{[]string{"--api", p.proxy, "/"}, exitFailed, "cannot be read"},
		{[]string{"--api", "http://127.0.0.1:1", "/"}, exitFailed, "is stint serve running"},
		{[]string{"-c", "/does/not/exist", "/"}, exitConfig, "the file cannot be read"},
		{[]string{"--format", "xml", "/"}, exitUsage, "format"},
	} {
		code, out, errs := stint(t, append([]string{"explain"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Contains(errs, "secret-in-a-typo") {
			t.Errorf("%q: %d %s%s; want %d, %s", c.args, code, out, errs, c.code, c.want)
		}
	}
}
