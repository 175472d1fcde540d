package middleware

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func sorry(w http.ResponseWriter) { http.Error(w, "sorry", http.StatusServiceUnavailable) }

// within runs h for a second at most, in a bubble with a clock of its own, and returns
// the answer, after how long it came, and how long h ran.
func within(t *testing.T, h http.HandlerFunc) (resp *http.Response, answered, ran time.Duration) {
	t.Helper()
	w := httptest.NewRecorder()
	w.Header().Set("X-Before", "set")
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	began := time.Now()
	returned := make(chan time.Duration, 1)
	serveUntil(began.Add(time.Second), w, r, h, sorry, func() { returned <- time.Since(began) })
	return w.Result(), time.Since(began), <-returned
}

func TestAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, answered, ran := within(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(999 * time.Millisecond)
			w.Header().Set("X-Answer", "42")
			w.Header().Del("X-Before")
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, "tea")
		})
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusTeapot || string(body) != "tea" || resp.Header.Get("X-Answer") != "42" || resp.Header.Get("X-Before") != "" {
			t.Errorf("%v %q", resp, body)
		}
		if answered != 999*time.Millisecond || ran != answered {
			t.Errorf("answered after %v, ran for %v", answered, ran)
		}
	})
}

// A handler that writes nothing is answered as net/http does, with its header.
func TestNothingWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, _, _ := within(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Answer", "42")
			w.Header().Del("X-Before")
		})
		if resp.StatusCode != 200 || resp.Header.Get("X-Answer") != "42" || resp.Header.Get("X-Before") != "" {
			t.Errorf("%v", resp)
		}
	})
}

// The caller is answered when its time is up. The handler goes on until it returns, and
// nothing that it writes reaches anybody.
func TestTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wrote, ended error
		resp, answered, ran := within(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Answer", "42")
			time.Sleep(3 * time.Second)
			ended = context.Cause(r.Context())
			w.Header().Set("X-Answer", "43")
			w.WriteHeader(http.StatusTeapot)
			_, wrote = io.WriteString(w, "tea")
		})
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 503 || string(body) != "sorry\n" || resp.Header.Get("X-Answer") != "" {
			t.Errorf("%v %q", resp, body)
		}
		if answered != time.Second || ran != 3*time.Second {
			t.Errorf("answered after %v, ran for %v", answered, ran)
		}
		if !errors.Is(wrote, http.ErrHandlerTimeout) || ended != errTimeUp {
			t.Errorf("writing failed with %v, the context ended for %v", wrote, ended)
		}
	})
}

// An answer that has begun cannot be taken back: the connection is cut off.
func TestTimeIsUpInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan bool)
		defer func() {
			if got := recover(); got != http.ErrAbortHandler {
				t.Errorf("panic %v", got)
			}
			<-released
		}()
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		serveUntil(time.Now().Add(time.Second), w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "te")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrHandlerTimeout) {
				t.Errorf("flushing: %v", err)
			}
		}), sorry, func() { close(released) })
	})
}

func TestPanicsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		func() {
			defer func() {
				if got := recover(); got != "ouch" {
					t.Errorf("a panic in time is %v", got)
				}
			}()
			within(t, func(http.ResponseWriter, *http.Request) { panic("ouch") })
		}()
		var lines strings.Builder
		server := &http.Server{ErrorLog: log.New(&lines, "", 0)}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.ServerContextKey, server), "GET", "/", nil)
		returned := make(chan bool)
		serveUntil(time.Now().Add(time.Second), httptest.NewRecorder(), r, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(2 * time.Second)
			panic("ouch")
		}), sorry, func() { close(returned) })
		<-returned
		synctest.Wait()
		if !strings.Contains(lines.String(), "after its caller was answered: ouch") {
			t.Errorf("the log says %q", lines.String())
		}
	})
}

// What a server and a client see: streams, trailers, deadlines, and a connection that
// the handler takes over.
func TestDeadlineOnConnections(t *testing.T) {
	var returned atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "a")
		http.NewResponseController(w).Flush()
		io.WriteString(w, "b")
		w.Header().Set("X-Sum", "2")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		for _, err := range []error{c.SetReadDeadline(time.Now().Add(time.Minute)), c.SetWriteDeadline(time.Now().Add(time.Minute)), c.EnableFullDuplex()} {
			if err != nil {
				t.Error(err)
			}
		}
		conn, rw, err := c.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		<-r.Context().Done() // the time is up, and the connection is still this handler's
		line, _ := rw.ReadString('\n')
		io.WriteString(rw, line)
		rw.Flush()
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveUntil(time.Now().Add(200*time.Millisecond), w, r, mux, sorry, func() { returned.Add(1) })
	}))
	defer server.Close()
	get := func(path string) (status int, body string, resp *http.Response, err error) {
		if resp, err = server.Client().Get(server.URL + path); err != nil {
			return 0, "", nil, err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data), resp, err
	}
	if status, body, resp, err := get("/stream"); err != nil || status != 200 || body != "ab" || resp.Trailer.Get("X-Sum") != "2" {
		t.Errorf("/stream: %d %q %v %v", status, body, resp, err)
	}
	if status, _, resp, err := get("/hints"); err != nil || status != 204 || resp.Header.Get("Link") != "</a>" {
		t.Errorf("/hints: %d %v %v", status, resp, err)
	}
	if status, body, _, err := get("/late"); err != nil || status != 503 || body != "sorry\n" {
		t.Errorf("/late: %d %q %v", status, body, err)
	}
	if status, body, _, err := get("/cut"); err == nil {
		t.Errorf("/cut: %d %q, and no error", status, body)
	}
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	io.WriteString(conn, "ping\n")
	if line, err := reader.ReadString('\n'); line != "ping\n" {
		t.Errorf("over the upgraded connection: %q %v", line, err)
	}
	for deadline := time.Now().Add(10 * time.Second); returned.Load() < 5; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d handlers of 5 have returned", returned.Load())
		}
	}
}

// A caller that does not read cannot hold up its handler's end.
func TestCallerThatDoesNotRead(t *testing.T) {
	returned := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveUntil(time.Now().Add(200*time.Millisecond), w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var err error
			for chunk := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(chunk)
			}
			returned <- err
		}), sorry, func() {})
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-returned:
	case <-time.After(10 * time.Second):
		t.Error("the handler is still writing")
	}
}
