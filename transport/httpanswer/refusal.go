package httpanswer

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/rules"
)

// Types of the problems that draft-ietf-httpapi-ratelimit-headers-10
// registers, and their titles.
const (
	TypeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

	titleQuotaExceeded   = "Request cannot be satisfied as assigned quota has been exceeded"
	titleReducedCapacity = "Request cannot be satisfied due to temporary server capacity constraints"
)

// Write refuses r as out says, in full: status, rate limit fields of d,
// Retry-After and a Problem. out must not be Allowed.
//
// A refusal with status 429 is of TypeQuotaExceeded. Status 503 is of
// TypeReducedCapacity, whether a rule denies with it or nothing could be decided.
func Write(w http.ResponseWriter, r *http.Request, d Dialect, out *gate.Outcome) {
	SetHeaders(w.Header(), d, out)
	SetRetryAfter(w.Header(), out)
	Refusal(out).Write(w, r)
}

// SetRetryAfter sets Retry-After to the whole seconds, rounded up and at least
// 1, after which the refused request may succeed. It never points earlier
// than the t of a policy that denies.
func SetRetryAfter(h http.Header, out *gate.Outcome) {
	h["Retry-After"] = []string{strconv.FormatInt(retryAfter(out), 10)}
}

// Refusal returns the Problem that tells why out is not Allowed.
func Refusal(out *gate.Outcome) Problem {
	p := Problem{Type: TypeReducedCapacity, Title: titleReducedCapacity, Status: http.StatusServiceUnavailable}
	if out.Status == http.StatusTooManyRequests {
		p = Problem{Type: TypeQuotaExceeded, Title: titleQuotaExceeded, Status: out.Status}
	}
	again := rules.Duration(time.Duration(retryAfter(out)) * time.Second)
	if out.Refused != nil {
		p.Type, p.Title, p.Status = TypeReducedCapacity, titleReducedCapacity, out.Status
		p.Detail = noSeat(out, again)
		return p
	}
	var longest *gate.Decision
	for i := range out.Decisions {
		d := &out.Decisions[i]
		if !denies(d) {
			continue
		}
		if !slices.Contains(p.ViolatedPolicies, d.Policy) {
			p.ViolatedPolicies = append(p.ViolatedPolicies, d.Policy)
		}
		if longest == nil || Nearer(d, longest) {
			longest = d
		}
	}
	if out.Err != nil || longest == nil {
		p.ViolatedPolicies = nil
		p.Detail = fmt.Sprintf("The limits of this request could not be checked. Try again in %v.", again)
		return p
	}
	of := ""
	if longest.Rule.API != "" {
		of = " of " + longest.Rule.API
	}
	p.Detail = fmt.Sprintf("Policy %q allows %d%s in %v, and this request would exceed that. Try again in %v.",
		longest.Policy, longest.Limit, of, rules.Duration(longest.Window), again)
	return p
}

// noSeat says why a request gets no seat. It tells a caller nothing of other tenants.
func noSeat(out *gate.Outcome, again rules.Duration) string {
	switch out.Refused.Reason {
	case isolate.TooWide:
		return fmt.Sprintf("This request takes more at once than the %d that its caller may have. It would be refused at any time.", out.AtOnce)
	case isolate.Closed:
		return fmt.Sprintf("The server shuts down. Try again in %v.", again)
	case isolate.QueueFull, isolate.Displaced:
		return fmt.Sprintf("Too many requests of this caller are running and waiting: %d at once are allowed, and %d more may wait. Try again in %v.", out.AtOnce, out.Queue, again)
	case isolate.RoomFull:
		return fmt.Sprintf("Too many requests are waiting. Try again in %v.", again)
	}
	return fmt.Sprintf("This request has waited for as long as it may. Try again in %v.", again)
}

// denies reports whether d is a reason for the refusal.
func denies(d *gate.Decision) bool { return !d.Allowed && !d.Rule.Shadow }

// retryAfter returns the whole seconds that a refused caller is told to wait.
func retryAfter(out *gate.Outcome) int64 {
	wait := max(out.RetryAfter, time.Second)
	for i := range out.Decisions {
		if d := &out.Decisions[i]; denies(d) {
			wait = max(wait, d.RetryAfter)
		}
	}
	return seconds(min(wait, math.MaxInt64-time.Second)) // leaves room to round up
}
