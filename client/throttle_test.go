package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/rest"
)

// remote is a service that notes when it is asked, and what.
type remote struct {
	mu     sync.Mutex
	began  time.Time
	asked  []time.Duration
	bodies []string
	answer func(n int, h http.Header) (status int) // to request n
}

func (s *remote) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		s.began = time.Now()
	}
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		s.bodies = append(s.bodies, string(text))
		r.Body.Close()
	}
	n := len(s.asked)
	s.asked = append(s.asked, time.Since(s.began))
	h, status := http.Header{}, 200
	if s.answer != nil {
		status = s.answer(n, h)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("hello")), Request: r}, nil
}

func send(t *testing.T, rt http.RoundTripper, ctx context.Context, method, url string, body io.Reader) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

const site = "http://partner.example/"

// TestThrottleKeepsALimit: twelve at once, of which a policy admits five at once
// and one a second, in order, and another host is not held up.
func TestThrottleKeepsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := limit.New(memory.New(nil), nil)
		defer limiter.Close()
		s := &remote{}
		rt := client.NewThrottle(&client.ThrottleOptions{Next: s, Take: client.FromLimiter(limiter, &limit.Policy{Name: "partner", Quota: 5, Window: 5 * time.Second})})
		var sending sync.WaitGroup
		for range 12 {
			sending.Go(func() {
				if status, err := send(t, rt, t.Context(), "GET", site, nil); err != nil || status != 200 {
					t.Errorf("%d, %v", status, err)
				}
			})
		}
		synctest.Wait()
		if _, err := send(t, rt, t.Context(), "GET", "http://other.example/", nil); err != nil {
			t.Errorf("another host: %v", err)
		}
		sending.Wait()
		var want []time.Duration
		for i := range 13 {
			want = append(want, time.Duration(max(0, i-5))*time.Second)
		}
		if diff := cmp.Diff(want, s.asked); diff != "" {
			t.Errorf("sent at (-want +got):\n%s", diff)
		}
	})
}

