package loadtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// sender sends the load to one instance.
type sender struct {
	load   *Load
	target string
	client *http.Client
	meter  *meter
	began  time.Time // what the time of sending is counted from
}

func newSender(l *Load, target string, m *meter, began time.Time) *sender {
	return &sender{load: l, target: target, meter: m, began: began, client: &http.Client{
		Timeout:       time.Duration(l.Timeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxConnsPerHost:     int(l.Connections),
			MaxIdleConnsPerHost: int(l.Connections),
			DisableCompression:  true,
		},
	}}
}

// run sends arrivals, which begin at start.
func (s *sender) run(ctx context.Context, start time.Time, arrivals []arrival) {
	defer s.client.CloseIdleConnections()
	due := make([]time.Duration, len(arrivals))
	for i, a := range arrivals {
		due[i] = a.At
	}
	OpenLoop(ctx, start, due, int(s.load.Connections), func(n int, at time.Time) {
		one := sample{due: due[n], late: time.Since(at), key: arrivals[n].Key}
		one.status, one.err = s.send(ctx, one.key)
		one.took = time.Since(at)
		if ctx.Err() == nil {
			s.meter.add(one)
		}
	})
}

// mostAnswer is the most bytes of an answer that are read.
const mostAnswer = 1 << 20

// send sends one request and returns the status of its answer. What it cannot
// get, it explains without the address, so that alike failures look alike.
func (s *sender) send(ctx context.Context, key string) (status int, err error) {
	fill := strings.NewReplacer("${key}", key)
	r, err := http.NewRequestWithContext(ctx, s.load.Method, s.target+fill.Replace(s.load.Path), strings.NewReader(fill.Replace(s.load.Body)))
	if err != nil {
		return 0, err
	}
	for name, value := range s.load.Headers {
		r.Header.Set(name, fill.Replace(value))
	}
	r.Header.Set(sentHeader, time.Since(s.began).String())
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, plain(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)); err != nil {
		return 0, plain(err)
	}
	return answer.StatusCode, nil
}

// plain returns what is behind an error of the HTTP client.
func plain(err error) error {
	if e, ok := err.(*url.Error); ok {
		err = e.Err
	}
	if e, ok := err.(*net.OpError); ok {
		return e.Err
	}
	return err
}
