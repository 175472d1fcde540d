package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/rules"
)

// Of every part of a match, what is told if a request does not meet it.
func TestExplainTellsWhatIsUnmet(t *testing.T) {
	r := &request{
		method: "GET", host: "API.example.com:8000", path: "/Repo/v1/entity//syn12;x=1/",
		headers:    map[string]string{"X-Api-Version": "1"},
		attributes: attributes{"user": "ann"},
	}
	for name, c := range map[string]struct {
		match rules.MatchSpec
		want  rules.Unmet
	}{
		"all":              {rules.MatchSpec{}, rules.Unmet{}},
		"everything":       {rules.MatchSpec{Methods: []string{"get"}, Host: "*.example.com", Path: "/entity/#", Attributes: map[string]rules.Pattern{"user": "a*"}}, rules.Unmet{}},
		"method":           {rules.MatchSpec{Methods: []string{"put", "DELETE"}}, rules.Unmet{Part: rules.PartMethod, Got: "GET", Want: "DELETE,PUT"}},
		"host":             {rules.MatchSpec{Host: "example.com"}, rules.Unmet{Part: rules.PartHost, Got: "api.example.com", Want: "example.com"}},
		"host below":       {rules.MatchSpec{Host: "*.example.org"}, rules.Unmet{Part: rules.PartHost, Got: "api.example.com", Want: "*.example.org"}},
		"path":             {rules.MatchSpec{Path: "/entity/{id}"}, rules.Unmet{Part: rules.PartPath, Got: "/Repo/v1/entity/syn12", Want: "/entity/{id}"}},
		"API of a path":    {rules.MatchSpec{Path: "/Entity/#/bundle"}, rules.Unmet{Part: rules.PartPath, Got: "/entity/#", Want: "/Entity/#/bundle"}},
		"header":           {rules.MatchSpec{Headers: map[string]rules.Pattern{"x-api-version": "2"}}, rules.Unmet{Part: rules.PartHeader, Name: "X-Api-Version", Got: "1", Want: "2"}},
		"absent header":    {rules.MatchSpec{Headers: map[string]rules.Pattern{"x-other": "*"}}, rules.Unmet{Part: rules.PartHeader, Name: "X-Other", Want: "*"}},
		"header to be not": {rules.MatchSpec{Headers: map[string]rules.Pattern{"x-api-version": ""}}, rules.Unmet{Part: rules.PartHeader, Name: "X-Api-Version", Got: "1"}},
		"attribute":        {rules.MatchSpec{Attributes: map[string]rules.Pattern{"user": "bo*"}}, rules.Unmet{Part: rules.PartAttribute, Name: "user", Got: "ann", Want: "bo*"}},
		"API":              {rules.MatchSpec{Attributes: map[string]rules.Pattern{"api": "/entity/#/bundle"}}, rules.Unmet{Part: rules.PartAttribute, Name: "api", Got: "/entity/#", Want: "/entity/#/bundle"}},
		"the first":        {rules.MatchSpec{Methods: []string{"PUT"}, Attributes: map[string]rules.Pattern{"user": "bob"}}, rules.Unmet{Part: rules.PartMethod, Got: "GET", Want: "PUT"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := compile(t, rules.Spec{
				Paths: rules.PathSpec{After: "v1", IDs: []string{"syn*"}},
				Rules: []rules.RuleSpec{{Name: "rule", Match: c.match, Limits: tenPerMinute}},
			})
			e := set.Explain(r, time.Now)
			if diff := cmp.Diff(c.want, e.Rules[0].Unmet); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if e.Path != "/Repo/v1/entity/syn12" || e.API != "/entity/#" {
				t.Errorf("path %q, API %q", e.Path, e.API)
			}
		})
	}
}

// Why no override applies, or a later one.
func TestExplainTellsOfOverrides(t *testing.T) {
	past, to := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)
	set, _ := rules.Compile(rules.Spec{
		Plans: map[string]rules.Plan{"gold": {Members: map[string][]string{"user": {"ann"}}}},
		Rules: []rules.RuleSpec{{Name: "rule", Key: []string{"user"}, Limits: tenPerMinute, Overrides: []rules.OverrideSpec{
			{When: map[string]rules.Pattern{"user": "backup"}, Exempt: true},
			{When: map[string]rules.Pattern{"user": "ann"}, Exempt: true, Until: &past},
			{Plan: "gold", Limits: tenPerMinute, Until: &to},
		}}},
	})
	backup := rules.Unmet{Part: rules.PartAttribute, Name: "user", Want: "backup"}
	for user, want := range map[string]struct {
		override int
		plan     string
		why      []rules.Unmet
	}{
		"backup": {0, "", nil},
		"ann": {2, "gold", []rules.Unmet{
			{Part: rules.PartAttribute, Name: "user", Got: "ann", Want: "backup"},
			{Part: rules.PartUntil, Want: "2020-01-02T03:04:05Z"},
		}},
		"": {-1, "", []rules.Unmet{backup, {Part: rules.PartAttribute, Name: "user", Want: "ann"}, {Part: rules.PartAttribute, Name: "plan", Want: "gold"}}},
	} {
		e := set.Explain(&request{attributes: attributes{"user": user}}, time.Now)
		if got := e.Rules[0]; got.Match.Override != want.override || got.Match.Exempt != (want.override == 0) || e.Plan != want.plan || !cmp.Equal(got.Overrides, want.why) {
			t.Errorf("%q: override %d, exempt %v, plan %q, because %v", user, got.Match.Override, got.Match.Exempt, e.Plan, got.Overrides)
		}
	}
}