// TestThrottleHonoursTheRemote: how long after an answer the next request is sent.
func TestThrottleHonoursTheRemote(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		fields []string
		want   time.Duration
	}{
		"nothing":                    {200, nil, 0},
		"Retry-After":                {429, []string{"Retry-After: 7"}, 7 * time.Second},
		"Retry-After, a date":        {429, []string{"Retry-After: Sat, 01 Jan 2000 00:00:09 GMT"}, 9 * time.Second},
		"Retry-After in the past":    {429, []string{"Retry-After: Fri, 31 Dec 1999 00:00:00 GMT"}, 0},
		"Retry-After wins":           {429, []string{"Retry-After: 3", `RateLimit: "a";r=0;t=9`}, 3 * time.Second},
		"503 with Retry-After":       {503, []string{"Retry-After: 4"}, 4 * time.Second},
		"503 without":                {503, nil, 0},
		"301 with Retry-After":       {301, []string{"Retry-After: 4"}, 0},
		"429 without anything":       {429, nil, time.Second},
		"429 with a malformed field": {429, []string{"Retry-After: soon"}, time.Second},
		"draft 10":                   {200, []string{`RateLimit: "burst";r=0;t=5`}, 5 * time.Second},
		"draft 10, something left":   {200, []string{`RateLimit: "burst";r=1;t=5`}, 0},
		"draft 10, the longest":      {200, []string{`RateLimit: "a";r=0;t=2, "b";r=5;t=50,"c";t=6;r=0;pk=:YQ==:`, `RateLimit: "d";r=0;t=4`}, 6 * time.Second},
		"draft 10, without t":        {200, []string{`RateLimit: "a";r=0`}, 0},
		"draft 10, a comma within":   {200, []string{`RateLimit: "a,\";r=0;t=9";r=1;t=2`}, 0},
		"draft 10, malformed":        {200, []string{`RateLimit: a;r=0;t=5`, `RateLimit: "a;r=0;t=5`, `RateLimit: "a";r=0;t=-5`, `RateLimit: "a"r=0;t=5`, `RateLimit: "a";r=0;t=1.5`}, 0},
		"draft 3":                    {200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 8"}, 8 * time.Second},
		"draft 3, something left":    {200, []string{"X-RateLimit-Remaining: 2", "X-RateLimit-Reset: 8"}, 0},
		"draft 3, Unix time":         {200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 946684803"}, 3 * time.Second},
		"legacy":                     {200, []string{"RateLimit-Remaining: 0", "RateLimit-Reset: 8"}, 8 * time.Second},
		"a cached answer":            {429, []string{"Retry-After: 7", "Age: 3"}, 0},
		"ten years":                  {429, []string{"Retry-After: 315360000"}, 20 * time.Second},
		"more digits than there are": {429, []string{"Retry-After: 99999999999999999999"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &remote{answer: func(n int, h http.Header) int {
					if n > 0 {
						return 200
					}
					for _, f := range tt.fields {
						name, value, _ := strings.Cut(f, ": ")
						h.Add(name, value)
					}
					return tt.status
				}}
				rt := client.NewThrottle(&client.ThrottleOptions{Next: s, MaxPause: 20 * time.Second})
				for i := range 2 {
					status, err := send(t, rt, t.Context(), "GET", site, nil)
					if err != nil || i == 0 && status != tt.status {
						t.Errorf("request %d: %d, %v", i, status, err)
					}
				}
				// The clock of a bubble begins with the year 2000; 946684803 is 3 s later.
				if diff := cmp.Diff([]time.Duration{0, tt.want}, s.asked); diff != "" {
					t.Errorf("sent at (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestThrottleIsBounded: the line, the wait and whoever goes away.
func TestThrottleIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &remote{answer: func(n int, h http.Header) int { h.Set("Retry-After", "10"); return 429 }}
		rt := client.NewThrottle(&client.ThrottleOptions{Next: s, MaxWait: 15 * time.Second, MaxQueue: 3})
		if status, err := send(t, rt, t.Context(), "GET", site, nil); status != 429 || err != nil {
			t.Fatal(status, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 2)
		var sending sync.WaitGroup
		for range 2 {
			sending.Go(func() {
				_, err := send(t, rt, ctx, "GET", site, nil)
				gone <- err
			})
		}
		synctest.Wait()
		waited := make(chan error, 1)
		sending.Go(func() { _, err := send(t, rt, t.Context(), "GET", site, nil); waited <- err })
		synctest.Wait()
		body := &closeable{Reader: strings.NewReader("x")}
		_, err := send(t, rt, t.Context(), "POST", site, body)
		full, ok := errors.AsType[*client.LimitedError](err)
		if !ok || full.Key != "partner.example" || full.RetryAfter != 10*time.Second || !body.closed {
			t.Errorf("a fourth in a line of 3: %v, body closed: %v", err, body.closed)
		}
		cancel()
		for range 2 {
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("who goes away: %v", err)
			}
		}
		if err := <-waited; err != nil {
			t.Errorf("who stays: %v", err)
		}
		sending.Wait()
		if diff := cmp.Diff([]time.Duration{0, 10 * time.Second}, s.asked); diff != "" {
			t.Errorf("sent at (-want +got):\n%s", diff)
		}
		short := client.NewThrottle(&client.ThrottleOptions{Next: s, MaxWait: 5 * time.Second})
		send(t, short, t.Context(), "GET", site, nil)
		began := time.Now()
		if _, err := send(t, short, t.Context(), "GET", site, nil); err == nil || time.Since(began) != 0 {
			t.Errorf("a turn that comes too late: %v after %v", err, time.Since(began))
		}
	})
}

type closeable struct {
	io.Reader
	closed bool
}

func (c *closeable) Close() error { c.closed = true; return nil }

// TestThrottleSendsAgain: what was refused, with its body, as often as it may.
func TestThrottleSendsAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		method, body string
		hideBody     bool
		status       int
		fields       []string
		times        int // that the service refuses
		resend       int
		want         int // requests
	}{
		"429, then not":          {"POST", "hello", false, 429, []string{"Retry-After: 2"}, 2, 3, 3},
		"429, too often":         {"POST", "hello", false, 429, []string{"Retry-After: 2"}, 9, 3, 4},
		"never":                  {"GET", "", false, 429, []string{"Retry-After: 2"}, 9, 0, 1},
		"no body to give again":  {"POST", "hello", true, 429, []string{"Retry-After: 2"}, 9, 3, 1},
		"later than MaxWait":     {"GET", "", false, 429, []string{"Retry-After: 60"}, 9, 3, 1},
		"503, may be repeated":   {"PUT", "hello", false, 503, []string{"Retry-After: 2"}, 1, 3, 2},
		"503, may not":           {"POST", "hello", false, 503, []string{"Retry-After: 2"}, 1, 3, 1},
		"503 without a time":     {"GET", "", false, 503, nil, 1, 3, 1},
		"500":                    {"GET", "", false, 500, []string{"Retry-After: 2"}, 1, 3, 1},
		"all attempts, 30 s off": {"GET", "", false, 429, []string{"Retry-After: 13"}, 9, 9, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &remote{answer: func(n int, h http.Header) int {
					if n >= tt.times {
						return 200
					}
					for _, f := range tt.fields {
						name, value, _ := strings.Cut(f, ": ")
						h.Set(name, value)
					}
					return tt.status
				}}
				rt := client.NewThrottle(&client.ThrottleOptions{Next: s, Resend: tt.resend})
				var body io.Reader
				if tt.body != "" {
					body = bytes.NewReader([]byte(tt.body))
				}
				if tt.hideBody {
					body = io.MultiReader(body)
				}
				status, err := send(t, rt, t.Context(), tt.method, site, body)
				if err != nil || len(s.asked) != tt.want || (status == 200) != (tt.want > tt.times) {
					t.Errorf("%d, %v after %d requests, want %d", status, err, len(s.asked), tt.want)
				}
				for _, got := range s.bodies {
					if got != tt.body {
						t.Errorf("body %q", got)
					}
				}
			})
		})
	}
}

