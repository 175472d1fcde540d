package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/rest"
)

// A job asks before it starts, and starts anyway if Stint does not answer.
func ExampleClient_Decide() {
	stint := httptest.NewServer(exampleAPI())
	defer stint.Close()

	c, err := client.New(stint.URL, &client.Options{
		Timeout: 2 * time.Second,
		OnError: func(err error) (allowed bool) {
			fmt.Println("undecided:", err)
			return true
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := rest.Ask{Descriptors: []rest.Descriptor{{Method: "POST", Path: "/reports", Attributes: map[string]string{"tenant": "acme"}}}}
	for range 2 {
		answer, err := c.Decide(context.Background(), ask)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Allowed, answer.RetryAfterMS > 0)
	}
	// Output:
	// true false
	// false true
}

// An HTTP client sends a partner at most two requests in 100 ms, however many
// goroutines use it.
func ExampleThrottle() {
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	defer partner.Close()

	limiter := limit.New(memory.New(nil), nil) // with a shared store, one limit for all processes
	defer limiter.Close()
	agreed := &limit.Policy{Name: "partner", Quota: 2, Window: 100 * time.Millisecond}
	calls := &http.Client{Transport: client.NewThrottle(&client.ThrottleOptions{
		Take:    client.FromLimiter(limiter, agreed),
		MaxWait: 10 * time.Second,
		Resend:  2, // what the partner refuses all the same
	})}

	began := time.Now()
	for range 6 {
		resp, err := calls.Get(partner.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	fmt.Println(time.Since(began) >= 200*time.Millisecond)
	// Output: true
}

// exampleAPI is Stint's API with one report an hour for each tenant.
func exampleAPI() http.Handler {
	set, _ := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name: "reports", Key: []string{"tenant"}, Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Hour)}},
	}}})
	return rest.New(gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set}, nil), nil)
}
