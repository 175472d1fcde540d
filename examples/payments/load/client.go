package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// client calls Stint's API. It is safe for simultaneous use.
type client struct {
	base string
	http *http.Client
}

func newClient(base string, callers int) *client {
	return &client{
		base: strings.TrimSuffix(base, "/"),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}, Timeout: 30 * time.Second},
	}
}

type limitRequest struct {
	ConfigName   string `json:"configName"`
	MaxPerWindow int    `json:"maxPerWindow"`
	WindowSize   string `json:"windowSize"`
}

type eventRequest struct {
	EventID       string    `json:"eventId"`
	ConfigName    string    `json:"configName,omitempty"`
	RequestedTime time.Time `json:"requestedTime,omitzero"`
}

type batchRequest struct {
	ConfigName    string         `json:"configName"`
	RequestedTime time.Time      `json:"requestedTime"`
	Events        []eventRequest `json:"events"`
}

// result is what became of one payment.
type result struct {
	Status        int       `json:"status"` // of a batch's
	ScheduledTime time.Time `json:"scheduledTime"`
	Repeated      bool      `json:"repeated"`
	Conflict      bool      `json:"conflict"`
	Reason        string    `json:"reason"`
}

type batchAnswer struct {
	Results []result `json:"results"`
}

// step is a part of the timeline.
type step struct {
	From     time.Time `json:"from"`
	Used     int64     `json:"used"`
	Capacity int64     `json:"capacity"`
}

var errNoLimit = errors.New("this limit is not set")

// limit returns the limit of that name.
func (c *client) limit(ctx context.Context, name string) (l limitRequest, err error) {
	status, err := c.do(ctx, http.MethodGet, "/admin/rate-limit/config?name="+url.QueryEscape(name), nil, &l)
	if err == nil && status == http.StatusNotFound {
		err = errNoLimit
	}
	return l, err
}

func (c *client) setLimit(ctx context.Context, l limitRequest) (limitRequest, error) {
	_, err := c.do(ctx, http.MethodPost, "/admin/rate-limit/config", l, &l)
	return l, err
}

// book books one payment.
func (c *client) book(ctx context.Context, e eventRequest) (result, error) {
	var r result
	status, err := c.do(ctx, http.MethodPost, "/api/v1/slots", e, &r)
	r.Status = status
	return r, err
}

// bookAll books many, and returns what became of each.
func (c *client) bookAll(ctx context.Context, b batchRequest) ([]result, error) {
	var answer batchAnswer
	status, err := c.do(ctx, http.MethodPost, "/api/v1/slots/batch", b, &answer)
	if err == nil && (status != http.StatusOK || len(answer.Results) != len(b.Events)) {
		err = fmt.Errorf("a batch of %d is answered with status %d and %d results", len(b.Events), status, len(answer.Results))
	}
	return answer.Results, err
}

// timeline returns how many payments are booked in each of n spans.
func (c *client) timeline(ctx context.Context, config string, from time.Time, size time.Duration, window string, n int) ([]step, error) {
	query := url.Values{
		"configName": {config}, "from": {from.Format(time.RFC3339Nano)},
		"to": {from.Add(time.Duration(n) * size).Format(time.RFC3339Nano)}, "step": {window},
	}
	var answer struct {
		Steps []step `json:"steps"`
	}
	_, err := c.do(ctx, http.MethodGet, "/api/v1/slots/timeline?"+query.Encode(), nil, &answer)
	return answer.Steps, err
}

// do sends a request until it is answered. What failed is sent again as it was: a
// payment that was booked, though the answer was lost, is not booked twice. An answer
// other than that one asked for something that is wrong, or not there, or full, is
// such a failure.
func (c *client) do(ctx context.Context, method, path string, body, answer any) (status int, err error) {
	var sent []byte
	if body != nil {
		if sent, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	const tries = 8
	for try, wait := 1, 50*time.Millisecond; ; try, wait = try+1, 2*wait {
		var again bool
		status, again, err = c.once(ctx, method, path, sent, answer)
		if !again || try == tries || ctx.Err() != nil {
			return status, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// once sends a request. again says that the same may be answered another time.
func (c *client) once(ctx context.Context, method, path string, body []byte, answer any) (status int, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, true, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, true, err
	}
	var problem struct {
		Reason string `json:"reason"`
		Error  string `json:"error"`
		Detail string `json:"detail"`
	}
	if resp.StatusCode >= 400 && json.Unmarshal(text, &problem) != nil {
		return 0, resp.StatusCode >= 500, fmt.Errorf("%s %s: status %d: %.200s", method, path, resp.StatusCode, text)
	}
	switch {
	case resp.StatusCode < 400, resp.StatusCode == http.StatusNotFound:
	case problem.Reason == "CAPACITY_EXHAUSTED" || problem.Reason == "HORIZON" || problem.Reason == "NEVER" || resp.StatusCode == http.StatusGone:
		// It has no slot, which is an answer.
	default:
		return resp.StatusCode, resp.StatusCode >= 500, fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, problem.Detail)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return 0, false, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return resp.StatusCode, false, nil
}
