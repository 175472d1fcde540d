package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/rules"
)

// many returns n rules, one of which is for the request.
func many(t testing.TB, n int, by string) (*rules.Set, *request) {
	t.Helper()
	var spec rules.Spec
	for i := range n {
		r := rules.RuleSpec{Name: fmt.Sprintf("rule-%d", i), Key: []string{"user"}, Limits: tenPerMinute}
		value := fmt.Sprintf("v%d", i)
		switch by {
		case "path":
			r.Match.Path = "/api/" + value + "/items/{item}"
		case "attribute":
			r.Match.Attributes = map[string]rules.Pattern{"tenant": rules.Pattern(value), "env": "prod"}
		case "api":
			r.Match.Attributes = map[string]rules.Pattern{"api": rules.Pattern("/api/" + value + "/items/#")}
		case "host":
			r.Match.Host = value + ".example.com"
		}
		spec.Rules = append(spec.Rules, r)
	}
	last := fmt.Sprintf("v%d", n-1)
	return compile(t, spec), &request{
		method:     "GET",
		host:       last + ".example.com",
		path:       "/api/" + last + "/items/1",
		attributes: attributes{"user": "alex", "tenant": last, "env": "prod"},
	}
}

// All that a match allocates is its key.
func TestMatchAllocatesOnlyTheKey(t *testing.T) {
	end := time.Date(2100, 1, 31, 0, 0, 0, 0, time.UTC)
	everything := rules.Spec{
		Plans: map[string]rules.Plan{"pro": {Members: map[string][]string{"tenant": {"acme"}}}},
		Rules: []rules.RuleSpec{
			{
				Name: "item", Key: []string{"user|ip", "method", "host", "path", "plan"}, Limits: tenPerMinute,
				Match: rules.MatchSpec{
					Methods: []string{"GET"}, Host: "*.example.com", Path: "/items/{user}/{rest...}",
					Headers: map[string]rules.Pattern{"Accept": "*"}, Attributes: map[string]rules.Pattern{"plan": "pro", "user": "al*"},
				},
				Overrides: []rules.OverrideSpec{{Plan: "pro", Limits: tenPerMinute, Until: &end}},
			},
			{Name: "login", Match: rules.MatchSpec{Path: "/login"}, Limits: tenPerMinute},
			{Name: "all", Limits: tenPerMinute},
			{Name: "tenant", Key: []string{"tenant"}, Limits: tenPerMinute},
			{Name: "exempt", Key: []string{"user"}, Limits: tenPerMinute, Overrides: []rules.OverrideSpec{{Plan: "pro", Exempt: true}}},
		},
	}
	mixed := compile(t, everything)
	manyPaths, toPath := many(t, 1000, "path")
	manyAPIs, toAPI := many(t, 1000, "api")
	manyTenants, ofTenant := many(t, 1000, "attribute")
	for _, c := range []struct {
		name            string
		set             *rules.Set
		request         *request
		matches, allocs int
	}{
		{"everything", mixed, &request{
			method: "GET", host: "api.example.com:8000", path: "/items/alex/edit",
			headers: map[string]string{"Accept": "text/html"}, attributes: attributes{"tenant": "acme"},
		}, 4, 2},
		{"nothing to count by", mixed, &request{path: "/login", attributes: attributes{"tenant": "acme"}}, 4, 1},
		{"a long tenant", mixed, &request{attributes: attributes{"tenant": strings.Repeat("x", 500)}}, 3, 2},
		{"1000 paths", manyPaths, toPath, 1, 1},
		{"1000 APIs", manyAPIs, toAPI, 1, 2}, // the second is the API
		{"1000 attributes", manyTenants, ofTenant, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			matches := make([]rules.Match, 0, 8)
			allocs := testing.AllocsPerRun(100, func() {
				matches = c.set.Match(matches[:0], c.request, time.Now)
			})
			if len(matches) != c.matches || int(allocs) != c.allocs {
				t.Errorf("%d matches with %v allocations, want %d with %d", len(matches), allocs, c.matches, c.allocs)
			}
		})
	}
	t.Run("clean path", func(t *testing.T) {
		if allocs := testing.AllocsPerRun(100, func() { rules.NormalizePath("/items/.alex/v1.2") }); allocs != 0 {
			t.Errorf("%v allocations, want 0", allocs)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for _, by := range []string{"path", "api", "attribute", "host"} {
		for _, n := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("by=%s/rules=%d", by, n), func(b *testing.B) {
				set, r := many(b, n, by)
				var matches []rules.Match
				b.ReportAllocs()
				for b.Loop() {
					matches = set.Match(matches[:0], r, time.Now)
				}
				if len(matches) != 1 {
					b.Fatalf("%d matches, want 1", len(matches))
				}
			})
		}
	}
}

func BenchmarkNormalizePath(b *testing.B) {
	for name, path := range map[string]string{"clean": "/api/v1/items/alex", "unclean": "/api//v1/%2e%2e/items/alex;x=1/"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.NormalizePath(path)
			}
		})
	}
}

func BenchmarkAPI(b *testing.B) {
	names := pathNames(b, repository)
	for name, path := range map[string]string{"clean": "/v1/entity/table/query", "ids": "/repo/v1/entity/syn1571204/version/12/filepreview"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				names.API(path)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	var spec rules.Spec
	for i := range 10_000 {
		spec.Rules = append(spec.Rules, rules.RuleSpec{
			Name: fmt.Sprintf("rule-%d", i), Match: rules.MatchSpec{Path: fmt.Sprintf("/items/%d", i)}, Limits: tenPerMinute,
		})
	}
	for b.Loop() {
		if set, problems := rules.Compile(spec); set == nil {
			b.Fatal(problems)
		}
	}
}
