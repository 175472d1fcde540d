package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots/deliver"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/webhook"
)

func secret(c string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 32)))
}

func sender(t testing.TB, o *webhook.Options, secrets ...string) *webhook.Sender {
	t.Helper()
	parsed, err := webhook.ParseSecrets(strings.Join(secrets, " "))
	if err != nil {
		t.Fatal(err)
	}
	s, err := webhook.New(parsed, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var noon = plan.At(time.Date(2030, 6, 1, 12, 0, 0, 500_000_000, time.UTC))

func message(url string) *deliver.Message {
	return &deliver.Message{URL: url, Config: "payments", ID: "pay-1 é", Requested: noon - plan.Second, Slot: noon, Now: noon + plan.Second, Attempt: 3}
}

// verify checks a request as a receiver does that has read the specification and
// nothing of this package.
func verify(r *http.Request, body []byte, secret string) error {
	key, err := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
	if err != nil {
		return err
	}
	signed := fmt.Sprintf("%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
	for _, signature := range strings.Split(r.Header.Get("webhook-signature"), " ") {
		version, text, _ := strings.Cut(signature, ",")
		got, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(signed))
		if version == "v1" && hmac.Equal(got, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("no signature is right")
}

func TestRequestsAreSigned(t *testing.T) {
	first, second, third := secret("a"), secret("b"), secret("c")
	var id atomic.Value
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, is := range map[string]bool{first: true, second: true, third: false} {
			if err := verify(r, body, name); (err == nil) != is {
				t.Errorf("by secret %s: %v; want it to be right: %v", name, err, is)
			}
		}
		if verify(r, append(body, ' '), first) == nil {
			t.Error("the signature is right for another body, too")
		}
		const want = `{"configName":"payments","eventId":"pay-1 é","scheduledTime":"2030-06-01T12:00:00.5Z","requestedTime":"2030-06-01T11:59:59.5Z","attempt":3}`
		if string(body) != want || r.Method != http.MethodPost || r.URL.RequestURI() != "/hooks?a=b" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s %s with %v and %s, want %s", r.Method, r.URL, r.Header, body, want)
		}
		if at, _ := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64); at != noon.Time().Unix()+1 {
			t.Errorf("the timestamp is %d, want %d, which is the database's", at, noon.Time().Unix()+1)
		}
		id.Store(r.Header.Get("webhook-id"))
		w.WriteHeader(http.StatusAccepted)
	}))
	defer receiver.Close()
	s := sender(t, nil, first, second)
	send := func(m *deliver.Message) string {
		t.Helper()
		if err := s.Send(t.Context(), m); err != nil {
			t.Error(err)
		}
		return id.Load().(string)
	}
	m := message(receiver.URL + "/hooks?a=b")
	if one, again := send(m), send(m); one != again || len(one) < 20 || strings.Contains(one, ".") {
		t.Errorf("the ids of two attempts are %q and %q", one, again)
	}
}

