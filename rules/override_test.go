package rules_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
)

func when(name string, p rules.Pattern) map[string]rules.Pattern {
	return map[string]rules.Pattern{name: p}
}

func quota(n int64) []rules.LimitSpec {
	return []rules.LimitSpec{{Quota: n, Window: rules.Duration(time.Minute)}}
}

func TestOverrides(t *testing.T) {
	end := time.Date(2100, 1, 31, 0, 0, 0, 0, time.UTC)
	set := compile(t, rules.Spec{
		Plans: map[string]rules.Plan{
			"basic": {Members: map[string][]string{"tenant": {"globex"}, "user": {"bob"}}},
			"pro":   {Members: map[string][]string{"tenant": {"acme"}}},
		},
		Rules: []rules.RuleSpec{{
			Name:   "api",
			Limits: quota(10),
			Overrides: []rules.OverrideSpec{
				{When: when("user", "root"), Exempt: true},
				{When: when("user", "alex"), Limits: quota(1000), Until: &end},
				{When: map[string]rules.Pattern{"user": "al*", "ip": ""}, Limits: quota(50)},
				{Plan: "pro", When: when("user", "*"), Limits: quota(100)},
				{Plan: "pro", Limits: quota(90)},
				{Plan: "basic", Limits: quota(20)},
			},
		}},
	})
	before, at, after := end.Add(-1), end, end.Add(1)
	for _, c := range []struct {
		name       string
		attributes attributes
		now        time.Time
		override   int
		quota      int64 // -1: exempt
	}{
		{"none applies", attributes{"user": "eve"}, before, -1, 10},
		{"no attributes", nil, before, -1, 10},
		{"exempt", attributes{"user": "root"}, before, 0, -1},
		{"first wins", attributes{"user": "root", "tenant": "acme"}, before, 0, -1},
		{"before its end", attributes{"user": "alex"}, before, 1, 1000},
		{"at its end the next that applies", attributes{"user": "alex"}, at, 2, 50},
		{"after its end", attributes{"user": "alex", "ip": "::1"}, after, -1, 10},
		{"a clock stepped back brings it back", attributes{"user": "alex"}, before, 1, 1000},
		{"all of when must hold", attributes{"user": "alan", "ip": "::1"}, before, -1, 10},
		{"plan and when", attributes{"tenant": "acme", "user": "eve"}, before, 3, 100},
		{"plan by membership", attributes{"tenant": "acme"}, before, 4, 90},
		{"plan by attribute", attributes{"plan": "pro"}, before, 4, 90},
		{"plan by attribute beats membership", attributes{"plan": "basic", "tenant": "acme"}, before, 5, 20},
		{"an empty plan is none", attributes{"plan": "", "tenant": "acme"}, before, 4, 90},
		{"a plan that is not listed", attributes{"plan": "gold", "tenant": "acme"}, before, -1, 10},
		{"in two plans the first by name", attributes{"tenant": "acme", "user": "bob"}, before, 5, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			matches := set.Match(nil, &request{attributes: c.attributes}, func() time.Time { return c.now })
			m := matches[0]
			if m.Override != c.override || m.Exempt != (c.quota < 0) {
				t.Errorf("override %d, exempt %v; want %d, %v", m.Override, m.Exempt, c.override, c.quota < 0)
			}
			if c.quota < 0 {
				if len(m.Policies) != 0 {
					t.Errorf("policies %v of an exempt caller", m.Policies)
				}
			} else if len(m.Policies) != 1 || m.Policies[0].Quota != c.quota {
				t.Errorf("policies %+v, want one with quota %d", m.Policies, c.quota)
			}
		})
	}
}

// The clock is for overrides with an end that would apply, and for no other.
func TestClockIsOnlyAskedForAnEnd(t *testing.T) {
	end := time.Date(2100, 1, 31, 0, 0, 0, 0, time.UTC)
	set := compile(t, rules.Spec{Rules: []rules.RuleSpec{{
		Name: "api", Limits: quota(10),
		Overrides: []rules.OverrideSpec{
			{When: when("user", "root"), Exempt: true},
			{When: when("user", "alex"), Limits: quota(20), Until: &end},
		},
	}}})
	for user, want := range map[string]int{"root": 0, "eve": 0, "alex": 1} {
		asked := 0
		set.Match(nil, &request{attributes: attributes{"user": user}}, func() time.Time { asked++; return end })
		if asked != want {
			t.Errorf("for %s the clock was asked %d times, want %d", user, asked, want)
		}
	}
}

