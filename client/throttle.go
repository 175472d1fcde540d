package client

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/transport/rest"
)

// Take asks for leave to send r. If it is not given, retryAfter is when to ask
// again. An error means that nothing could be decided.
type Take func(r *http.Request) (retryAfter time.Duration, ok bool, err error)

// FromLimiter takes a unit of p for each request, under the host that it goes
// to. All processes whose limiters share a store share the limit.
func FromLimiter(l *limit.Limiter, p *limit.Policy) Take {
	return func(r *http.Request) (time.Duration, bool, error) {
		d, err := l.Take(r.Context(), p, hostOf(r), 1)
		return d.RetryAfter, d.Allowed, err
	}
}

// FromStint asks a Stint process about each request, which describe describes
// to its rules.
func FromStint(c *Client, describe func(r *http.Request) rest.Descriptor) Take {
	return func(r *http.Request) (time.Duration, bool, error) {
		a, err := c.Decide(r.Context(), rest.Ask{Descriptors: []rest.Descriptor{describe(r)}})
		return time.Duration(a.RetryAfterMS) * time.Millisecond, a.Allowed, err
	}
}

// ThrottleOptions configure a Throttle. The zero value keeps to what the remote
// service says.
type ThrottleOptions struct {
	// Next sends the requests. Defaults to http.DefaultTransport.
	Next http.RoundTripper
	// Take, if set, is asked before each request is sent.
	Take Take
	// Key tells which requests wait in one line and pause together. Defaults to
	// the host that they go to.
	Key func(r *http.Request) string
	// MaxWait is the longest that a request waits, all its attempts together.
	// Defaults to 30s.
	MaxWait time.Duration
	// MaxQueue is how many requests of a key wait at one time. Defaults to 100.
	MaxQueue int
	// MaxPause is the longest pause that a remote service is granted.
	// Defaults to 1h.
	MaxPause time.Duration
	// Resend is how often a request is sent again that the remote service has
	// refused: with 429, or with 503 and Retry-After if its method may be
	// repeated. It needs no body, or one that GetBody can give again.
	// Defaults to 0: the refusal is what the caller gets.
	Resend int
}

// Throttle is an http.RoundTripper that sends a request when it may be sent:
// when Take gives leave and the remote service has not asked for a pause, in
// Retry-After or in RateLimit fields of any dialect. Until then requests wait,
// key by key, first come, first served.
//
// A request whose turn would come too late, or that finds the line full, is not
// sent: its error is a *LimitedError. One whose context ends leaves the line.
// A Throttle is safe for simultaneous use.
type Throttle struct {
	options ThrottleOptions
	queue   limit.Queue

	mu     sync.Mutex
	pauses map[string]time.Time // when they end, by key
}

// maxPauses bounds the keys that are paused at one time.
const maxPauses = 10_000

// NewThrottle returns a Throttle. A nil o is the zero ThrottleOptions.
func NewThrottle(o *ThrottleOptions) *Throttle {
	t := &Throttle{pauses: make(map[string]time.Time)}
	if o != nil {
		t.options = *o
	}
	if t.options.Next == nil {
		t.options.Next = http.DefaultTransport
	}
	if t.options.Key == nil {
		t.options.Key = hostOf
	}
	t.options.MaxWait = cmp.Or(t.options.MaxWait, 30*time.Second)
	t.options.MaxQueue = cmp.Or(t.options.MaxQueue, 100)
	t.options.MaxPause = cmp.Or(t.options.MaxPause, time.Hour)
	return t
}

// LimitedError is a request that was not sent, since its turn would have come
// too late.
type LimitedError struct {
	// Key is the line in which it would have waited.
	Key string
	// RetryAfter is after what time it could be sent.
	RetryAfter time.Duration
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("client: the limit of %s is reached; try again in %v", e.Key, e.RetryAfter)
}

// RoundTrip sends r when it may be sent.
func (t *Throttle) RoundTrip(r *http.Request) (*http.Response, error) {
	key, end := t.options.Key(r), time.Now().Add(t.options.MaxWait)
	for sent := 0; ; sent++ {
		if err := t.wait(r, key, time.Until(end)); err != nil {
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, err
		}
		resp, err := t.options.Next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		again := min(pause(resp, time.Now()), t.options.MaxPause)
		t.setPause(key, again)
		if sent >= t.options.Resend || again > time.Until(end) || !resendable(r, resp) {
			return resp, nil
		}
		next, err := renewed(r)
		if err != nil {
			return resp, nil // the refusal is at hand, and the body is not
		}
		// What is left of a refusal is short; the connection is worth more.
		io.CopyN(io.Discard, resp.Body, 64<<10)
		resp.Body.Close()
		r = next
	}
}

// wait returns when r may be sent, or why it may not.
func (t *Throttle) wait(r *http.Request, key string, most time.Duration) error {
	turn := limit.Turn{MaxWait: most, MaxQueue: t.options.MaxQueue}
	passage, err := t.queue.Wait(r.Context(), key, turn, func() (time.Duration, bool, error) {
		if left := t.paused(key); left > 0 {
			return left, false, nil
		}
		if t.options.Take == nil {
			return 0, true, nil
		}
		return t.options.Take(r)
	})
	if err == nil && !passage.Admitted {
		err = &LimitedError{key, passage.RetryAfter}
	}
	return err
}

// paused returns how long key's pause still lasts.
func (t *Throttle) paused(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	end, found := t.pauses[key]
	if !found {
		return 0
	}
	left := time.Until(end)
	if left <= 0 {
		delete(t.pauses, key)
	}
	return left
}

// setPause makes key pause for d, if that is longer than it does already.
func (t *Throttle) setPause(key string, d time.Duration) {
	if d <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	end := time.Now().Add(d)
	if before, found := t.pauses[key]; found && !end.After(before) {
		return
	} else if !found && len(t.pauses) >= maxPauses {
		t.makeRoom()
	}
	t.pauses[key] = end
}

// makeRoom requires that t.mu is held. It ends the pauses that are over, or
// else the one that ends first.
func (t *Throttle) makeRoom() {
	now := time.Now()
	var first string
	for key, end := range t.pauses {
		if !end.After(now) {
			delete(t.pauses, key)
		} else if first == "" || end.Before(t.pauses[first]) {
			first = key
		}
	}
	if len(t.pauses) >= maxPauses {
		delete(t.pauses, first)
	}
}

// resendable reports whether resp refuses r in a way that says r had no effect,
// or that r may be repeated anyway.
func resendable(r *http.Request, resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return resp.Header.Get("Retry-After") != "" && repeatable(r)
	}
	return false
}

func repeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// renewed returns r with its body at the beginning.
func renewed(r *http.Request) (*http.Request, error) {
	next := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return next, nil
	}
	if r.GetBody == nil {
		return nil, fmt.Errorf("client: the body of %s %s cannot be sent again", r.Method, r.URL.Redacted())
	}
	body, err := r.GetBody()
	next.Body = body
	return next, err
}

func hostOf(r *http.Request) string { return strings.ToLower(r.URL.Host) }

var _ http.RoundTripper = (*Throttle)(nil)