// An event of another config, or another event, has another id, however names are cut.
func TestIDsAreUnique(t *testing.T) {
	ids := make(map[string]string)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body webhook.Body
		json.NewDecoder(r.Body).Decode(&body)
		id, what := r.Header.Get("webhook-id"), body.ConfigName+"|"+body.EventID
		if other, has := ids[id]; has {
			t.Errorf("%s and %s are both %s", what, other, id)
		}
		ids[id] = what
	}))
	defer receiver.Close()
	s := sender(t, nil, secret("a"))
	for _, names := range [][2]string{{"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"a", "b"}, {"b", "a"}} {
		m := message(receiver.URL)
		m.Config, m.ID = names[0], names[1]
		if err := s.Send(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 5 {
		t.Errorf("%d ids, want 5", len(ids))
	}
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, test := range []struct {
		name, retryAfter string
		status           int
		body             string
		permanent        bool
		wait             time.Duration
		text             string // "" is none
	}{
		{"accepted", "", 202, "", false, 0, ""},
		{"no content", "", 204, "", false, 0, ""},
		{"a long answer that is fine", "", 200, long, false, 0, ""},
		{"broken", "", 500, "oh\nno", false, 0, "the receiver answers 500 Internal Server Error: oh\nno"},
		{"a long answer that is not", "", 500, long, false, 0, "the receiver answers 500 Internal Server Error: " + long[:120]},
		{"gone", "10", 410, "", true, 0, "the receiver answers 410 Gone"},
		{"busy", "120", 429, "", false, 2 * time.Minute, "the receiver answers 429 Too Many Requests"},
		{"busy until", "Sat, 01 Jun 2030 12:01:01 GMT", 503, "", false, 59500 * time.Millisecond, "the receiver answers 503 Service Unavailable"},
		{"busy until a time that is past", "Sat, 01 Jun 2030 11:01:01 GMT", 503, "", false, 0, "the receiver answers 503 Service Unavailable"},
		{"busy for ever", "2147483647", 503, "", false, 365 * 24 * time.Hour, "the receiver answers 503 Service Unavailable"},
		{"busy in words", "soon", 503, "", false, 0, "the receiver answers 503 Service Unavailable"},
		{"busy for less than nothing", "-5", 503, "", false, 0, "the receiver answers 503 Service Unavailable"},
		{"not busy, whatever it says", "120", 500, "", false, 0, "the receiver answers 500 Internal Server Error"},
		{"elsewhere", "", 307, "", false, 0, "the receiver answers 307 Temporary Redirect"},
		{"a number of its own", "", 599, "", false, 0, "the receiver answers 599"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var requests atomic.Int64
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			defer receiver.Close()
			err := sender(t, nil, secret("a")).Send(t.Context(), message(receiver.URL))
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			if test.text == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			f, ok := errors.AsType[*deliver.Failure](err)
			if !ok || f.Status != test.status || f.Permanent != test.permanent || f.RetryAfter != test.wait || f.Error() != test.text {
				t.Errorf("got %+v, %v", f, err)
			}
		})
	}
}

// Who does not answer, or cannot be believed, is told so, without the URL.
func TestNoAnswer(t *testing.T) {
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(hang)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1024)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	secure.Config.ErrorLog = nil
	closed := httptest.NewServer(nil)
	closed.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	for _, test := range []struct {
		name, url, text string
		tls             *tls.Config
	}{
		{"slow", slow.URL, "the receiver has not answered in time", nil},
		{"endless, but fine", endless.URL, "", nil},
		{"not known", secure.URL, "certificate", nil},
		{"known", secure.URL, "", &tls.Config{RootCAs: roots}},
		{"closed", closed.URL, "connection refused", nil},
		{"no URL", "http://[::1", "the receiver's URL cannot be used", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if test.text == "" {
				ctx = t.Context()
			}
			err := sender(t, &webhook.Options{TLS: test.tls}, secret("a")).Send(ctx, message(test.url+"/token-of-mine"))
			switch {
			case test.text == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case test.text != "" && (err == nil || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "token-of-mine")):
				t.Errorf("got %v, want %q and nothing of the path", err, test.text)
			}
		})
	}
}

func TestParseSecrets(t *testing.T) {
	whsec := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, test := range []struct {
		text, err string
		n         int
	}{
		{whsec(24), "", 1},
		{"  " + whsec(64) + "\n" + whsec(32) + " ", "", 2},
		{"", "there is no secret", 0},
		{" \n", "there is no secret", 0},
		{whsec(23), "secret 1 has 23 bytes; 24 to 64 are allowed", 0},
		{whsec(32) + " " + whsec(65), "secret 2 has 65 bytes; 24 to 64 are allowed", 0},
		{"hunter2", "secret 1 is not written as whsec_ and base64", 0},
		{"whsec_hunter2!", "secret 1 is not written as whsec_ and base64", 0},
		{strings.Repeat(whsec(32)+" ", 5), "more than 4 secrets", 0},
	} {
		secrets, err := webhook.ParseSecrets(test.text)
		if len(secrets) != test.n || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: got %d secrets, %v; want %d, %q", test.text, len(secrets), err, test.n, test.err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func FuzzParseSecrets(f *testing.F) {
	f.Add(secret("a") + " " + secret("b"))
	f.Add("whsec_")
	f.Fuzz(func(t *testing.T, text string) {
		secrets, err := webhook.ParseSecrets(text)
		if (err == nil) != (len(secrets) > 0) || len(secrets) > webhook.MaxSecrets {
			t.Errorf("%d secrets, %v", len(secrets), err)
		}
		for _, s := range secrets {
			if len(s) < webhook.MinSecret || len(s) > webhook.MaxSecret {
				t.Errorf("a secret of %d bytes", len(s))
			}
		}
	})
}
