package rules_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
)

// lines writes problems as people see them.
func lines(problems []rules.Problem) []string {
	var out []string
	for _, p := range problems {
		line := p.Error()
		if p.Warning {
			line = "warning: " + line
		}
		out = append(out, line)
	}
	return out
}

func ptr[T any](v T) *T { return &v }

const (
	minute = rules.Duration(time.Minute)
	hour   = rules.Duration(time.Hour)
)

// sound returns a rule without a problem.
func sound(name string) rules.RuleSpec {
	return rules.RuleSpec{Name: name, Match: rules.MatchSpec{Path: "/" + name}, Limits: quota(10)}
}

func TestProblemsOfOneRule(t *testing.T) {
	const (
		attribute = "letters, digits, _ and - are allowed, 1 to 64 of them"
		name      = "lower-case letters, digits, - and _ are allowed, 1 to 64 of them"
	)
	limits := func(l ...rules.LimitSpec) func(*rules.RuleSpec) {
		return func(r *rules.RuleSpec) { r.Limits = l }
	}
	match := func(edit func(m *rules.MatchSpec)) func(*rules.RuleSpec) {
		return func(r *rules.RuleSpec) { edit(&r.Match) }
	}
	key := func(parts ...string) func(*rules.RuleSpec) {
		return func(r *rules.RuleSpec) { r.Key = parts }
	}
	cost := func(n int64, l ...rules.LimitSpec) func(*rules.RuleSpec) {
		return func(r *rules.RuleSpec) { r.Cost, r.Limits = n, l }
	}
	queue := func(wait rules.Duration, n int) func(*rules.RuleSpec) {
		return func(r *rules.RuleSpec) { r.Queue = &rules.QueueSpec{MaxWait: wait, MaxQueue: n} }
	}

	for _, c := range []struct {
		name string
		edit func(r *rules.RuleSpec)
		want string // behind "rules[0]"
	}{
		{"no name", func(r *rules.RuleSpec) { r.Name = "" }, `.name: is missing; ` + name},
		{"bad name", func(r *rules.RuleSpec) { r.Name = "Log In" }, `.name: "Log In" is not a name; ` + name},
		{"long name", func(r *rules.RuleSpec) { r.Name = strings.Repeat("x", 65) }, `.name: "` + strings.Repeat("x", 65) + `" is not a name; ` + name},

		{"bad method", match(func(m *rules.MatchSpec) { m.Methods = []string{"GET", "P T"} }), `.match.methods[1]: "P T" is not a method; a name such as GET or POST is allowed`},
		{"host with a port", match(func(m *rules.MatchSpec) { m.Host = "example.com:8080" }), `.match.host: "example.com:8080" has a port or brackets; write "example.com"`},
		{"host below with a port", match(func(m *rules.MatchSpec) { m.Host = "*.example.com:80" }), `.match.host: "*.example.com:80" has a port or brackets; write "*.example.com"`},
		{"host in brackets", match(func(m *rules.MatchSpec) { m.Host = "[::1]" }), `.match.host: "[::1]" has a port or brackets; write "::1"`},
		{"host with a scheme", match(func(m *rules.MatchSpec) { m.Host = "http://example.com" }), `.match.host: "http://example.com" is not a host; a name such as example.com, *.example.com for all names below it, or an IP address is allowed`},
		{"host with a star inside", match(func(m *rules.MatchSpec) { m.Host = "api.*.com" }), `.match.host: "api.*.com" is not a host; a name such as example.com, *.example.com for all names below it, or an IP address is allowed`},
		{"host of a dot", match(func(m *rules.MatchSpec) { m.Host = ".example.com" }), `.match.host: ".example.com" is not a host; a name such as example.com, *.example.com for all names below it, or an IP address is allowed`},
		{"bad header", match(func(m *rules.MatchSpec) { m.Headers = when("X Key", "*") }), `.match.headers.X Key: "X Key" is not a header; a name such as X-Api-Key is allowed`},
		{"a header twice", match(func(m *rules.MatchSpec) { m.Headers = map[string]rules.Pattern{"X-Key": "1", "x-key": "2"} }), `.match.headers.x-key: "x-key" is the same as "X-Key", which is there already; leave one out`},
		{"bad header pattern", match(func(m *rules.MatchSpec) { m.Headers = when("X-Key", "a*b") }), `.match.headers.X-Key: "a*b" has a * that is not at its end; a value, a prefix with * behind it, * alone for present, or nothing for absent is allowed`},
		{"bad attribute", match(func(m *rules.MatchSpec) { m.Attributes = when("user.name", "*") }), `.match.attributes.user.name: "user.name" is not an attribute; ` + attribute},
		{"bad attribute pattern", match(func(m *rules.MatchSpec) { m.Attributes = when("user", "**") }), `.match.attributes.user: "**" has a * that is not at its end; a value, a prefix with * behind it, * alone for present, or nothing for absent is allowed`},

		{"empty key", key("user", ""), `.key[1]: "" has an empty attribute; an attribute, or several with | between them, is allowed`},
		{"empty alternative", key("user|"), `.key[0]: "user|" has an empty attribute; an attribute, or several with | between them, is allowed`},
		{"bad key", key("user name"), `.key[0]: "user name" is not an attribute; ` + attribute},
		{"key twice", key("user", "ip", "user"), `.key[2]: "user" is there already; leave one out`},
		{"long key", key("a", "b", "c", "d", "e", "f", "g", "h", "i"), `.key: 9 attributes are given; at most 8 are allowed`},

		{"no limits", limits(), `.limits: is missing; 1 to 16 limits are allowed`},
		{"many limits", limits(slices.Repeat(quota(1), 17)...), `.limits: 17 limits are given; at most 16 are allowed`},
		{"unknown algorithm", limits(rules.LimitSpec{Algorithm: "slidng", Quota: 1, Window: minute}), `.limits[0].algorithm: "slidng" is unknown; allowed: gcra, sliding, sliding-proportional, log and fixed; did you mean "sliding"?`},
		{"far from any algorithm", limits(rules.LimitSpec{Algorithm: "token-bucket", Quota: 1, Window: minute}), `.limits[0].algorithm: "token-bucket" is unknown; allowed: gcra, sliding, sliding-proportional, log and fixed`},
		{"negative quota", limits(rules.LimitSpec{Quota: -1, Window: minute}), `.limits[0].quota: -1 is negative; 0 (admit nothing) or more is allowed`},
		{"large log", limits(rules.LimitSpec{Algorithm: "log", Quota: 5000, Window: minute}), `.limits[0].quota: 5000 is too large for the log algorithm; at most 4096 is allowed (sliding has no such bound)`},
		{"window of 0", limits(rules.LimitSpec{Quota: 1}), `.limits[0].window: 0s is out of bounds; 1ms to 365d is allowed`},
		{"negative window", limits(rules.LimitSpec{Quota: 1, Window: -minute}), `.limits[0].window: -1m0s is out of bounds; 1ms to 365d is allowed`},
		{"short window", limits(rules.LimitSpec{Quota: 1, Window: rules.Duration(999 * time.Microsecond)}), `.limits[0].window: 999us is out of bounds; 1ms to 365d is allowed`},
		{"long window", limits(rules.LimitSpec{Quota: 1, Window: 366 * 24 * hour}), `.limits[0].window: 366d is out of bounds; 1ms to 365d is allowed`},
		{"fine window", limits(rules.LimitSpec{Quota: 1, Window: minute + 1}), `.limits[0].window: 1m0.000000001s is finer than a microsecond; whole microseconds are allowed`},
		{"burst of 0", limits(rules.LimitSpec{Quota: 1, Window: minute, Burst: ptr[int64](0)}), `.limits[0].burst: 0 is too small; 1 or more is allowed`},
		{"negative burst", limits(rules.LimitSpec{Quota: 1, Window: minute, Burst: ptr[int64](-5)}), `.limits[0].burst: -5 is too small; 1 or more is allowed`},
		{"burst of a counter", limits(rules.LimitSpec{Algorithm: "fixed", Quota: 1, Window: minute, Burst: ptr[int64](5)}), `.limits[0].burst: 5 is given, and fixed has no burst; leave it out, or use gcra`},
		{"bad limit name", limits(rules.LimitSpec{Name: "A", Quota: 1, Window: minute}), `.limits[0].name: "A" is not a name; ` + name},
		{"a rule to replace that is not there", func(r *rules.RuleSpec) { r.Replaces = []string{"rules"} }, `.replaces[0]: "rules" is unknown; allowed: rule; did you mean "rule"?`},
		{"a rule that replaces itself", func(r *rules.RuleSpec) { r.Replaces = []string{"rule"} }, `.replaces[0]: "rule" is this rule itself; leave it out`},
		{"a limit name twice", limits(rules.LimitSpec{Quota: 1, Window: minute}, rules.LimitSpec{Quota: 2, Window: minute}), `.limits[1].name: "rule-1m" is already the name of rules[0].limits[0]; give this limit a name of its own`},

		{"unknown mode", func(r *rules.RuleSpec) { r.Mode = "Exakt" }, `.mode: "Exakt" is unknown; allowed: exact, local and synced; did you mean "exact"?`},
		{"overshoot of an exact rule", func(r *rules.RuleSpec) { r.MaxOvershoot = ptr[int64](5) }, `.max_overshoot: 5 is given, and only a synced rule goes above its limits; leave it out, or use mode: synced`},
		{"overshoot of a local rule", func(r *rules.RuleSpec) { r.Mode, r.MaxOvershoot = "local", ptr[int64](5) }, `.max_overshoot: 5 is given, and only a synced rule goes above its limits; leave it out, or use mode: synced`},
		{"overshoot of 0", func(r *rules.RuleSpec) { r.Mode, r.MaxOvershoot = "synced", ptr[int64](0) }, `.max_overshoot: 0 is out of bounds; 1 or more is allowed, and mode: exact for none`},
		{"negative overshoot", func(r *rules.RuleSpec) { r.Mode, r.MaxOvershoot = "synced", ptr[int64](-1) }, `.max_overshoot: -1 is out of bounds; 1 or more is allowed, and mode: exact for none`},
		{"unknown mode, with an overshoot", func(r *rules.RuleSpec) { r.Mode, r.MaxOvershoot = "sync", ptr[int64](5) }, `.mode: "sync" is unknown; allowed: exact, local and synced; did you mean "synced"?`},
		{"negative cost", cost(-1, quota(10)...), `.cost: -1 is negative; 1 or more is allowed`},
		{"cost above quota", cost(11, quota(10)...), `.cost: 11 exceeds the most that limits[0] ever admits at once, 10; lower the cost or raise that limit`},
		{"cost above burst", cost(6, rules.LimitSpec{Name: "one", Quota: 100, Window: hour}, rules.LimitSpec{Quota: 10, Window: minute, Burst: ptr[int64](5)}), `.cost: 6 exceeds the most that limits[1] ever admits at once, 5; lower the cost or raise that limit`},
		{"unknown status", func(r *rules.RuleSpec) { r.Status = 418 }, `.status: 418 is not allowed; 429 and 503 are`},
		{"unknown store error", func(r *rules.RuleSpec) { r.OnStoreError = "allowed" }, `.on_store_error: "allowed" is unknown; allowed: local, allow and deny; did you mean "allow"?`},
		{"queue without a wait", queue(0, 1), `.queue.max_wait: 0s is out of bounds; more than 0s, up to 1h, is allowed`},
		{"queue that waits long", queue(hour+1, 1), `.queue.max_wait: 1h0m0.000000001s is out of bounds; more than 0s, up to 1h, is allowed`},
		{"queue of none", queue(minute, 0), `.queue.max_queue: 0 is out of bounds; 1 to 10000 is allowed`},
		{"long queue", queue(minute, 10_001), `.queue.max_queue: 10001 is out of bounds; 1 to 10000 is allowed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sound("rule")
			c.edit(&r)
			set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{r}})
			if set != nil {
				t.Error("there is a Set")
			}
			if diff := cmp.Diff([]string{"rules[0]" + c.want}, lines(problems)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProblemsOfTemplates(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{"items/{user}", `"items/{user}" does not begin with a slash; write "/items/{user}"`},
		{"/items?user={user}", `"/items?user={user}" has a query; only the path is matched, end it before "?user={user}"`},
		{"/items#top", `"/items#top" has a # in "items#top"; it stands for a whole segment that is an id`},
		{"/items;v=1", `"/items;v=1" has a ; parameter; they are dropped before a path is matched, leave it out`},
		{"/items//{user}", `"/items//{user}" has an empty segment; they are dropped before a path is matched, write one slash`},
		{"/items/%7Euser", `"/items/%7Euser" is percent-encoded; paths are decoded before they are matched, write "/items/~user"`},
		{"/items/../{user}", `"/items/../{user}" has a .. segment; they are resolved before a path is matched, write what it leads to`},
		{"/./items", `"/./items" has a . segment; they are resolved before a path is matched, write what it leads to`},
		{"/items/{}", `"/items/{}" has no name in "{}"; write {name} or {name...}`},
		{"/items/{...}", `"/items/{...}" has no name in "{...}"; write {name} or {name...}`},
		{"/items/{user name}", `"/items/{user name}" has the name "user name"; letters, digits, _ and - are allowed, 1 to 64 of them`},
		{"/items/{plan}", `"/items/{plan}" has {plan}, which would let callers choose their plan; take another name`},
		{"/items/v{n}", `"/items/v{n}" has text beside braces in "v{n}"; a segment is either text or one {name}`},
		{"/items/{a}{b}", `"/items/{a}{b}" has text beside braces in "{a}{b}"; a segment is either text or one {name}`},
		{"/items/{user", `"/items/{user" has text beside braces in "{user"; a segment is either text or one {name}`},
		{"/items/user}", `"/items/user}" has text beside braces in "user}"; a segment is either text or one {name}`},
		{"/{user}/items/{user}", `"/{user}/items/{user}" has {user} twice; give each its own name`},
		{"/{user}/{user...}", `"/{user}/{user...}" has {user} twice; give each its own name`},
		{"/{path...}/edit", `"/{path...}/edit" goes on behind {path...}, which takes the rest; put it last`},
		{"/" + strings.Repeat("x", 1024), `has 1025 bytes; at most 1024 are allowed`},
	} {
		r := sound("rule")
		r.Match.Path = c.template
		_, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{r}})
		if diff := cmp.Diff([]string{"rules[0].match.path: " + c.want}, lines(problems)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestProblemsOfOverrides(t *testing.T) {
	past, soon, late := time.Date(2020, 1, 31, 0, 0, 0, 0, time.UTC), time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	exempt := func(w map[string]rules.Pattern, until *time.Time) rules.OverrideSpec {
		return rules.OverrideSpec{When: w, Exempt: true, Until: until}
	}
	both := map[string]rules.Pattern{"user": "alex", "ip": "::1"}
	for _, c := range []struct {
		name      string
		overrides []rules.OverrideSpec
		want      []string // each behind "rules[0].overrides"
	}{
		{"both exempt and limits", []rules.OverrideSpec{{When: both, Exempt: true, Limits: quota(5)}}, []string{`[0]: has both exempt and limits; leave one of them out`}},
		{"neither exempt nor limits", []rules.OverrideSpec{{When: both}}, []string{`[0]: has neither exempt nor limits; say what it changes`}},
		{"for nobody", []rules.OverrideSpec{{Exempt: true}}, []string{`[0]: has neither when nor plan; say which callers it is for`}},
		{"unknown plan", []rules.OverrideSpec{{Plan: "por", Exempt: true}}, []string{`[0].plan: "por" is unknown; allowed: basic and pro; did you mean "pro"?`}},
		{"more limits", []rules.OverrideSpec{{Plan: "pro", Limits: slices.Repeat(quota(5), 2)}}, []string{`[0].limits: 2 are given; the rule has 1, and each needs one in its place`}},
		{"bad pattern", []rules.OverrideSpec{exempt(when("user", "a*x"), nil)}, []string{`[0].when.user: "a*x" has a * that is not at its end; a value, a prefix with * behind it, * alone for present, or nothing for absent is allowed`}},
		{"bad limit", []rules.OverrideSpec{{Plan: "pro", Limits: []rules.LimitSpec{{Quota: -1, Burst: ptr[int64](0)}}}}, []string{
			`[0].limits[0].quota: -1 is negative; 0 (admit nothing) or more is allowed`,
			`[0].limits[0].window: 0s is out of bounds; 1ms to 365d is allowed`,
			`[0].limits[0].burst: 0 is too small; 1 or more is allowed`,
		}},
		{"another name", []rules.OverrideSpec{{Plan: "pro", Limits: []rules.LimitSpec{{Name: "pro", Quota: 9, Window: minute}}}}, []string{`[0].limits[0].name: "pro" is not the name of the limit that it replaces, "rule"; leave it out`}},
		{"another algorithm", []rules.OverrideSpec{{Plan: "pro", Limits: []rules.LimitSpec{{Algorithm: "fixed", Quota: 9, Window: minute}}}}, []string{`[0].limits[0].algorithm: "fixed" is not that of the limit that it replaces, "gcra", and what was spent would not count; leave it out`}},
		{"below the cost", []rules.OverrideSpec{{Plan: "pro", Limits: quota(2)}}, []string{`[0].limits[0]: can never admit the rule's cost of 3; at most 2 fits at once`}},
		{"nothing admitted on purpose", []rules.OverrideSpec{{Plan: "pro", Limits: quota(0)}}, nil},
		{"past", []rules.OverrideSpec{exempt(when("user", "alex"), &past)}, []string{`[0].until: 2020-01-31T00:00:00Z is past; the override does not apply any more`}},

		{"the same again", []rules.OverrideSpec{exempt(both, nil), {When: both, Limits: quota(5)}}, []string{`[1]: never applies: rules[0].overrides[0] comes first and applies to all of the same callers; put this one before it, or leave it out`}},
		{"the same plan again", []rules.OverrideSpec{{Plan: "pro", Exempt: true}, exempt(both, nil), exempt(when("plan", "pro"), nil)}, []string{`[2]: never applies: rules[0].overrides[0] comes first and applies to all of the same callers; put this one before it, or leave it out`}},
		{"fewer conditions first", []rules.OverrideSpec{exempt(when("user", "alex"), nil), exempt(both, nil)}, []string{`[1]: never applies: rules[0].overrides[0] comes first and applies to all of the same callers; put this one before it, or leave it out`}},
		{"more conditions first", []rules.OverrideSpec{exempt(both, nil), exempt(when("user", "alex"), nil)}, nil},
		{"prefix first", []rules.OverrideSpec{exempt(when("user", "al*"), nil), exempt(when("user", "alex"), nil)}, []string{`[1]: never applies: rules[0].overrides[0] comes first and applies to all of the same callers; put this one before it, or leave it out`}},
		{"shorter prefix first", []rules.OverrideSpec{exempt(when("user", "al*"), nil), exempt(when("user", "ale*"), nil)}, []string{`[1]: never applies: rules[0].overrides[0] comes first and applies to all of the same callers; put this one before it, or leave it out`}},
		{"longer prefix first", []rules.OverrideSpec{exempt(when("user", "ale*"), nil), exempt(when("user", "al*"), nil)}, nil},
		{"present first", []rules.OverrideSpec{exempt(when("user", "*"), nil), exempt(when("user", "al*"), nil)}, []string{`[1]: never applies: rules[0].overrides[0] comes first and applies to all of the same callers; put this one before it, or leave it out`}},
		{"absent and present", []rules.OverrideSpec{exempt(when("user", ""), nil), exempt(when("user", "*"), nil)}, nil},
		{"ends first", []rules.OverrideSpec{exempt(both, &soon), exempt(both, nil)}, nil},
		{"ends earlier", []rules.OverrideSpec{exempt(both, &soon), exempt(both, &late)}, nil},
		{"ends later", []rules.OverrideSpec{exempt(both, &late), exempt(both, &soon)}, []string{`[1]: never applies: rules[0].overrides[0] comes first and applies to all of the same callers; put this one before it, or leave it out`}},
		{"a broken one hides none", []rules.OverrideSpec{exempt(map[string]rules.Pattern{"user": "alex", "ip": "a*b"}, nil), exempt(when("user", "alex"), nil)}, []string{`[0].when.ip: "a*b" has a * that is not at its end; a value, a prefix with * behind it, * alone for present, or nothing for absent is allowed`}},
		{"many", slices.Repeat([]rules.OverrideSpec{{}}, 1001), []string{`: 1001 overrides are given; at most 1000 are allowed, put callers that are alike into a plan`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sound("rule")
			r.Cost, r.Overrides = 3, c.overrides
			_, problems := rules.Compile(rules.Spec{
				Plans: map[string]rules.Plan{"pro": {Members: map[string][]string{"user": {"a"}}}, "basic": {Members: map[string][]string{"user": {"b"}}}},
				Rules: []rules.RuleSpec{r},
			})
			var want []string
			for _, line := range c.want {
				line = "rules[0].overrides" + line
				if c.name == "past" {
					line = "warning: " + line
				}
				want = append(want, line)
			}
			if diff := cmp.Diff(want, lines(problems)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProblemsOfPlans(t *testing.T) {
	set, problems := rules.Compile(rules.Spec{Plans: map[string]rules.Plan{
		"basic": {Members: map[string][]string{"tenant": {"acme", "globex"}}},
		"empty": {},
		"pro":   {Members: map[string][]string{"tenant": {"initech", "acme"}, "user": {"alex"}}},
	}})
	if set == nil {
		t.Error("warnings alone leave no Set")
	}
	if diff := cmp.Diff([]string{
		`warning: plans.empty: has no members; only requests whose attribute plan is "empty" belong to it`,
		`warning: plans.pro.members.tenant[1]: "acme" is in plan "basic" too, and belongs to that one; list it once`,
	}, lines(problems)); diff != "" {
		t.Error(diff)
	}

	_, problems = rules.Compile(rules.Spec{Plans: map[string]rules.Plan{
		"":    {Members: map[string][]string{"tenant": {"acme"}}},
		"pro": {Members: map[string][]string{"plan": {"gold"}, "tenant": {""}, "user name": {"alex"}}},
	}})
	if diff := cmp.Diff([]string{
		`plans.: has no name; give it one`,
		`plans.pro.members.plan: a plan cannot be told by the attribute plan itself; a request that has it belongs to that plan anyway`,
		`plans.pro.members.tenant[0]: is empty; name a value of tenant`,
		`plans.pro.members.user name: "user name" is not an attribute; letters, digits, _ and - are allowed, 1 to 64 of them`,
	}, lines(problems)); diff != "" {
		t.Error(diff)
	}
}

// Everything is reported at once, in the order of the Spec.
func TestProblemsBetweenRules(t *testing.T) {
	named := func(name, limit string) rules.RuleSpec {
		r := sound(name)
		r.Limits = []rules.LimitSpec{{Name: limit, Quota: 10, Window: minute}}
		return r
	}
	again := named("again", "again")
	again.Name = "login"
	_, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{
		sound("login"), again, named("other", "login"),
		{Name: "none", Mode: "x", Status: 1, Overrides: []rules.OverrideSpec{{When: when("user", "alex"), Limits: quota(1)}}},
	}})
	if diff := cmp.Diff([]string{
		`rules[1].name: "login" is already the name of rules[0]`,
		`rules[2].limits[0].name: "login" is already the name of rules[0].limits[0]; give this limit a name of its own`,
		`rules[3].limits: is missing; 1 to 16 limits are allowed`,
		`rules[3].mode: "x" is unknown; allowed: exact, local and synced`,
		`rules[3].status: 1 is not allowed; 429 and 503 are`,
	}, lines(problems)); diff != "" {
		t.Error(diff)
	}
}

// Two rules that differ in nothing but their limits are one rule.
func TestRulesThatAreTheSame(t *testing.T) {
	full := func(edit func(r *rules.RuleSpec)) rules.RuleSpec {
		r := rules.RuleSpec{
			Name: "first", Key: []string{"user", "ip"}, Limits: quota(10),
			Match: rules.MatchSpec{
				Methods: []string{"GET", "POST"}, Host: "example.com", Path: "/items",
				Headers: when("X-Key", "*"), Attributes: when("plan", "pro"),
			},
			Overrides: []rules.OverrideSpec{{When: when("user", "root"), Exempt: true}},
		}
		edit(&r)
		return r
	}
	for _, c := range []struct {
		name string
		edit func(r *rules.RuleSpec)
		same bool
	}{
		{"all the same", func(*rules.RuleSpec) {}, true},
		{"another quota", func(r *rules.RuleSpec) { r.Limits = quota(20) }, true},
		{"methods in another order", func(r *rules.RuleSpec) { r.Match.Methods = []string{"post", "GET", "GET"} }, true},
		{"key in another order", func(r *rules.RuleSpec) { r.Key = []string{"ip", "user"} }, true},
		{"header in another case", func(r *rules.RuleSpec) { r.Match.Headers = when("x-key", "*") }, true},
		{"host in another case", func(r *rules.RuleSpec) { r.Match.Host = "Example.com." }, true},
		{"path with a slash behind", func(r *rules.RuleSpec) { r.Match.Path = "/items/" }, true},
		{"defaults written out", func(r *rules.RuleSpec) { r.Mode, r.Status, r.Cost, r.OnStoreError = "exact", 429, 1, "local" }, true},
		{"another method", func(r *rules.RuleSpec) { r.Match.Methods = []string{"GET"} }, false},
		{"another host", func(r *rules.RuleSpec) { r.Match.Host = "*.example.com" }, false},
		{"another path", func(r *rules.RuleSpec) { r.Match.Path = "/{items}" }, false},
		{"another header", func(r *rules.RuleSpec) { r.Match.Headers = when("X-Key", "1") }, false},
		{"another attribute", func(r *rules.RuleSpec) { r.Match.Attributes = when("plan", "pro*") }, false},
		{"another key", func(r *rules.RuleSpec) { r.Key = []string{"user|ip"} }, false},
		{"tried out in shadow", func(r *rules.RuleSpec) { r.Shadow = true }, false},
		{"another mode", func(r *rules.RuleSpec) { r.Mode = "local" }, false},
		{"another overshoot", func(r *rules.RuleSpec) { r.Mode, r.MaxOvershoot = "synced", ptr[int64](1) }, false},
		{"another cost", func(r *rules.RuleSpec) { r.Cost = 2 }, false},
		{"another status", func(r *rules.RuleSpec) { r.Status = 503 }, false},
		{"another store error", func(r *rules.RuleSpec) { r.OnStoreError = "deny" }, false},
		{"a queue", func(r *rules.RuleSpec) { r.Queue = &rules.QueueSpec{MaxWait: minute, MaxQueue: 1} }, false},
		{"another override", func(r *rules.RuleSpec) { r.Overrides = nil }, false},
	} {
		second := full(c.edit)
		second.Name = "second"
		_, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{full(func(*rules.RuleSpec) {}), second}})
		var want []string
		if c.same {
			want = []string{`rules[1]: matches and counts exactly what rule "first" does; put its limits into one rule`}
		}
		if diff := cmp.Diff(want, lines(problems)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestTooManyRules(t *testing.T) {
	var spec rules.Spec
	for i := range 10_001 {
		spec.Rules = append(spec.Rules, sound(fmt.Sprintf("rule-%d", i)))
	}
	_, problems := rules.Compile(spec)
	if diff := cmp.Diff([]string{"rules: 10001 are given; at most 10000 are allowed"}, lines(problems)); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownWordsAreNotListedWithoutEnd(t *testing.T) {
	spec := rules.Spec{Plans: map[string]rules.Plan{}}
	for i := range 12 {
		spec.Plans[fmt.Sprintf("plan-%02d", i)] = rules.Plan{Members: map[string][]string{"user": {fmt.Sprint(i)}}}
	}
	r := sound("rule")
	r.Overrides = []rules.OverrideSpec{{Plan: "gold", Exempt: true}}
	spec.Rules = []rules.RuleSpec{r}
	_, many := rules.Compile(spec)
	_, one := rules.Compile(rules.Spec{Rules: spec.Rules, Plans: map[string]rules.Plan{"pro": {Members: map[string][]string{"user": {"alex"}}}}})
	_, none := rules.Compile(rules.Spec{Rules: spec.Rules})
	if diff := cmp.Diff([]string{
		`rules[0].overrides[0].plan: "gold" is unknown; allowed: plan-00, plan-01, plan-02, plan-03, plan-04, plan-05, plan-06, plan-07, plan-08, plan-09 and 2 more`,
		`rules[0].overrides[0].plan: "gold" is unknown; allowed: pro`,
		`rules[0].overrides[0].plan: "gold" is unknown; there are none`,
	}, lines(slices.Concat(many, one, none))); diff != "" {
		t.Error(diff)
	}
}

func TestCompiledRule(t *testing.T) {
	set := compile(t, rules.Spec{Rules: []rules.RuleSpec{
		{Name: "plain", Limits: quota(10)},
		{
			Name: "full", Mode: "local", Cost: 2, Shadow: true, Status: 503, OnStoreError: "deny",
			Queue: &rules.QueueSpec{MaxWait: minute, MaxQueue: 10},
			Limits: []rules.LimitSpec{
				{Quota: 10, Window: minute, Burst: ptr[int64](5)},
				{Quota: 20, Window: 24 * hour, Algorithm: "fixed"},
				{Quota: math.MaxInt64, Window: hour, Name: "long"},
				{Quota: 0, Window: rules.Duration(90 * time.Second)},
			},
		},
	}})
	plain, full := set.Rules()[0], set.Rules()[1]
	if plain.Cost != 1 || plain.Status != 429 || plain.Shadow || plain.MaxWait != 0 || plain.MaxQueue != 0 {
		t.Errorf("defaults: %+v", plain)
	}
	if full.Cost != 2 || full.Status != 503 || !full.Shadow || full.MaxWait != time.Minute || full.MaxQueue != 10 {
		t.Errorf("fields: %+v", full)
	}
	type policies []*limit.Policy
	if diff := cmp.Diff(policies{
		{Name: "plain", Algorithm: algo.GCRA, Quota: 10, Window: time.Minute, OnStoreError: limit.FailLocal},
	}, policies(plain.Policies), cmp.Comparer(func(a, b *algo.Algorithm) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(policies{
		{Name: "full-1m", Algorithm: algo.GCRA, Quota: 10, Window: time.Minute, Burst: 5, Mode: limit.Local},
		{Name: "full-1d", Algorithm: algo.Fixed, Quota: 20, Window: 24 * time.Hour, Mode: limit.Local},
		{Name: "long", Algorithm: algo.GCRA, Quota: math.MaxInt64, Window: time.Hour, Mode: limit.Local},
		{Name: "full-1m30s", Algorithm: algo.GCRA, Window: 90 * time.Second, Mode: limit.Local},
	}, policies(full.Policies), cmp.Comparer(func(a, b *algo.Algorithm) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for _, p := range slices.Concat(plain.Policies, full.Policies) {
		if err := p.Check(); err != nil {
			t.Errorf("policy %s: %v", p.Name, err)
		}
	}
}
