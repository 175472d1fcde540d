package gate

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// Outcome is the answer to one Ask. The zero Outcome is ready to be filled in,
// and one that is used again allocates less.
type Outcome struct {
	// Allowed reports whether the request may go on.
	Allowed bool
	// Status is the HTTP status of a refusal: 429 or 503. 0 if Allowed.
	Status int
	// RetryAfter is how long the caller should wait before it tries again.
	RetryAfter time.Duration
	// Decisions are those of every policy that was asked: first of the rules
	// that are enforced, then of those in shadow, in the order of the requests
	// and of the rules. They are valid until the Outcome is used again.
	Decisions []Decision
	// Err is why nothing could be decided. It is never a denial.
	Err error
	// Waited is how long the request stood in the line of a rule.
	Waited time.Duration
	// Refused is why there is no seat for the request, if that is so.
	Refused *isolate.Rejection
	// AtOnce is how many seats the caller could have had, and Queue how many of its
	// requests could have waited, if it was Refused.
	AtOnce, Queue int
	// SeatWaited is how long it waited for one.
	SeatWaited time.Duration

	matches []rules.Match
	ends    []int // where the matches of each request end
	spends  []limit.Spend
	apart   bool // some of spends are not to be charged
}

// Exempt reports whether there are rules for one of Ask.Requests, and its caller
// is exempt from all of them. It is valid until the Outcome is used again.
func (o *Outcome) Exempt(request int) bool {
	begin := 0
	if request > 0 {
		begin = o.ends[request-1]
	}
	matches := o.matches[begin:o.ends[request]]
	return len(matches) > 0 && !slices.ContainsFunc(matches, func(m rules.Match) bool { return !m.Exempt })
}

// Decision is what one policy of one rule said.
type Decision struct {
	limit.Decision
	// Rule is the rule that the policy belongs to. If Rule.Shadow is set, a
	// Decision that is not Allowed denies nothing.
	Rule *rules.Rule
	// Window is the policy's window.
	Window time.Duration
	// Key is what was charged: rules.DescribeKey prints it.
	Key string
	// Request is the index in Ask.Requests of the request that was charged.
	Request int
}