// What is explained is what happens, also where an index finds the rules: the same
// rules match, with the same keys and overrides, and a rule that does not has a reason.
func TestExplainIsMatch(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})
	pattern := rapid.Custom(func(t *rapid.T) rules.Pattern {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return "*"
		case 1:
			return ""
		case 2:
			return rules.Pattern(word.Draw(t, "prefix") + "*")
		}
		return rules.Pattern(word.Draw(t, "value"))
	})
	path := rapid.SampledFrom([]string{"", "", "/x/{a}", "/x/{t}/y", "/x/#", "/{rest...}", "/x/7"})
	rapid.Check(t, func(t *rapid.T) {
		var spec rules.Spec
		n := rapid.IntRange(1, 40).Draw(t, "rules")
		for i := range n {
			r := rules.RuleSpec{Name: fmt.Sprintf("r%d", i), Cost: int64(i + 1), Key: []string{"user|t"}, Limits: []rules.LimitSpec{{Quota: 1000, Window: 1000000}}}
			r.Match.Path = path.Draw(t, "path")
			if rapid.Bool().Draw(t, "by tenant") {
				r.Match.Attributes = map[string]rules.Pattern{"t": pattern.Draw(t, "t")}
			}
			if rapid.IntRange(0, 3).Draw(t, "by method") == 0 {
				r.Match.Methods = []string{rapid.SampledFrom([]string{"GET", "PUT"}).Draw(t, "method")}
			}
			for range rapid.IntRange(0, 12).Draw(t, "overrides") {
				r.Overrides = append(r.Overrides, rules.OverrideSpec{When: map[string]rules.Pattern{"user": rules.Pattern(word.Draw(t, "of"))}, Exempt: true})
			}
			if set, _ := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{r}}); set != nil { // the same override twice is refused
				spec.Rules = append(spec.Rules, r)
			}
		}
		set, problems := rules.Compile(spec)
		if set == nil {
			t.Fatal(problems)
		}
		r := &request{
			method: "GET", path: rapid.SampledFrom([]string{"/", "/x/7", "/x/b", "/x/c/y"}).Draw(t, "request"),
			attributes: attributes{"t": word.Draw(t, "tenant"), "user": word.Draw(t, "user")},
		}
		want := set.Match(nil, r, time.Now)
		got := []rules.Match{}
		e := set.Explain(r, time.Now)
		for i, x := range e.Rules {
			switch {
			case x.Rule != set.Rules()[i]:
				t.Fatalf("rule %d is %s", i, x.Rule.Name)
			case x.Unmet.Part == rules.PartNone:
				got = append(got, x.Match)
				if n := x.Match.Override; n >= 0 && len(x.Overrides) != n || n < 0 && len(x.Overrides) != len(x.Rule.Spec.Overrides) {
					t.Errorf("override %d applies, and %d do not", n, len(x.Overrides))
				}
			case x.Unmet.Part != rules.PartPath && x.Unmet.Got == x.Unmet.Want:
				t.Errorf("%s: %+v is no reason", x.Rule.Name, x.Unmet)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d rules are said to match, %d do", len(got), len(want))
		}
		for i := range got {
			if got[i].Rule != want[i].Rule || got[i].Key != want[i].Key || got[i].Override != want[i].Override || got[i].Exempt != want[i].Exempt {
				t.Errorf("%s is said to match with %+v, and does with %+v", got[i].Rule.Name, got[i], want[i])
			}
		}
	})
}

// What is explained about seats is what is claimed.
func TestExplainSeats(t *testing.T) {
	off, cost := false, 2
	set := compile(t, rules.Spec{Isolation: &rules.IsolationSpec{
		Seats: 8, Tenant: "user|ip",
		Plans: map[string]rules.SeatPlanSpec{"gold": {}},
		Routes: []rules.RouteSpec{
			{Match: rules.MatchSpec{Path: "/{all...}"}, Cost: &cost},
			{Match: rules.MatchSpec{Path: "/health"}, Enabled: &off},
		},
	}, Plans: map[string]rules.Plan{"gold": {Members: map[string][]string{"user": {"ann"}}}}})
	for path, want := range map[string]int{"/health": 1, "/x": 0} {
		r := &request{path: path, attributes: attributes{"user": "ann"}}
		claim, seated := set.Isolation().Claim(r)
		e := set.Explain(r, time.Now)
		if e.Seated != seated || e.Claim != claim || e.Route != want {
			t.Errorf("%s: %v %+v by route %d, want %v %+v by route %d", path, e.Seated, e.Claim, e.Route, seated, claim, want)
		}
	}
	if none := compile(t, rules.Spec{}).Explain(&request{}, time.Now); none.Seated || none.Route != -1 {
		t.Errorf("without isolation: %+v", none)
	}
}

// Rules know which API they are for.
func TestRuleAPI(t *testing.T) {
	for _, c := range []struct {
		match rules.MatchSpec
		want  string
	}{
		{rules.MatchSpec{}, ""},
		{rules.MatchSpec{Path: "/items/{user}"}, ""},
		{rules.MatchSpec{Path: "/Entity/#/{what}/{rest...}"}, "/entity/#/{what}/{rest...}"},
		{rules.MatchSpec{Attributes: map[string]rules.Pattern{"api": "/Entity/#"}}, "/entity/#"},
		{rules.MatchSpec{Attributes: map[string]rules.Pattern{"api": "/entity/*"}}, "/entity/*"},
		{rules.MatchSpec{Attributes: map[string]rules.Pattern{"api": "*"}}, ""},
	} {
		if got := compileMatch(t, c.match).Rules()[0].API; got != c.want {
			t.Errorf("%+v: %q, want %q", c.match, got, c.want)
		}
	}
}
