package rules_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/rules"
)

// request is a rules.Request of plain fields. Its methods are on the pointer,
// so that to pass one allocates nothing.
type request struct {
	method, host, path string
	headers            map[string]string
	attributes         map[string]string
	asked              []string // the attributes asked for, if not nil
}

func (r *request) Method() string            { return r.method }
func (r *request) Host() string              { return r.host }
func (r *request) Path() string              { return r.path }
func (r *request) Header(name string) string { return r.headers[name] }
func (r *request) Attribute(name string) (string, bool) {
	if r.asked != nil {
		r.asked = append(r.asked, name)
	}
	value, ok := r.attributes[name]
	return value, ok
}

type attributes = map[string]string

// tenPerMinute are the limits of rules whose limits do not matter.
var tenPerMinute = []rules.LimitSpec{{Quota: 10, Window: rules.Duration(time.Minute)}}

func compile(t testing.TB, spec rules.Spec) *rules.Set {
	t.Helper()
	set, problems := rules.Compile(spec)
	for _, p := range problems {
		t.Errorf("problem: %v", p)
	}
	if set == nil {
		t.FailNow()
	}
	return set
}

// compileMatch compiles one rule.
func compileMatch(t testing.TB, match rules.MatchSpec, key ...string) *rules.Set {
	t.Helper()
	return compile(t, rules.Spec{Rules: []rules.RuleSpec{{Name: "rule", Match: match, Key: key, Limits: tenPerMinute}}})
}

func names(matches []rules.Match) []string {
	names := []string{}
	for _, m := range matches {
		names = append(names, m.Rule.Name)
	}
	return names
}

func TestMatchPart(t *testing.T) {
	match := func(edit func(*rules.MatchSpec)) rules.MatchSpec {
		var m rules.MatchSpec
		edit(&m)
		return m
	}
	host := func(host string) rules.MatchSpec { return rules.MatchSpec{Host: host} }
	path := func(path string) rules.MatchSpec { return rules.MatchSpec{Path: path} }
	header := func(p rules.Pattern) rules.MatchSpec {
		return match(func(m *rules.MatchSpec) { m.Headers = map[string]rules.Pattern{"x-api-version": p} })
	}
	attribute := func(name string, p rules.Pattern) rules.MatchSpec {
		return match(func(m *rules.MatchSpec) { m.Attributes = map[string]rules.Pattern{name: p} })
	}
	version := func(value string) request { return request{headers: map[string]string{"X-Api-Version": value}} }
	tenant := func(value string) request { return request{attributes: attributes{"tenant": value}} }
	post := rules.MatchSpec{Methods: []string{"POST", "put"}}

	for _, c := range []struct {
		name    string
		match   rules.MatchSpec
		request request
		want    bool
	}{
		{"no parts", rules.MatchSpec{}, request{}, true},

		{"method", post, request{method: "POST"}, true},
		{"method written in lower case", post, request{method: "PUT"}, true},
		{"method sent in lower case", post, request{method: "post"}, true},
		{"another method", post, request{method: "GET"}, false},
		{"no method", post, request{}, false},

		{"host", host("api.example.com"), request{host: "api.example.com"}, true},
		{"host with a port", host("api.example.com"), request{host: "api.example.com:8443"}, true},
		{"host in upper case with a dot", host("API.example.com."), request{host: "api.EXAMPLE.com.:80"}, true},
		{"another host", host("api.example.com"), request{host: "example.com"}, false},
		{"no host", host("api.example.com"), request{}, false},
		{"name below", host("*.example.com"), request{host: "a.example.com"}, true},
		{"name far below", host("*.example.com"), request{host: "a.b.example.com:80"}, true},
		{"not the name itself", host("*.example.com"), request{host: "example.com"}, false},
		{"not below nothing", host("*.example.com"), request{host: ".example.com"}, false},
		{"not a name that ends alike", host("*.example.com"), request{host: "badexample.com"}, false},
		{"IPv6 host with a port", host("::1"), request{host: "[::1]:8080"}, true},
		{"IPv6 host", host("::1"), request{host: "::1"}, true},
		{"IPv4 host", host("192.0.2.7"), request{host: "192.0.2.7:80"}, true},

		{"path", path("/items"), request{path: "/items"}, true},
		{"longer path", path("/items"), request{path: "/items/alex"}, false},
		{"other case", path("/items"), request{path: "/Items"}, false},
		{"template with a slash behind", path("/items/"), request{path: "/items"}, true},
		{"root", path("/"), request{path: "/"}, true},
		{"root and no path", path("/"), request{path: ""}, true},
		{"root and a path", path("/"), request{path: "/items"}, false},
		{"one segment", path("/items/{user}"), request{path: "/items/alex"}, true},
		{"one segment missing", path("/items/{user}"), request{path: "/items/"}, false},
		{"one segment too many", path("/items/{user}"), request{path: "/items/alex/1"}, false},
		{"segment in the middle", path("/items/{user}/edit"), request{path: "/items/alex/edit"}, true},
		{"rest of none", path("/files/{name...}"), request{path: "/files"}, true},
		{"rest of three", path("/files/{name...}"), request{path: "/files/a/b/c"}, true},
		{"rest elsewhere", path("/files/{name...}"), request{path: "/items/a"}, false},
		{"rest of all", path("/{name...}"), request{path: "/"}, true},
		{"not UTF-8", path("/items/\xff"), request{path: "/items/%ff"}, true},
		{"lone percent sign", path("/100%"), request{path: "/100%25"}, true},

		{"header", header("2"), version("2"), true},
		{"header with another value", header("2"), version("20"), false},
		{"header with a prefix", header("2*"), version("20"), true},
		{"header that is the prefix", header("2*"), version("2"), true},
		{"header without the prefix", header("2*"), version("12"), false},
		{"header present", header("*"), version("1"), true},
		{"header not present", header("*"), version(""), false},
		{"header absent", header(""), request{}, true},
		{"header not absent", header(""), version("1"), false},

		{"attribute", attribute("tenant", "acme"), tenant("acme"), true},
		{"attribute in another case", attribute("tenant", "acme"), tenant("Acme"), false},
		{"attribute missing", attribute("tenant", "acme"), request{}, false},
		{"attribute absent", attribute("tenant", ""), request{}, true},
		{"attribute empty", attribute("tenant", ""), tenant(""), true},
		{"attribute empty is not present", attribute("tenant", "*"), tenant(""), false},
		{"built-in method", attribute("method", "GET"), request{method: "GET"}, true},
		{"built-in host", attribute("host", "example.com"), request{host: "Example.com:80"}, true},
		{"built-in path", attribute("path", "/items*"), request{path: "//items/x"}, true},
		{
			"what the caller says of the method is not asked", attribute("method", "GET"),
			request{method: "POST", attributes: attributes{"method": "GET"}},
			false,
		},
		{
			"what the braces catch", rules.MatchSpec{Path: "/items/{user}", Attributes: map[string]rules.Pattern{"user": "alex"}},
			request{path: "/items/alex", attributes: attributes{"user": "eve"}},
			true,
		},
		{
			"what the braces do not catch", rules.MatchSpec{Path: "/items/{user}", Attributes: map[string]rules.Pattern{"user": "alex"}},
			request{path: "/items/eve", attributes: attributes{"user": "alex"}},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			matches := compileMatch(t, c.match).Match(nil, &c.request, time.Now)
			if got := len(matches) == 1; got != c.want {
				t.Errorf("match %+v of %+v: %v, want %v", c.match, c.request, got, c.want)
			}
		})
	}
}

