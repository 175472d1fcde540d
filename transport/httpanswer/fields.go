// Package httpanswer is what a caller over HTTP is told about limits: the rate
// limit fields of every answer, and Retry-After and the body of a refusal.
//
// Policies in shadow are never mentioned, and no key, attribute or internal
// error ever leaves the process this way.
package httpanswer

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint/gate"
)

const (
	// maxInteger is the largest Integer of a structured field: 15 digits.
	maxInteger = 999_999_999_999_999
	// maxItems is how many policies are listed before only the nearest to
	// exhaustion is, which keeps the fields well below what clients accept.
	maxItems = 16
)

// SetHeaders sets the rate limit fields of d in h, in place of any that are
// there. It sets none if no policy was asked that is enforced and whose state
// is known. Retry-After is SetRetryAfter's.
//
// Draft10 lists one item for each policy. Where several requests were decided
// together, or more than 16 policies, it lists only the policy nearest to
// exhaustion, as do the other dialects always. That is the one that denies
// longest; where none denies, the one with the fewest units remaining.
//
// t and Reset are whole seconds, rounded up: until a policy that denies would
// admit the same request, and until one that allows is as if never used. w is
// rounded up to whole seconds, too, so that whoever keeps to it keeps to the
// policy. Numbers of more than 15 digits are given as the largest of 15.
//
// Stint-Degraded is store if a policy was decided without the store that it is
// counted in, so that what the other fields say is this process's own view.
func SetHeaders(h http.Header, d Dialect, out *gate.Outcome) {
	if d >= None {
		return
	}
	if degraded(out.Decisions) {
		h["Stint-Degraded"] = []string{"store"}
	}
	nearest, list := survey(out.Decisions)
	switch {
	case nearest == nil:
	case d == Draft03:
		setThree(h, nearest, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset")
	case d == Legacy:
		setThree(h, nearest, "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset")
	case list:
		setTwo(h, out.Decisions, nil)
	default:
		setTwo(h, nil, nearest)
	}
}

// survey finds the decision nearest to exhaustion among those that are
// advertised, and reports whether they are few enough to be listed.
func survey(ds []gate.Decision) (nearest *gate.Decision, list bool) {
	items, request := 0, 0
	list = true
	for i := range ds {
		d := &ds[i]
		if !Advertised(d) {
			continue
		}
		if items > 0 && d.Request != request {
			list = false
		}
		request = d.Request
		items++
		if nearest == nil || Nearer(d, nearest) {
			nearest = d
		}
	}
	return nearest, list && items <= maxItems
}

// Advertised reports whether a caller is told about d: not about a policy in
// shadow, and not about one that was let pass without asking any store, which has
// nothing to tell.
func Advertised(d *gate.Decision) bool {
	unknown := d.Degraded && d.Allowed && d.ResetAfter == 0
	return !d.Rule.Shadow && !unknown
}

// degraded reports whether any of ds that is enforced was decided without its store.
func degraded(ds []gate.Decision) bool {
	for i := range ds {
		if ds[i].Degraded && !ds[i].Rule.Shadow {
			return true
		}
	}
	return false
}

// Nearer reports whether a is nearer to exhaustion than b: it denies longer, or
// it leaves less.
func Nearer(a, b *gate.Decision) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.ResetAfter > b.ResetAfter
}

// setTwo sets the fields of Draft10 for the advertised of ds and for only, if
// that is not nil.
//
// It is on the way of every request: both values are parts of one string, and
// both headers parts of one slice.
func setTwo(h http.Header, ds []gate.Decision, only *gate.Decision) {
	var space [512]byte
	b := space[:0]
	for i := range ds {
		if d := &ds[i]; Advertised(d) {
			b = appendPolicy(appendComma(b, 0), d)
		}
	}
	if only != nil {
		b = appendPolicy(b, only)
	}
	cut := len(b)
	for i := range ds {
		if d := &ds[i]; Advertised(d) {
			b = appendLimit(appendComma(b, cut), d)
		}
	}
	if only != nil {
		b = appendLimit(b, only)
	}
	all := string(b)
	values := []string{all[:cut], all[cut:]}
	h["Ratelimit-Policy"] = values[0:1:1]
	h["Ratelimit"] = values[1:2:2]
}

// setThree sets the fields of the older dialects, by their canonical names.
func setThree(h http.Header, d *gate.Decision, limit, remaining, reset string) {
	var space [64]byte
	b := appendInteger(space[:0], d.Limit)
	first := len(b)
	b = appendInteger(b, d.Remaining)
	second := len(b)
	b = appendInteger(b, Wait(d))
	all := string(b)
	values := []string{all[:first], all[first:second], all[second:]}
	h[limit] = values[0:1:1]
	h[remaining] = values[1:2:2]
	h[reset] = values[2:3:3]
}

// appendComma appends what stands between the items of a list that begins at start.
func appendComma(b []byte, start int) []byte {
	if len(b) > start {
		b = append(b, ',')
	}
	return b
}

func appendPolicy(b []byte, d *gate.Decision) []byte {
	b = append(appendString(b, d.Policy), ";q="...)
	b = append(appendInteger(b, d.Limit), ";w="...)
	return appendInteger(b, max(1, seconds(d.Window)))
}

func appendLimit(b []byte, d *gate.Decision) []byte {
	b = append(appendString(b, d.Policy), ";r="...)
	b = append(appendInteger(b, d.Remaining), ";t="...)
	return appendInteger(b, Wait(d))
}

// appendString appends s as a String of RFC 9651, section 3.3.3. That has no
// way to write anything but printable ASCII, so other bytes are
// percent-encoded.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, max(0, min(n, maxInteger)), 10)
}

// Wait is the whole seconds, rounded up, until d's policy has more to give: until
// one that denies would admit the same request, and until one that allows is as if
// never used.
func Wait(d *gate.Decision) int64 {
	if d.Allowed {
		return seconds(d.ResetAfter)
	}
	return seconds(d.RetryAfter)
}

// seconds rounds up: who is told a second less than the truth comes too early.
func seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
}
