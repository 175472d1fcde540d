package limit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/memory"
)

// One limit for each user.
func Example() {
	limiter := limit.New(memory.New(nil), nil)
	perUser := &limit.Policy{Name: "items", Quota: 2, Window: time.Minute}

	for range 3 {
		d, err := limiter.Take(context.Background(), perUser, "alex", 1)
		if err != nil {
			panic(err) // the store could not answer
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Second))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 30s
}

// Two limits on one request: what one denies spends nothing of the other.
func ExampleLimiter_TakeAll() {
	limiter := limit.New(memory.New(nil), nil)
	second := &limit.Policy{Name: "second", Quota: 1, Window: time.Second}
	day := &limit.Policy{Name: "day", Quota: 1000, Window: 24 * time.Hour}
	spends := []limit.Spend{
		{Policy: second, Key: "alex", Cost: 1},
		{Policy: day, Key: "alex", Cost: 1},
	}
	for range 2 {
		ds, err := limiter.TakeAll(context.Background(), spends)
		if err != nil {
			panic(err)
		}
		for _, d := range ds {
			fmt.Println(d.Policy, d.Allowed, d.Remaining)
		}
	}
	// Output:
	// second true 0
	// day true 999
	// second false 0
	// day true 999
}
