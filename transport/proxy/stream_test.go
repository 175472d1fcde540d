package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/middleware"
	"github.com/stint-dev/stint/transport/proxy"
)

// patience is how long a test waits for what should happen at once.
const patience = 10 * time.Second

func await[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %v", what, patience)
	}
	return v
}

// Each event arrives before the upstream has sent the next one.
func TestServerSentEventsArriveOneByOne(t *testing.T) {
	next := make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	f := listen(t, up.URL, proxy.Options{})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL, nil)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	events := bufio.NewReader(answer.Body)
	for i := range 3 {
		got := make(chan string, 1)
		go func() {
			line, _ := events.ReadString('\n')
			events.ReadString('\n')
			got <- line
		}()
		if line := await(t, got, "an event"); line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d is %q", i, line)
		}
		next <- struct{}{}
	}
}

// The upstream reads the beginning of a body before the caller has sent its end.
func TestRequestBodyIsStreamed(t *testing.T) {
	first := make(chan string)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 5)
		io.ReadFull(r.Body, buf)
		first <- string(buf)
		rest, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s, trailer %s", rest, r.Trailer.Get("X-Sum"))
	})
	f := listen(t, up.URL, proxy.Options{})
	body, send := io.Pipe()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL, body)
	r.Trailer = http.Header{"X-Sum": {"42"}}
	got := make(chan string, 1)
	go func() {
		_, text := do(t, r)
		got <- text
	}()
	io.WriteString(send, "hello")
	if b := await(t, first, "the first bytes at the upstream"); b != "hello" {
		t.Fatalf("the upstream got %q", b)
	}
	io.WriteString(send, "world")
	send.Close()
	if answer := await(t, got, "the answer"); answer != "world, trailer 42" {
		t.Errorf("answer is %q", answer)
	}
}

func TestResponseTrailers(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		io.WriteString(w, "body")
		w.Header().Set("X-Announced", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	})
	f := listen(t, up.URL, proxy.Options{})
	answer, body := get(t, f.URL)
	if body != "body" || answer.Trailer.Get("X-Announced") != "1" || answer.Trailer.Get("X-Late") != "2" {
		t.Errorf("body %q, trailers %v", body, answer.Trailer)
	}
}

// gated is a proxy behind the middleware with one rule for /{path...}.
func gated(t testing.TB, up string, quota int64) *httptest.Server {
	t.Helper()
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name: "all", Key: []string{"ip"},
		Limits: []rules.LimitSpec{{Quota: quota, Window: rules.Duration(time.Hour)}},
	}}})
	if set == nil {
		t.Fatal(problems)
	}
	id, _ := identity.New(identity.Spec{}, nil)
	t.Cleanup(id.Close)
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set, Identity: id}, nil)
	u, err := url.Parse(up)
	if err != nil {
		t.Fatal(err)
	}
	h, err := proxy.New(proxy.Options{Upstream: u})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(middleware.New(g, nil)(h))
	t.Cleanup(s.Close)
	return s
}

func TestWebSocketThroughTheWholeChain(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil {
				return
			}
			c.Write(r.Context(), kind, append([]byte("echo "), message...))
		}
	})
	front := gated(t, up.URL, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, answer, err := websocket.Dial(ctx, front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if got := answer.Header.Get("RateLimit"); got != `"all";r=0;t=3600` {
		t.Errorf("RateLimit of the upgrade is %s", got)
	}
	for _, word := range []string{"one", "two", strings.Repeat("long", 5000)} {
		if err := c.Write(ctx, websocket.MessageText, []byte(word)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(ctx); err != nil || string(got) != "echo "+word {
			t.Fatalf("sent %.10s, got %.20s, %v", word, got, err)
		}
	}
	c.Close(websocket.StatusNormalClosure, "")

	// The quota is spent: the next one is not upgraded.
	if _, answer, err := websocket.Dial(ctx, front.URL, nil); err == nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("second connection: %v; want 429", err)
	}
}

// httputil empties the header after each informational answer; the fields that
// the middleware has set must still be in the final one.
func TestFieldsOutliveInformationalAnswers(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		for range 2 {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		}
		w.Header().Set("RateLimit", `"upstream";r=7`)
		w.WriteHeader(http.StatusCreated)
	})
	front := gated(t, up.URL, 5)
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		if status == http.StatusEarlyHints && h.Get("Link") != "" {
			hints++
		}
		return nil
	}})
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, front.URL, nil)
	answer, _ := do(t, r)
	if got := strings.Join(answer.Header.Values("RateLimit"), ", "); hints != 2 || answer.StatusCode != http.StatusCreated || got != `"all";r=4;t=720, "upstream";r=7` {
		t.Errorf("%d hints, status %d, RateLimit %s", hints, answer.StatusCode, got)
	}
	if links := answer.Header.Values("Link"); len(links) > 0 {
		t.Errorf("the final answer repeats Link of the hints: %q", links)
	}
}

// An upstream that answers while it reads gets all of a body, and its caller all of the
// answer.
func TestAnswerThatBeginsBeforeTheBodyEnds(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		c.EnableFullDuplex()
		io.Copy(w, r.Body)
	}))
	defer upstream.Close()
	u, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	h, err := proxy.New(proxy.Options{Upstream: u})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(h)
	defer front.Close()
	for size := 1 << 10; size <= 4<<20; size *= 2 {
		body := strings.Repeat("x", size)
		resp, err := http.Post(front.URL, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != body {
			t.Errorf("of %d bytes %d came back, %v", size, len(got), err)
		}
	}
}
