package algo_test

import (
	"fmt"

	"github.com/stint-dev/stint/limit/algo"
)

// Three units a minute: what is kept for one key, and what it is told.
func ExampleFunc() {
	limit := algo.Limit{Quota: 3, Window: algo.Minute, Burst: 3}
	var kept algo.State
	for _, now := range []algo.Ticks{0, 0, 0, 0, 20 * algo.Second} {
		var v algo.Verdict
		kept, v = algo.GCRA.Decide(limit, kept, now, 1)
		fmt.Printf("at %v: ok=%t remaining=%d retry=%v reset=%v\n", now, v.OK, v.Remaining, v.RetryAfter, v.ResetAfter)
	}
	// Output:
	// at 0s: ok=true remaining=2 retry=0s reset=20s
	// at 0s: ok=true remaining=1 retry=0s reset=40s
	// at 0s: ok=true remaining=0 retry=0s reset=1m
	// at 0s: ok=false remaining=0 retry=20s reset=1m
	// at 20s: ok=true remaining=0 retry=0s reset=1m
}
