package rules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/rules"
)

// Every way to write a path so that a limit might not see it.
func TestNormalizePath(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"/items/alex", "/items/alex"},
		{"/", "/"},
		{"", "/"},
		{"items/alex", "/items/alex"},
		{"*", "/*"},
		{"/Items/ALEX", "/Items/ALEX"},
		{"/items/alex/", "/items/alex"},
		{"//items///alex//", "/items/alex"},
		{"/./items/./alex/.", "/items/alex"},
		{"/x/../items/alex", "/items/alex"},
		{"/items/x/..", "/items"},
		{"/../../items/alex", "/items/alex"},
		{"/items/../..", "/"},
		{"/items/...", "/items/..."},
		{"/items/.alex", "/items/.alex"},
		{"/items/..alex", "/items/..alex"},
		{"/items/%61lex", "/items/alex"},
		{"/items/%2e%2e/items/alex", "/items/alex"},
		{"/items/%2E/alex", "/items/alex"},
		{"/items/.%2e/items/alex", "/items/alex"},
		{"/items%2falex", "/items/alex"},
		{"/items%2Falex", "/items/alex"},
		{"/items/x%2f..%2falex", "/items/alex"},
		{"/items/alex;x=1", "/items/alex"},
		{"/items;v=2/alex;a;b", "/items/alex"},
		{"/items/x/..;/alex", "/items/alex"},
		{"/items/;x=1/alex", "/items/alex"},
		{"/items/alex%3bx=1", "/items/alex"},
		{"/items/%2e%2e/items//alex;x=1/", "/items/alex"},
		{"/items/alex?x=/../..", "/items/alex"},
		{"/items/alex#top", "/items/alex"},
		{"/items/alex%3fx=1", "/items/alex?x=1"},
		{"/items/%2561lex", "/items/%61lex"},
		{"/items/100%", "/items/100%"},
		{"/items/%zz%4", "/items/%zz%4"},
		{"/items/%%61", "/items/%a"},
		{`/items\alex`, `/items\alex`},
		{"/items%5calex", `/items\alex`},
		{"/items/%ff\xfe", "/items/\xff\xfe"},
		{"/items/%c0%ae%c0%ae", "/items/\xc0\xae\xc0\xae"},
		{"/items/%00", "/items/\x00"},
		{"/items/caf%C3%A9", "/items/café"},
		{"/items/a+b", "/items/a+b"},
		{"/items/a%20b", "/items/a b"},
	} {
		if got := rules.NormalizePath(c.raw); got != c.want {
			t.Errorf("NormalizePath(%q) = %q, want %q", c.raw, got, c.want)
		}
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, seed := range []string{
		"", "/", "/items/alex", "/items/%2e%2e/items//alex;x=1/", "/a/./../b?c#d", "%2f%2F..;", "/\xff%00%", "/...//.", "/%25%3f%23%3b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		path := rules.NormalizePath(raw)
		if !strings.HasPrefix(path, "/") {
			t.Fatalf("%q does not begin with a slash", path)
		}
		if strings.Contains(path, ";") {
			t.Errorf("%q has parameters", path)
		}
		if path != "/" {
			segments := strings.Split(path[1:], "/")
			if slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
				t.Errorf("%q has a segment that should be gone", path)
			}
		}
		// What was decoded is not decoded again, so it must be encoded first.
		encoded := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(path)
		if again := rules.NormalizePath(encoded); again != path {
			t.Errorf("%q becomes %q", path, again)
		}
	})
}

// Whatever template compiles matches the path that it says, with any text in
// place of its braces, and catches that text.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"/", "/items/{user}", "/files/{path...}", "/{a}/{b}/{c...}", "//", "/{", "/}", "/{}", "/{...}", "/{a...}/b", "/a{b}", "/%41", "/x;y", "/../a", "/{plan}", "/Entity/#/{x...}", "/1/#", "/\x00\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, template string) {
		set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{
			Name: "rule", Match: rules.MatchSpec{Path: template}, Limits: tenPerMinute,
		}}})
		if set == nil {
			if len(problems) != 1 || problems[0].Path != "rules[0].match.path" {
				t.Errorf("%q: problems %v, want one of rules[0].match.path", template, problems)
			}
			return
		}
		path := strings.NewReplacer("%", "%25", "#", "%23").Replace(template)
		for strings.Contains(path, "{") {
			before, rest, _ := strings.Cut(path, "{")
			_, after, _ := strings.Cut(rest, "}")
			path = before + "alex" + after
		}
		if got := set.Match(nil, &request{path: path}, time.Now); len(got) != 1 {
			t.Errorf("%q does not match %q", template, path)
		}
		if template != "" && strings.Trim(template, "/") != "" && !strings.Contains(template, "...}") {
			if got := set.Match(nil, &request{path: path + "/more"}, time.Now); len(got) != 0 {
				t.Errorf("%q matches %q", template, path+"/more")
			}
		}
	})
}
