// Package webhook tells receivers over HTTP that an event's slot has come. Requests
// are signed as in the Standard Webhooks specification, 1.0.0, so a receiver can check
// them with any of its libraries.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/slots/deliver"
	"github.com/stint-dev/stint/slots/plan"
)

// Bounds of secrets.
const (
	MinSecret  = 24 // bytes
	MaxSecret  = 64 // bytes
	MaxSecrets = 4

	secretPrefix = "whsec_"
)

// ParseSecrets reads secrets with blanks between them, each written as whsec_ and
// base64. The error says nothing of what they are.
func ParseSecrets(text string) (secrets [][]byte, err error) {
	for i, field := range strings.Fields(text) {
		encoded, is := strings.CutPrefix(field, secretPrefix)
		secret, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case !is || err != nil:
			return nil, fmt.Errorf("secret %d is not written as whsec_ and base64; make one: echo whsec_$(openssl rand -base64 32)", i+1)
		case len(secret) < MinSecret || len(secret) > MaxSecret:
			return nil, fmt.Errorf("secret %d has %d bytes; %d to %d are allowed", i+1, len(secret), MinSecret, MaxSecret)
		case i >= MaxSecrets:
			return nil, fmt.Errorf("there are more than %d secrets", MaxSecrets)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no secret; make one: echo whsec_$(openssl rand -base64 32)")
	}
	return secrets, nil
}

// Options configure a Sender. The zero value is ready to use.
type Options struct {
	// TLS configures connections to receivers. nil verifies their certificates
	// against the system's roots.
	TLS *tls.Config
}

// Sender is a [deliver.Sender] that makes requests. It follows no redirect: what is
// signed is for one receiver. It is safe for simultaneous use.
type Sender struct {
	secrets [][]byte
	client  http.Client
}

// New returns a Sender that signs with each of the secrets, so that a receiver may
// know any one of them while they are changed. A nil o is the zero Options.
func New(secrets [][]byte, o *Options) (*Sender, error) {
	if len(secrets) == 0 {
		return nil, errors.New("webhook: there is no secret to sign with")
	}
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	if o != nil {
		t.TLSClientConfig = o.TLS
	}
	return &Sender{secrets: secrets, client: http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Body is what a receiver is sent, as JSON. Times are of RFC 3339, in UTC, to the
// microsecond.
type Body struct {
	ConfigName    string `json:"configName"`
	EventID       string `json:"eventId"`
	ScheduledTime string `json:"scheduledTime"`
	RequestedTime string `json:"requestedTime"`
	Attempt       int    `json:"attempt"`
}

// maxAnswer is how much is read of what a receiver answers, and maxQuoted how much of
// that is told.
const (
	maxAnswer = 4 << 10
	maxQuoted = 120
)

// Send implements [deliver.Sender]. Any 2xx is taken for success, and 410 for a
// failure for good. 429 and 503 may have a Retry-After.
func (s *Sender) Send(ctx context.Context, m *deliver.Message) error {
	body, err := json.Marshal(Body{m.Config, m.ID, formatTime(m.Slot), formatTime(m.Requested), m.Attempt})
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the receiver's URL cannot be used") // it may have a secret in it
	}
	id, timestamp := messageID(m), strconv.FormatInt(m.Now.Time().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "stint")
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", timestamp)
	r.Header.Set("Webhook-Signature", s.sign(id, timestamp, body))
	answer, err := s.client.Do(r)
	if err != nil {
		return &deliver.Failure{Err: explain(ctx, err)}
	}
	defer answer.Body.Close()
	// Of a short answer all is read, so that the connection can be used again.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	f := &deliver.Failure{Status: answer.StatusCode, Permanent: answer.StatusCode == http.StatusGone}
	f.Err = fmt.Errorf("the receiver answers %s", statusText(answer.StatusCode))
	if quoted := strings.TrimSpace(string(text[:min(len(text), maxQuoted)])); quoted != "" {
		f.Err = fmt.Errorf("%w: %s", f.Err, quoted)
	}
	if f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable {
		f.RetryAfter = retryAfter(answer.Header.Get("Retry-After"), m.Now)
	}
	return f
}

// messageID names a message by its config and event. It is the same for all attempts,
// and no two events share one.
func messageID(m *deliver.Message) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(m.Config))))
	h.Write([]byte(m.Config + m.ID))
	return "evt_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// sign returns the signatures by each secret, with blanks between them.
func (s *Sender) sign(id, timestamp string, body []byte) string {
	signatures := make([]string, len(s.secrets))
	for i, secret := range s.secrets {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(id + "." + timestamp + "."))
		h.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// explain returns err without the URL, which may have a secret in it.
func explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("the receiver has not answered in time")
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// retryAfter reads how long a receiver wants to be left alone: so many seconds, or
// until a time. 0 is what cannot be read.
func retryAfter(text string, now plan.Ticks) time.Duration {
	const most = 365 * 24 * time.Hour
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, most)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(0, until.Sub(now.Time())), most)
}

func formatTime(t plan.Ticks) string { return t.Time().Format("2006-01-02T15:04:05.999999Z") }
