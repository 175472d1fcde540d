package rules_test

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/rules"
)

func Example() {
	set, problems := rules.Compile(rules.Spec{
		Plans: map[string]rules.Plan{
			"pro": {Members: map[string][]string{"user": {"alex"}}},
		},
		Rules: []rules.RuleSpec{{
			Name:   "items",
			Match:  rules.MatchSpec{Methods: []string{"GET"}, Path: "/items/{user}"},
			Key:    []string{"user"},
			Limits: []rules.LimitSpec{{Quota: 10, Window: rules.Duration(time.Minute)}},
			Overrides: []rules.OverrideSpec{{
				Plan:   "pro",
				Limits: []rules.LimitSpec{{Quota: 100, Window: rules.Duration(time.Minute)}},
			}},
		}},
	})
	for _, p := range problems {
		fmt.Println(p)
	}
	for _, path := range []string{"/items/sam", "/items/%2e%2e/items//alex;x=1/", "/other"} {
		fmt.Println(path)
		for _, m := range set.Match(nil, &request{method: "GET", path: path}, time.Now) {
			fmt.Println(" ", m.Rule.Name, rules.DescribeKey(m.Key), m.Policies[0].Quota)
		}
	}
	// Output:
	// /items/sam
	//   items user=sam 10
	// /items/%2e%2e/items//alex;x=1/
	//   items user=alex 100
	// /other
}