// An override's policies share name and algorithm with the rule's, and so the
// counters.
func TestOverrideKeepsCounters(t *testing.T) {
	minute, hour := rules.Duration(time.Minute), rules.Duration(time.Hour)
	set := compile(t, rules.Spec{Rules: []rules.RuleSpec{{
		Name: "login",
		Mode: "synced", MaxOvershoot: ptr[int64](7),
		Limits: []rules.LimitSpec{
			{Quota: 10, Window: minute, Algorithm: "sliding"},
			{Quota: 100, Window: hour, Name: "login-long"},
		},
		OnStoreError: "allow",
		Overrides: []rules.OverrideSpec{{When: when("user", "alex"), Limits: []rules.LimitSpec{
			{Quota: 20, Window: rules.Duration(30 * time.Second)},
			{Quota: 200, Window: hour, Algorithm: "gcra", Name: "login-long"},
		}}},
	}}})
	rule := set.Rules()[0]
	m := set.Match(nil, &request{attributes: attributes{"user": "alex"}}, time.Now)[0]
	want := []limit.Policy{
		{Name: "login-1m", Algorithm: algo.Sliding, Quota: 20, Window: 30 * time.Second, Mode: limit.Synced, MaxOvershoot: 7, OnStoreError: limit.FailAllow},
		{Name: "login-long", Algorithm: algo.GCRA, Quota: 200, Window: time.Hour, Mode: limit.Synced, MaxOvershoot: 7, OnStoreError: limit.FailAllow},
	}
	for i, p := range m.Policies {
		if *p != want[i] {
			t.Errorf("policy %d: %+v, want %+v", i, *p, want[i])
		}
		if limit.StoreKey(p, m.Key) != limit.StoreKey(rule.Policies[i], m.Key) {
			t.Errorf("policy %d of the override does not share the counter of the rule's", i)
		}
	}
}

// Many overrides that differ in one value are found by an index; the first
// that applies still wins.
func TestManyOverrides(t *testing.T) {
	spec := rules.RuleSpec{Name: "api", Limits: quota(10)}
	add := func(w map[string]rules.Pattern) {
		spec.Overrides = append(spec.Overrides, rules.OverrideSpec{When: w, Limits: quota(int64(len(spec.Overrides)))})
	}
	add(map[string]rules.Pattern{"tenant": "t05", "ip": "::1"})
	add(when("user", "root"))
	for i := range 20 {
		add(when("tenant", rules.Pattern([]byte{'t', byte('0' + i/10), byte('0' + i%10)})))
	}
	add(when("user", "*"))
	set := compile(t, rules.Spec{Rules: []rules.RuleSpec{spec}})
	for _, c := range []struct {
		attributes attributes
		want       int
	}{
		{nil, -1},
		{attributes{"tenant": "t05"}, 7},
		{attributes{"tenant": "t05", "ip": "::1"}, 0},
		{attributes{"tenant": "t05", "user": "root"}, 1},
		{attributes{"tenant": "t05", "user": "eve"}, 7},
		{attributes{"tenant": "t19"}, 21},
		{attributes{"tenant": "t20"}, -1},
		{attributes{"user": "eve"}, 22},
	} {
		m := set.Match(nil, &request{attributes: c.attributes}, time.Now)[0]
		if m.Override != c.want {
			t.Errorf("%v: override %d, want %d", c.attributes, m.Override, c.want)
		}
	}
}

// What the braces catch decides on plans and overrides, too; and a plan can be
// matched and counted by like any attribute.
func TestPlanIsAnAttribute(t *testing.T) {
	set := compile(t, rules.Spec{
		Plans: map[string]rules.Plan{"pro": {Members: map[string][]string{"user": {"alex"}}}},
		Rules: []rules.RuleSpec{
			{Name: "pro", Match: rules.MatchSpec{Attributes: when("plan", "pro")}, Key: []string{"plan"}, Limits: quota(10)},
			{Name: "none", Match: rules.MatchSpec{Attributes: when("plan", "")}, Key: []string{"plan"}, Limits: quota(10)},
			{Name: "item", Match: rules.MatchSpec{Path: "/items/{user}"}, Key: []string{"plan"}, Limits: quota(10)},
		},
	})
	for _, c := range []struct {
		path       string
		attributes attributes
		want       string
	}{
		{"/", attributes{"user": "alex"}, "pro plan=pro;"},
		{"/", attributes{"user": "eve"}, "none plan=-;"},
		{"/", attributes{"plan": "gold"}, ""},
		{"/items/alex", attributes{"user": "eve"}, "none plan=-;item plan=pro;"},
	} {
		got := ""
		for _, m := range set.Match(nil, &request{path: c.path, attributes: c.attributes}, time.Now) {
			got += m.Rule.Name + " " + rules.DescribeKey(m.Key) + ";"
		}
		if got != c.want {
			t.Errorf("%s %v: %q, want %q", c.path, c.attributes, got, c.want)
		}
	}
}
