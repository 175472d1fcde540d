// Package client asks a Stint process for decisions from Go, and keeps an HTTP
// client within the limits of the services that it calls.
//
// [Client] is POST /api/v1/decisions with timeouts and with retries that are
// not charged again. [Throttle] is an http.RoundTripper that waits before it
// sends, for a limit of one's own and for what the remote service says.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/transport/rest"
)

// Options configure a Client. The zero value is ready to use.
type Options struct {
	// HTTPClient sends the requests. Its CheckRedirect is not used. Defaults to
	// a client with connections of its own.
	HTTPClient *http.Client
	// Token, if set, is sent as Authorization: Bearer.
	Token string
	// Timeout bounds a decision, all its attempts together. Defaults to 1s.
	Timeout time.Duration
	// Attempts is how often a decision is asked for at most. Defaults to 3.
	Attempts int
	// OnError, if set, decides what Stint has not decided in time: the Answer
	// says what OnError returns, and Decide returns no error. It is not called
	// for what cannot be decided at all (an *AskError), nor when the caller's
	// own context has ended.
	OnError func(err error) (allowed bool)
}

// Client asks one Stint process. It is safe for simultaneous use.
type Client struct {
	url     string
	options Options
	http    http.Client
}

// New returns a Client of the process whose API is at base, such as
// http://127.0.0.1:8080. A nil o is the zero Options.
//
// An attempt that got no answer may have been charged, so every attempt carries
// the same idempotency key, which that one process remembers for 10 minutes. A
// load balancer in between could send the next attempt to another process, where
// it is charged again; give each process a Client of its own.
func New(base string, o *Options) (*Client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: base: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("client: base: %q; a URL of scheme http or https and a host is needed, such as http://127.0.0.1:8080", u.Redacted())
	}
	c := &Client{url: strings.TrimSuffix(u.String(), "/") + "/api/v1/decisions"}
	if o != nil {
		c.options = *o
	}
	if c.options.Timeout < 0 || c.options.Attempts < 0 {
		return nil, fmt.Errorf("client: timeout %v, attempts %d; neither may be negative", c.options.Timeout, c.options.Attempts)
	}
	c.options.Timeout = cmp.Or(c.options.Timeout, time.Second)
	c.options.Attempts = cmp.Or(c.options.Attempts, 3)
	if c.options.HTTPClient != nil {
		c.http = *c.options.HTTPClient
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		c.http.Transport = transport
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// AskError is an Ask that can never be decided, as Stint says.
type AskError struct {
	// Status is that of the answer: 4xx.
	Status int
	// Detail is what is wrong and what is allowed.
	Detail string
}

func (e *AskError) Error() string { return fmt.Sprintf("client: %d: %s", e.Status, e.Detail) }

// Decide asks whether all of ask may happen now, and charges for it if so. A
// denial is an Answer, never an error. Without Options.OnError an error means
// that nothing is known to have been decided, but for an *AskError; a unit may
// have been spent.
func (c *Client) Decide(ctx context.Context, ask rest.Ask) (rest.Answer, error) {
	body, err := json.Marshal(ask)
	if err != nil { // numbers and strings always encode
		panic(err)
	}
	limited, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	answer, err := c.insist(limited, rand.Text(), body)
	switch _, bad := errors.AsType[*AskError](err); {
	case err == nil || bad:
		return answer, err
	case ctx.Err() != nil:
		return rest.Answer{}, ctx.Err()
	case c.options.OnError == nil:
		return rest.Answer{}, err
	}
	if c.options.OnError(err) {
		return rest.Answer{Allowed: true}, nil
	}
	return rest.Answer{Status: http.StatusServiceUnavailable, RetryAfterMS: 1000}, nil
}

// insist asks with one key until there is an answer, or no attempt or time is left.
func (c *Client) insist(ctx context.Context, key string, body []byte) (rest.Answer, error) {
	for attempt := 1; ; attempt++ {
		answer, wait, err := c.once(ctx, key, body)
		if err == nil || wait < 0 || attempt == c.options.Attempts {
			return answer, err
		}
		// Somewhere between 5 and 15 ms, and twice that each time.
		wait = max(wait, (5*time.Millisecond+mathrand.N(10*time.Millisecond))<<min(attempt-1, 10))
		if end, _ := ctx.Deadline(); time.Until(end) <= wait {
			return answer, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return answer, err
		}
	}
}

// maxAnswer is the most bytes of an answer that are read.
const maxAnswer = 4 << 20

// once asks once. The error comes with the shortest time after which it may help
// to ask again, or less than 0 if it never does.
func (c *Client) once(ctx context.Context, key string, body []byte) (answer rest.Answer, wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil { // New has checked the URL
		return answer, -1, fmt.Errorf("client: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	if c.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return answer, 0, fmt.Errorf("client: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer, 0, fmt.Errorf("client: the answer breaks off: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &answer); err != nil {
			return rest.Answer{}, -1, fmt.Errorf("client: the answer is not one of Stint's: %w", err)
		}
		return answer, 0, nil
	}
	var problem struct{ Detail string }
	json.Unmarshal(text, &problem) // another server's answer has none
	detail := cmp.Or(problem.Detail, http.StatusText(resp.StatusCode))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		wait, _ := retryAfter(resp.Header, time.Now())
		return answer, wait, fmt.Errorf("client: status %d: %s", resp.StatusCode, detail)
	case resp.StatusCode >= 400:
		return answer, -1, &AskError{resp.StatusCode, detail}
	default:
		return answer, -1, fmt.Errorf("client: status %d, which Stint never answers; is %s its API?", resp.StatusCode, c.url)
	}
}
