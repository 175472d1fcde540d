package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/server"
)

// process is stint serve, running in the test.
type process struct {
	t      *testing.T
	file   string
	proxy  string // base URLs
	api    string
	log    *lockedBuffer
	reload chan struct{}
	stop   context.CancelFunc
	ended  chan error
}

// lockedBuffer is a bytes.Buffer for a writer and a reader at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts stint serve with rules in front of upstream.
func serve(t *testing.T, upstream http.Handler, yaml string) *process {
	backend := httptest.NewServer(upstream)
	t.Cleanup(backend.Close)
	p := &process{
		t: t, file: filepath.Join(t.TempDir(), "stint.yaml"), log: &lockedBuffer{},
		reload: make(chan struct{}), ended: make(chan error, 1),
	}
	p.write("version: 1\nlisten: {proxy: 127.0.0.1:0, api: 127.0.0.1:0}\nlog: {format: json}\nproxy: {upstream: " + backend.URL + ", timeout: 2s}\n" + yaml)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	started := make(chan map[string]net.Addr, 1)
	go func() {
		p.ended <- server.Run(ctx, server.Options{
			Config: p.file, Version: "test", Log: p.log, Stores: stores, Transports: transports, Sender: newSender, Reload: p.reload,
			Started: func(a map[string]net.Addr) { started <- a },
		})
	}()
	t.Cleanup(stop)
	select {
	case a := <-started:
		p.proxy, p.api = "http://"+a["proxy"].String(), "http://"+a["api"].String()
	case err := <-p.ended:
		t.Fatalf("did not start: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("did not start")
	}
	return p
}

func (p *process) write(yaml string) {
	p.t.Helper()
	if err := os.WriteFile(p.file, []byte(yaml), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// edit replaces text in the rules file.
func (p *process) edit(old, new string) {
	p.t.Helper()
	text, err := os.ReadFile(p.file)
	if err != nil || !bytes.Contains(text, []byte(old)) {
		p.t.Fatalf("%v: no %q in the rules file", err, old)
	}
	p.write(strings.Replace(string(text), old, new, 1))
}

func (p *process) get(url string) *http.Response {
	p.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// within polls until ok, for at most d.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello", r.URL.Path) })

const itemsRule = `
rules:
  - name: items
    match: {path: "/items/{user}"}
    key: user
    limits:
      - {quota: 1, window: 1h}
`

func TestDenialTellsWhichPolicyAndWhenToComeBack(t *testing.T) {
	p := serve(t, hello, itemsRule)
	if resp := p.get(p.proxy + "/items/alex"); resp.StatusCode != 200 || resp.Header.Get("RateLimit") != `"items";r=0;t=3600` {
		t.Errorf("first: %d, RateLimit %q", resp.StatusCode, resp.Header.Get("RateLimit"))
	}
	resp := p.get(p.proxy + "/items/alex")
	var problem struct {
		Type     string
		Status   int
		Detail   string
		Violated []string `json:"violated-policies"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	for what, ok := range map[string]bool{
		"status":           resp.StatusCode == 429 && problem.Status == 429,
		"Retry-After":      resp.Header.Get("Retry-After") == "3600",
		"RateLimit-Policy": resp.Header.Get("RateLimit-Policy") == `"items";q=1;w=3600`,
		"content type":     resp.Header.Get("Content-Type") == "application/problem+json",
		"policy":           len(problem.Violated) == 1 && problem.Violated[0] == "items",
		"detail":           strings.Contains(problem.Detail, `"items"`) && strings.Contains(problem.Detail, "1h"),
	} {
		if !ok {
			t.Errorf("%s is wrong: %v %v %+v", what, resp.Status, resp.Header, problem)
		}
	}
	if resp := p.get(p.proxy + "/items/kim"); resp.StatusCode != 200 {
		t.Errorf("another user: %d", resp.StatusCode)
	}
}

func TestEditIsInForceWithinASecond(t *testing.T) {
	p := serve(t, hello, itemsRule)
	p.get(p.proxy + "/items/alex")
	if code := p.get(p.proxy + "/items/alex").StatusCode; code != 429 {
		t.Fatalf("second request: %d", code)
	}
	p.edit("quota: 1,", "quota: 1000,")
	within(t, time.Second, "the raised quota", func() bool { return p.get(p.proxy+"/items/alex").StatusCode == 200 })
}

func TestBrokenEditIsRefused(t *testing.T) {
	p := serve(t, hello, itemsRule)
	p.get(p.proxy + "/items/alex")
	p.edit("quota: 1, window: 1h", "quota: 1000, window: 10 sec")
	within(t, 2*time.Second, "the refusal in the log", func() bool {
		return strings.Contains(p.log.String(), "the last good one stays in force")
	})
	for _, want := range []string{`"line":11`, `"field":"rules[0].limits[0].window"`, `\"10 sec\" is not a duration`, `(us, ms, s, m, h, d, w)`} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, p.log)
		}
	}
	if code := p.get(p.proxy + "/items/alex").StatusCode; code != 429 {
		t.Errorf("the last good rules are not in force: %d", code)
	}
	metrics, _ := io.ReadAll(p.get(p.api + "/metrics").Body)
	if !bytes.Contains(metrics, []byte("stint_config_current 0")) {
		t.Error("stint_config_current is not 0")
	}
	p.edit("window: 10 sec", "window: 10s")
	within(t, 2*time.Second, "the mended file", func() bool { return p.get(p.proxy+"/items/alex").StatusCode == 200 })
}

func TestReloadAtOnce(t *testing.T) {
	p := serve(t, hello, itemsRule)
	p.get(p.proxy + "/items/alex")
	p.edit("quota: 1,", "quota: 5,")
	p.reload <- struct{}{}
	within(t, time.Second, "the raised quota", func() bool { return p.get(p.proxy+"/items/alex").StatusCode == 200 })
}

func TestShutdownAnswersWhatHasBegun(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-finish
		fmt.Fprint(w, "done")
	}), itemsRule)
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get(p.proxy + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	<-began
	p.stop()
	within(t, 5*time.Second, "the listener closed", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.proxy, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(finish)
	if got := <-answer; got != "done" {
		t.Errorf("the request that had begun got %q", got)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	p := serve(t, hello, itemsRule)
	for range 3 {
		p.get(p.proxy + "/items/alex")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code := p.get(p.api + path).StatusCode; code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	text, _ := io.ReadAll(p.get(p.api + "/metrics").Body)
	for _, want := range []string{
		`stint_decisions_total{outcome="allowed",rule="items"} 1`,
		`stint_decisions_total{outcome="denied",rule="items"} 2`,
		`stint_requests_total{outcome="denied"} 2`,
		`stint_memory_keys 1`,
		`stint_config_current 1`,
		`stint_decision_duration_seconds_count 3`,
	} {
		if !bytes.Contains(text, []byte(want+"\n")) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if bytes.Contains(text, []byte("alex")) {
		t.Error("a key is in the metrics")
	}
	if !strings.Contains(p.log.String(), `"msg":"request denied","rule":"items","policy":"items","key":"user=alex"`) {
		t.Errorf("the denial is not in the log:\n%s", p.log)
	}
}

// TestSpellingsOfAPathAreOnePath: whoever writes a path in another way is
// still counted.
func TestSpellingsOfAPathAreOnePath(t *testing.T) {
	for _, spelling := range []string{
		"/items/alex/", "//items//alex", "/items/alex;x=1", "/items;a=b/alex", "/x/%2e%2e/items/alex",
		"/./items/alex", "/%69tems/alex", "/items/%61lex", "/items%2Falex", "/x/../items/alex", "/items/alex?x=1",
	} {
		t.Run(spelling, func(t *testing.T) {
			p := serve(t, hello, itemsRule)
			p.get(p.proxy + "/items/alex")
			if code := raw(t, p.proxy, "GET "+spelling+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); code != 429 {
				t.Errorf("status %d, want 429", code)
			}
		})
	}
}

func TestHostileRequests(t *testing.T) {
	p := serve(t, hello, itemsRule)
	for name, tt := range map[string]struct {
		request string
		want    int
	}{
		"invalid UTF-8":      {"GET /items/%ff%fe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200},
		"NUL":                {"GET /items/%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200},
		"broken escape":      {"GET /items/%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400},
		"a header of 10 MB":  {"GET /items/big HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("a", 10<<20) + "\r\n\r\n", 431},
		"a path of 8 KiB":    {"GET /items/" + strings.Repeat("a", 8<<10) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200},
		"no host":            {"GET /items/x HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
		"an unknown method":  {"BREW /items/coffee HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200},
		"an absolute target": {"GET http://x/items/absolute HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			if code := raw(t, p.proxy, tt.request); code != tt.want {
				t.Errorf("status %d, want %d", code, tt.want)
			}
		})
	}
	if code := p.get(p.proxy + "/healthy").StatusCode; code != 200 {
		t.Errorf("afterwards: %d", code)
	}
}

// raw sends bytes to a base URL and returns the status of the answer.
func raw(t *testing.T, base, request string) int {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	go io.WriteString(c, request) // the server may answer, and close, before it has all
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	var code int
	fmt.Sscanf(string(answer), "HTTP/1.1 %d", &code)
	return code
}

func TestCountersSurviveARestartOnSQLite(t *testing.T) {
	p := serve(t, hello, "store: sqlite:stint.db\n"+itemsRule)
	p.get(p.proxy + "/items/alex")
	p.stop()
	if err := <-p.ended; err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(filepath.Dir(p.file), "stint.db")
	if _, err := os.Stat(db); err != nil {
		t.Fatalf("the path is not relative to the rules file: %v", err)
	}
	_, yaml, _ := strings.Cut(string(text), "timeout: 2s}\n")
	again := serve(t, hello, strings.Replace(yaml, "sqlite:stint.db", "sqlite:"+db, 1))
	if code := again.get(again.proxy + "/items/alex").StatusCode; code != 429 {
		t.Errorf("after a restart: %d, want 429", code)
	}
}
