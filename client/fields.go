package client

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pause returns how long a remote service asks to be left alone, by an answer
// of it: until Retry-After of a 429 or 503, or as long as any of its policies
// that the answer names has nothing left. Fields that are malformed say nothing.
func pause(resp *http.Response, now time.Time) time.Duration {
	if age := resp.Header.Get("Age"); age != "" && age != "0" {
		return 0 // a cache's answer, not the service's
	}
	longest := exhausted(resp.Header, now)
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return longest
	}
	if after, ok := retryAfter(resp.Header, now); ok {
		return after
	}
	if longest == 0 && resp.StatusCode == http.StatusTooManyRequests {
		return time.Second // it says only that it is too much
	}
	return longest
}

// retryAfter reads Retry-After: whole seconds, or a date.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, ok := integer(text); ok {
		return seconds(n), true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// exhausted reads the rate limit fields of all dialects and returns when the
// last of the policies without a unit has more.
func exhausted(h http.Header, now time.Time) (longest time.Duration) {
	for _, line := range h["Ratelimit"] {
		for _, item := range splitList(line) {
			if r, t, ok := readItem(item); ok && r == 0 {
				longest = max(longest, seconds(t))
			}
		}
	}
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		remaining, ok := integer(h.Get(prefix + "Remaining"))
		if !ok || remaining > 0 {
			continue
		}
		if reset, ok := integer(h.Get(prefix + "Reset")); ok {
			longest = max(longest, untilReset(reset, now))
		}
	}
	return longest
}

// untilReset reads what some services give as seconds from now and others as
// Unix time: no window is as long as the latter.
func untilReset(n int64, now time.Time) time.Duration {
	const longAgo = 900_000_000 // in 1998
	if n >= longAgo {
		return max(0, time.Unix(n, 0).Sub(now))
	}
	return seconds(n)
}

// splitList splits the items of a structured list, whose strings may have
// commas in them.
func splitList(s string) (items []string) {
	begin, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			items = append(items, s[begin:i])
			begin = i + 1
		}
	}
	return append(items, s[begin:])
}

// readItem reads an item of RateLimit, such as "burst";r=0;t=30. ok is false if
// it is malformed, or does not say both r and t.
func readItem(item string) (r, t int64, ok bool) {
	item = strings.TrimSpace(item)
	if !strings.HasPrefix(item, `"`) {
		return 0, 0, false
	}
	end := 1
	for end < len(item) && item[end] != '"' {
		if item[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(item) {
		return 0, 0, false
	}
	r, t = -1, -1
	parameters := item[end+1:]
	if parameters == "" || parameters[0] != ';' {
		return 0, 0, false
	}
	for parameter := range strings.SplitSeq(parameters[1:], ";") {
		name, text, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if name != "r" && name != "t" {
			continue
		}
		n, ok := integer(text)
		if !ok {
			return 0, 0, false
		}
		if name == "r" {
			r = n
		} else {
			t = n
		}
	}
	return r, t, r >= 0 && t >= 0
}

// integer reads up to 15 digits, as structured fields have them.
func integer(s string) (int64, bool) {
	if s == "" || len(s) > 15 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// maxSeconds is as far as a pause is read; a Throttle bounds it further.
const maxSeconds = 10 * 365 * 24 * 3600

func seconds(n int64) time.Duration { return time.Duration(min(n, maxSeconds)) * time.Second }
