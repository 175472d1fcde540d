package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/isolate/fair"
	"github.com/stint-dev/stint/rules"
)

func to[T any](v T) *T { return &v }

const second = rules.Duration(time.Second)

// shop has tenants of two plans.
func shop() *rules.IsolationSpec {
	return &rules.IsolationSpec{
		Seats:  32,
		Tenant: "tenant|ip",
		Plans: map[string]rules.SeatPlanSpec{
			"gold":    {Weight: to(4), Queue: to(0)},
			"default": {Preset: "single", MaxSeats: to(4), Timeout: to(30 * second)},
		},
		Routes: []rules.RouteSpec{
			{Match: rules.MatchSpec{Path: "/{rest...}", Methods: []string{"DELETE"}}, Priority: "low"},
			{Match: rules.MatchSpec{Path: "/reports/{id}"}, Cost: to(2), Timeout: to(5 * second)},
			{Match: rules.MatchSpec{Path: "/reports/all"}, Cost: to(4)},
			{Match: rules.MatchSpec{Path: "/reports/{id}/{part...}"}, Priority: "high"},
			{Match: rules.MatchSpec{Path: "/health"}, Enabled: to(false)},
		},
	}
}

func compileShop(t *testing.T, change func(s *rules.IsolationSpec)) (*rules.Set, []rules.Problem) {
	t.Helper()
	spec := shop()
	if change != nil {
		change(spec)
	}
	return rules.Compile(rules.Spec{Plans: map[string]rules.Plan{"gold": {Members: map[string][]string{"tenant": {"acme"}}}}, Isolation: spec})
}

func TestIsolation(t *testing.T) {
	set, problems := compileShop(t, nil)
	if set == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	i := set.Isolation()
	if i.Status != 503 {
		t.Errorf("refusals have status %d", i.Status)
	}
	want := fair.Config{
		Seats: 32, Default: "default", Guarantee: 0.9,
		Plans: map[string]fair.Plan{
			"gold":    {Weight: 4, QueueTimeout: 10 * time.Second},
			"default": {Weight: 1, MaxSeats: 4, Queue: 50, QueueTimeout: time.Minute, Timeout: 30 * time.Second},
		},
	}
	if diff := cmp.Diff(want, i.Config); diff != "" {
		t.Error(diff)
	}
	if err := i.Config.Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		what string
		r    *request
		want rules.Claim
		key  string
	}{
		{"of no plan", &request{path: "/", attributes: map[string]string{"tenant": "globex"}}, rules.Claim{Plan: "default", Cost: 1, Timeout: 30 * time.Second}, "tenant=globex"},
		{"of a plan", &request{path: "/", attributes: map[string]string{"tenant": "acme"}}, rules.Claim{Plan: "gold", Cost: 1}, "tenant=acme"},
		{"by its attribute", &request{path: "/", attributes: map[string]string{"tenant": "initech", "plan": "gold"}}, rules.Claim{Plan: "gold", Cost: 1}, "tenant=initech"},
		{"of a plan that has no seats", &request{path: "/", attributes: map[string]string{"tenant": "initech", "plan": "lead"}}, rules.Claim{Plan: "default", Cost: 1, Timeout: 30 * time.Second}, "tenant=initech"},
		{"the other attribute", &request{path: "/", attributes: map[string]string{"ip": "192.0.2.1"}}, rules.Claim{Plan: "default", Cost: 1, Timeout: 30 * time.Second}, "ip=192.0.2.1"},
		{"nobody", &request{path: "/"}, rules.Claim{Plan: "default", Cost: 1, Timeout: 30 * time.Second}, "tenant=-"},
		{"a route", &request{path: "//reports/./7"}, rules.Claim{Plan: "default", Cost: 2, Timeout: 5 * time.Second}, "tenant=-"},
		{"text before braces", &request{path: "/reports/all"}, rules.Claim{Plan: "default", Cost: 4, Timeout: 30 * time.Second}, "tenant=-"},
		{"a segment before the rest", &request{method: "DELETE", path: "/reports/7"}, rules.Claim{Plan: "default", Cost: 2, Timeout: 5 * time.Second}, "tenant=-"},
		{"the rest", &request{path: "/reports/7/pages/1"}, rules.Claim{Plan: "default", Cost: 1, Timeout: 30 * time.Second, Priority: fair.High}, "tenant=-"},
		{"a method", &request{method: "DELETE", path: "/items"}, rules.Claim{Plan: "default", Cost: 1, Timeout: 30 * time.Second, Priority: fair.Low}, "tenant=-"},
	} {
		got, ok := i.Claim(c.r)
		if key := rules.DescribeKey(got.Tenant); !ok || key != c.key {
			t.Errorf("%s: %v, the tenant is %s, want %s", c.what, ok, key, c.key)
		}
		got.Tenant = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	if _, ok := i.Claim(&request{path: "/health"}); ok {
		t.Error("a route that is not enabled needs a seat")
	}
	if set, _ := rules.Compile(rules.Spec{}); set.Isolation() != nil {
		t.Error("without a spec there are seats")
	}
}

