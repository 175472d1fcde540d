package limit

import (
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// Decision is the answer to one spend.
type Decision struct {
	// Policy is the name of the policy that decided.
	Policy string
	// Allowed reports whether the cost may be spent.
	Allowed bool
	// Limit is the policy's quota.
	Limit int64
	// Remaining is how many units could still be spent at this instant.
	Remaining int64
	// RetryAfter is 0 if Allowed. Otherwise waiting that long succeeds,
	// provided nobody else spends the same key meanwhile.
	RetryAfter time.Duration
	// ResetAfter is how long it takes until the key is as if never seen.
	ResetAfter time.Duration
	// Degraded: decided without the store that the policy is counted in.
	Degraded bool
}

// set makes d what v says under p. It fills d in place: on the way of every
// decision, a copy of it would be felt.
func (d *Decision) set(p *Policy, v *algo.Verdict) {
	d.Policy = p.Name
	d.Allowed = v.OK
	d.Limit = p.Quota
	d.Remaining = v.Remaining
	d.RetryAfter = duration(v.RetryAfter)
	d.ResetAfter = duration(v.ResetAfter)
}