func TestAllRulesThatMatchApplyInTheirOrder(t *testing.T) {
	var spec rules.Spec
	for _, r := range []struct {
		name  string
		match rules.MatchSpec
	}{
		{"rest", rules.MatchSpec{Path: "/items/{what...}"}},
		{"everything", rules.MatchSpec{}},
		{"item", rules.MatchSpec{Path: "/items/{user}"}},
		{"alex", rules.MatchSpec{Path: "/items/alex"}},
		{"posts", rules.MatchSpec{Methods: []string{"POST"}}},
		{"edit", rules.MatchSpec{Path: "/items/{id}/edit"}},
		{"any", rules.MatchSpec{Path: "/{any...}"}},
	} {
		spec.Rules = append(spec.Rules, rules.RuleSpec{Name: r.name, Match: r.match, Limits: tenPerMinute})
	}
	set := compile(t, spec)
	for _, c := range []struct {
		method, path string
		want         []string
	}{
		{"GET", "/", []string{"everything", "any"}},
		{"GET", "/items", []string{"rest", "everything", "any"}},
		{"GET", "/items/alex", []string{"rest", "everything", "item", "alex", "any"}},
		{"POST", "/items/eve", []string{"rest", "everything", "item", "posts", "any"}},
		{"GET", "/items/alex/edit", []string{"rest", "everything", "edit", "any"}},
		{"POST", "/other", []string{"everything", "posts", "any"}},
	} {
		before := []rules.Match{{Override: 7}}
		got := set.Match(before, &request{method: c.method, path: c.path}, time.Now)
		if got[0].Override != 7 {
			t.Errorf("%s %s: what was in dst is gone", c.method, c.path)
		}
		if got := names(got[1:]); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v", c.method, c.path, got, c.want)
		}
	}
}

