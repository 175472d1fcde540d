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

func decision(p *Policy, v algo.Verdict) Decision {
	return Decision{
		Policy:     p.Name,
		Allowed:    v.OK,
		Limit:      p.Quota,
		Remaining:  v.Remaining,
		RetryAfter: duration(v.RetryAfter),
		ResetAfter: duration(v.ResetAfter),
	}
}