func TestIsolationRefuses(t *testing.T) {
	route := func(r rules.RouteSpec) func(*rules.IsolationSpec) {
		return func(s *rules.IsolationSpec) { s.Routes = []rules.RouteSpec{r} }
	}
	plan := func(p rules.SeatPlanSpec) func(*rules.IsolationSpec) {
		return func(s *rules.IsolationSpec) { s.Plans["gold"], s.Routes = p, nil }
	}
	for _, c := range []struct {
		want   string
		change func(s *rules.IsolationSpec)
	}{
		{"isolation.seats: 0 is out of bounds; 1 to 65536 is allowed", func(s *rules.IsolationSpec) { s.Seats, s.Routes, s.Plans = 0, nil, nil }},
		{`isolation.tenant: "te nant" is not an attribute; letters, digits, _ and - are allowed, 1 to 64 of them`, func(s *rules.IsolationSpec) { s.Tenant = "te nant" }},
		{`isolation.tenant: "" has an empty attribute; an attribute, or several with | between them, is allowed`, func(s *rules.IsolationSpec) { s.Tenant = "" }},
		{"isolation.status: 500 is not allowed; 429 and 503 are", func(s *rules.IsolationSpec) { s.Status = 500 }},
		{"isolation.guarantee: 100 is out of bounds; 0 to 99 is allowed", func(s *rules.IsolationSpec) { s.Guarantee = to(100) }},
		{"isolation.max_waiting: -1 is out of bounds; 1 to 1048576 is allowed", func(s *rules.IsolationSpec) { s.MaxWaiting = to(-1) }},
		{"isolation.min_seats: 33 is out of bounds; 1 to 32 is allowed", func(s *rules.IsolationSpec) { s.MinSeats = to(33) }},
		{"isolation.plans.gold.weight: 0 is out of bounds; 1 to 1000 is allowed", plan(rules.SeatPlanSpec{Weight: to(0)})},
		{"isolation.plans.gold.timeout: 0s is out of bounds; 1ms to 1d is allowed", plan(rules.SeatPlanSpec{Timeout: to(rules.Duration(0))})},
		{"isolation.plans.gold.weight: -1 is out of bounds; 1 to 1000 is allowed", plan(rules.SeatPlanSpec{Weight: to(-1)})},
		{"isolation.plans.gold.max_seats: 33 is out of bounds; 1 to 32 is allowed", plan(rules.SeatPlanSpec{MaxSeats: to(33)})},
		{"isolation.plans.gold.queue: -1 is out of bounds; 0 to 65536 is allowed", plan(rules.SeatPlanSpec{Queue: to(-1)})},
		{"isolation.plans.gold.queue_timeout: -1s is out of bounds; 1ms to 1d is allowed", plan(rules.SeatPlanSpec{QueueTimeout: to(-second)})},
		{"isolation.plans.gold.timeout: 1d1h is out of bounds; 1ms to 1d is allowed", plan(rules.SeatPlanSpec{Timeout: to(25 * 3600 * second)})},
		{`isolation.plans.gold.preset: "double" is unknown; allowed: single`, plan(rules.SeatPlanSpec{Preset: "double"})},
		{`isolation.plans.silver: plans has no "silver"; only requests whose attribute plan is "silver" get it`, func(s *rules.IsolationSpec) { s.Plans["silver"] = rules.SeatPlanSpec{} }},
		{"isolation.routes[0].cost: 33 is out of bounds; 1 to 32 is allowed", route(rules.RouteSpec{Cost: to(33)})},
		{`isolation.routes[0].cost: 5 is more than the 4 seats that a tenant of plan "default" may hold; it would never start`, route(rules.RouteSpec{Cost: to(5)})},
		{"isolation.routes[0].timeout: 500us is out of bounds; 1ms to 1d is allowed", route(rules.RouteSpec{Timeout: to(second / 2000)})},
		{`isolation.routes[0].priority: "urgent" is unknown; allowed: low, normal and high`, route(rules.RouteSpec{Priority: "urgent"})},
		{`isolation.routes[0].match.path: "reports" does not begin with a slash; write "/reports"`, route(rules.RouteSpec{Match: rules.MatchSpec{Path: "reports"}})},
	} {
		_, problems := compileShop(t, c.change)
		var got []string
		for _, p := range problems {
			got = append(got, p.Path+": "+p.Message)
		}
		if len(got) == 0 || got[0] != c.want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), c.want)
		}
	}
}

func TestIsolationShared(t *testing.T) {
	// A cap of all processes together may be above the seats of one.
	set, problems := compileShop(t, func(s *rules.IsolationSpec) {
		s.LeaseTime = to(20 * second)
		s.Plans["gold"] = rules.SeatPlanSpec{MaxSeats: to(100), Shared: true}
		s.Plans["default"] = rules.SeatPlanSpec{Preset: "single", MaxSeats: to(4), Shared: true}
	})
	if set == nil {
		t.Fatal(problems)
	}
	c := set.Isolation().Config
	if gold, other := c.Plans["gold"], c.Plans["default"]; !gold.Shared || gold.MaxSeats != 100 || !other.Shared || other.MaxSeats != 4 || c.LeaseTime != 20*time.Second {
		t.Errorf("%+v", c)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}