func TestWhatBracesCatch(t *testing.T) {
	for _, c := range []struct{ template, path, key, want string }{
		{"/items/{user}", "/items/alex", "user", "user=alex"},
		{"/items/{user}", "/items/%61lex;x=1/", "user", "user=alex"},
		{"/{a}/{b}/{c}", "/1/2/3", "c", "c=3"},
		{"/files/{path...}", "/files/a/b", "path", "path=a/b"},
		{"/files/{name...}", "/files", "name", `name=""`},
		{"/{all...}", "/", "all", `all=""`},
		{"/{all...}", "/a//b/", "all", "all=a/b"},
		{"/items/{user}", "/items//eve", "path", "path=/items/eve"},
	} {
		set := compileMatch(t, rules.MatchSpec{Path: c.template}, c.key)
		matches := set.Match(nil, &request{path: c.path, attributes: attributes{"user": "wrong"}}, time.Now)
		if len(matches) != 1 {
			t.Errorf("%s does not match %s", c.template, c.path)
		} else if got := rules.DescribeKey(matches[0].Key); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.template, c.path, got, c.want)
		}
	}
}

// Many rules that differ in one exact value are found by an index. It must
// give what trying them all gives.
func TestIndexedRules(t *testing.T) {
	exactly := func(name, value string) map[string]rules.Pattern {
		return map[string]rules.Pattern{name: rules.Pattern(value), "env": "prod"}
	}
	var spec rules.Spec
	add := func(name string, m rules.MatchSpec) {
		spec.Rules = append(spec.Rules, rules.RuleSpec{Name: name, Match: m, Limits: tenPerMinute})
	}
	for _, v := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		add("tenant-"+v, rules.MatchSpec{Attributes: exactly("tenant", v)})
		add("host-"+v, rules.MatchSpec{Host: v + ".example.com"})
		add("method-"+v, rules.MatchSpec{Methods: []string{"POST"}, Attributes: exactly("tenant", v)})
		add("item-"+v, rules.MatchSpec{Path: "/items/{tenant}", Attributes: exactly("tenant", v)})
		add("plan-"+v, rules.MatchSpec{Attributes: exactly("plan", v)})
	}
	add("some", rules.MatchSpec{Attributes: map[string]rules.Pattern{"tenant": "*"}})
	set := compile(t, spec)

	for _, c := range []struct {
		request request
		want    []string
	}{
		{request{}, []string{}},
		{request{attributes: attributes{"tenant": "c"}}, []string{"some"}},
		{request{attributes: attributes{"tenant": "c", "env": "prod"}}, []string{"tenant-c", "some"}},
		{request{method: "POST", host: "b.example.com", attributes: attributes{"tenant": "c", "env": "prod"}}, []string{"host-b", "tenant-c", "method-c", "some"}},
		{request{path: "/items/d", attributes: attributes{"tenant": "c", "env": "prod"}}, []string{"tenant-c", "item-d", "some"}},
		{request{attributes: attributes{"plan": "j", "env": "prod"}}, []string{"plan-j"}},
		{request{attributes: attributes{"plan": "z", "tenant": "z", "env": "prod"}}, []string{"some"}},
	} {
		if got := names(set.Match(nil, &c.request, time.Now)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.request, got, c.want)
		}
	}
}

func TestAttributesAreOnlyAskedForWhenARuleDependsOnThem(t *testing.T) {
	set := compile(t, rules.Spec{Rules: []rules.RuleSpec{
		{Name: "login", Match: rules.MatchSpec{Methods: []string{"POST"}, Path: "/login", Attributes: map[string]rules.Pattern{"client": "app"}}, Key: []string{"user|ip"}, Limits: tenPerMinute},
		{Name: "items", Match: rules.MatchSpec{Path: "/items/{user}"}, Key: []string{"user"}, Limits: tenPerMinute},
	}})
	for _, c := range []struct {
		request request
		want    []string
	}{
		{request{method: "POST", path: "/other"}, []string{}},
		{request{method: "GET", path: "/login"}, []string{}},
		{request{method: "POST", path: "/login"}, []string{"client"}},
		{request{method: "POST", path: "/login", attributes: attributes{"client": "app", "user": "alex"}}, []string{"client", "user"}},
		{request{method: "POST", path: "/login", attributes: attributes{"client": "app"}}, []string{"client", "user", "ip"}},
		{request{path: "/items/alex"}, []string{}},
	} {
		c.request.asked = []string{}
		set.Match(nil, &c.request, time.Now)
		if !slices.Equal(c.request.asked, c.want) {
			t.Errorf("%s %s asked for %v, want %v", c.request.method, c.request.path, c.request.asked, c.want)
		}
	}
}