// TestThrottlesShareACounter: two processes' throttles ask one Stint.
func TestThrottlesShareACounter(t *testing.T) {
	c := start(t, api(t, 4), nil)
	describe := func(r *http.Request) rest.Descriptor { return rest.Descriptor{Path: "/items/" + r.URL.Host} }
	sent := 0
	for range 2 {
		s := &remote{}
		rt := client.NewThrottle(&client.ThrottleOptions{Next: s, Take: client.FromStint(c, describe), MaxWait: time.Second})
		for range 4 {
			_, err := send(t, rt, t.Context(), "GET", site, nil)
			if limited, ok := errors.AsType[*client.LimitedError](err); err != nil && (!ok || limited.RetryAfter < time.Minute) {
				t.Error(err)
			}
		}
		sent += len(s.asked)
	}
	if sent != 4 {
		t.Errorf("%d requests were sent of 4 that are admitted", sent)
	}
}

func TestThrottleTellsWhatTakeCannot(t *testing.T) {
	down := errors.New("down")
	s := &remote{}
	rt := client.NewThrottle(&client.ThrottleOptions{Next: s, Take: func(*http.Request) (time.Duration, bool, error) { return 0, false, down }})
	if _, err := send(t, rt, t.Context(), "GET", site, nil); !errors.Is(err, down) || len(s.asked) != 0 {
		t.Errorf("%v, %d sent", err, len(s.asked))
	}
}

// TestNothingIsSentInAPause: whatever the service answers and whenever requests
// come, none is sent before a pause is over that was asked for, none waits longer
// than MaxWait, and all end.
func TestNothingIsSentInAPause(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		arrivals := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 30).Draw(rt, "arrivals")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 8), len(arrivals), len(arrivals)).Draw(rt, "pauses")
		most := rapid.IntRange(1, 30).Draw(rt, "most")
		synctest.Test(t, func(t *testing.T) {
			s := &remote{began: time.Now(), answer: func(n int, h http.Header) int {
				if pauses[n] == 0 {
					return 200
				}
				h.Set("Retry-After", strconv.Itoa(pauses[n]))
				return 429
			}}
			throttle := client.NewThrottle(&client.ThrottleOptions{Next: s, MaxWait: time.Duration(most) * time.Second})
			var sending sync.WaitGroup
			for _, at := range arrivals {
				sending.Go(func() {
					time.Sleep(time.Duration(at) * time.Second)
					began := time.Now()
					_, err := send(t, throttle, t.Context(), "GET", site, nil)
					if _, limited := errors.AsType[*client.LimitedError](err); err != nil && !limited {
						t.Error(err)
					}
					if waited := time.Since(began); waited > time.Duration(most)*time.Second {
						t.Errorf("waited %v", waited)
					}
				})
			}
			sending.Wait()
			for n, at := range s.asked {
				for m, before := range s.asked[:n] {
					// What is sent at the same instant is on its way already.
					if end := before + time.Duration(pauses[m])*time.Second; before < at && at < end {
						t.Errorf("a request at %v, in a pause from %v to %v", at, before, end)
					}
				}
			}
		})
	})
}
