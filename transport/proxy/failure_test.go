package proxy_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/transport/proxy"
)

func TestUpstreamFailures(t *testing.T) {
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	slow := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(patience):
		}
	})
	broken := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		panic(http.ErrAbortHandler)
	})
	const badGateway = `{"title":"Bad Gateway","status":502,"detail":"The service behind this proxy cannot be reached.","instance":"/items"}`
	tests := []struct {
		name, upstream string
		timeout        time.Duration
		status         int
		body           string
	}{
		{"nobody listens", "http://" + refused.Addr().String(), 0, 502, badGateway},
		{"it breaks off", broken.URL, 0, 502, badGateway},
		{"it takes too long", slow.URL, 50 * time.Millisecond, 504,
			`{"title":"Gateway Timeout","status":504,"detail":"The service behind this proxy did not answer in time.","instance":"/items"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := listen(t, test.upstream, proxy.Options{Timeout: test.timeout})
			answer, body := get(t, f.URL+"/items?token=secret")
			if answer.StatusCode != test.status || strings.TrimSpace(body) != test.body {
				t.Errorf("answer is %d %s", answer.StatusCode, body)
			}
			if got := answer.Header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type is %s", got)
			}
			if log := f.log.String(); !strings.Contains(log, "upstream failed") || strings.Contains(log, "secret") {
				t.Errorf("log is %s", log)
			}
		})
	}
}

func TestCallerGone(t *testing.T) {
	arrived, cancelled := make(chan struct{}), make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(cancelled)
	})
	f := listen(t, up.URL, proxy.Options{})
	ctx, leave := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	left := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(r)
		left <- err
	}()
	await(t, arrived, "the request at the upstream")
	leave()
	if err := await(t, left, "leaving"); !errors.Is(err, context.Canceled) {
		t.Fatalf("the caller got %v", err)
	}
	await(t, cancelled, "the end of the upstream's request")
	f.Close() // waits for the proxy's handler
	if log := f.log.String(); log != "" {
		t.Errorf("log of a caller who went away: %s", log)
	}
}
