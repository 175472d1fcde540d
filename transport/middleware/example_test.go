package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/middleware"
)

func Example() {
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
		Name:   "items-per-user",
		Match:  rules.MatchSpec{Path: "/items/{user}"},
		Key:    []string{"user"},
		Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(10 * time.Second)}},
	}}})
	if set == nil {
		fmt.Println(problems)
		return
	}
	callers, problems := identity.New(identity.Spec{}, nil)
	if callers == nil {
		fmt.Println(problems)
		return
	}
	defer callers.Close()
	limits := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set, Identity: callers}, nil)

	items := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "an item")
	})
	handler := middleware.New(limits, nil)(items)

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/items/alex", nil))
		fmt.Printf("%d RateLimit: %s\n", w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 RateLimit: "items-per-user";r=0;t=10
	// 429 RateLimit: "items-per-user";r=0;t=10
}
