package rules_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/rules"
)

// repository is how the paths of a service are named that has syn123 for its ids
// and its version in front.
var repository = rules.PathSpec{
	After: "v1",
	IDs:   []string{"numbers", "uuids", "hashes", "syn*"},
	Names: []string{"/entity/alias", "/evaluation/name", "md5"},
}

func pathNames(t testing.TB, spec rules.PathSpec) *rules.PathNames {
	t.Helper()
	names, problems := rules.NewPathNames(spec)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return names
}

// Every way to write a path so that a limit on its API might not see it.
func TestAPI(t *testing.T) {
	names := pathNames(t, repository)
	for _, c := range []struct{ raw, want string }{
		{"/repo/v1/entity/syn1571204/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/syn2785825/version/1/filepreview", "/entity/#/version/#/filepreview"},
		{"/repo/v1/entity/md5/0b3ed0a1b2c3d4e5f60718293a4b5c6d", "/entity/md5/#"},
		{"/repo/v1/evaluation/name/x", "/evaluation/name/#"},
		{"/repo/v1/entity/alias/auditData", "/entity/alias/#"},
		{"/services-repository-develop-SNAPSHOT/repo/v1/entity", "/entity"},
		{"/repo/v1/entity", "/entity"},
		{"/repo/v1/v1/entity", "/v1/entity"},
		{"/repo/v1", "/"},
		{"/repo/v1/", "/"},
		{"/entity/syn1", "/entity/#"}, // no v1: all of it
		{"/v1entity/1", "/v1entity/#"},

		{"/repo/v1/entity/syn1571204/bundle/", "/entity/#/bundle"},
		{"/repo//v1///entity//syn1571204//bundle", "/entity/#/bundle"},
		{"/repo/v1/entity;x=1/syn1571204;y=2/bundle;z", "/entity/#/bundle"},
		{"/repo/v1/./entity/x/../syn1571204/bundle", "/entity/#/bundle"},
		{"/repo/v1/%65ntity/s%79n1571204%2fbundle", "/entity/#/bundle"},
		{"/repo/%76%31/entity/syn1571204/bundle", "/entity/#/bundle"},
		{"/Repo/V1/Entity/SYN1571204/Bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/syn1571204.4/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/syn%31571204/bundle?x=/y", "/entity/#/bundle"},
		{"/repo/v1/entity/%20syn1571204%20/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/%23/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/1571204/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/+1571204/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/-1/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/٣٤/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/123e4567-e89b-12d3-a456-426614174000/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/%7B123E4567-E89B-12D3-A456-426614174000%7D/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/507f1f77bcf86cd799439011/bundle", "/entity/#/bundle"},
		{"/repo/v1/Entity/Alias/auditData", "/entity/alias/#"},
		{"/repo/v1/entity/alias/#", "/entity/alias"}, // a fragment
		{"/repo/v1/project/md5/of", "/project/md5/#"},

		{"/repo/v1/entity/syn/bundle", "/entity/syn/bundle"},
		{"/repo/v1/entity/synapse/bundle", "/entity/synapse/bundle"},
		{"/repo/v1/entity/syn1x/bundle", "/entity/syn1x/bundle"},
		{"/repo/v1/entity/syn1..2/bundle", "/entity/syn1..2/bundle"},
		{"/repo/v1/entity/1.2.3/bundle", "/entity/#/bundle"},
		{"/repo/v1/entity/1./bundle", "/entity/1./bundle"},
		{"/repo/v1/entity/deadbeef/bundle", "/entity/deadbeef/bundle"},
		{"/repo/v1/project/alias/auditData", "/project/alias/auditdata"},
		{"/repo/v1/evaluation/12/name/x", "/evaluation/#/name/x"},
		{"/", "/"},
		{"", "/"},
	} {
		if got := names.API(c.raw); got != c.want {
			t.Errorf("API(%q) = %q, want %q", c.raw, got, c.want)
		}
	}
	t.Run("without a word of paths", func(t *testing.T) {
		names := pathNames(t, rules.PathSpec{})
		for raw, want := range map[string]string{
			"/repo/v1/entity/12/x":                                "/repo/v1/entity/#/x",
			"/repo/v1/entity/syn12/x":                             "/repo/v1/entity/syn12/x",
			"/u/123e4567-e89b-12d3-a456-426614174000":             "/u/#",
			"/commit/da39a3ee5e6b4b0d3255bfef95601890afd80709/no": "/commit/#/no",
		} {
			if got := names.API(raw); got != want {
				t.Errorf("API(%q) = %q, want %q", raw, got, want)
			}
		}
	})
	t.Run("without ids", func(t *testing.T) {
		if got := pathNames(t, rules.PathSpec{IDs: []string{}}).API("/A/12"); got != "/a/12" {
			t.Errorf("API = %q, want /a/12", got)
		}
	})
}

var shownAPI = regexp.MustCompile("(?m)^\\| `(/[^`]*)` \\| `(/[^`]*)` \\|$")

// The manual shows what is so.
func TestAPIsOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../docs/rules-file.md")
	if err != nil {
		t.Fatal(err)
	}
	names := pathNames(t, rules.PathSpec{After: "v1", IDs: []string{"numbers", "uuids", "hashes", "syn*"}, Names: []string{"/entity/alias", "md5"}})
	shown := shownAPI.FindAllStringSubmatch(string(text), -1)
	if len(shown) < 5 {
		t.Errorf("the manual shows %d paths with their APIs, want 5", len(shown))
	}
	for _, row := range shown {
		if got := names.API(row[1]); got != row[2] {
			t.Errorf("API(%q) = %q, the manual says %q", row[1], got, row[2])
		}
	}
}

func FuzzAPI(f *testing.F) {
	for _, seed := range []string{
		"", "/", "/entity/syn123/x", "/Entity//SYN1.2;x/%23/alias/y", "/entity/alias/Name/md5/q", "/\xff\xfe/İ/K/٣", "/-/+/./..", "/{123e4567-e89b-12d3-a456-426614174000}",
	} {
		f.Add(seed, "v1")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, raw, after string) {
		spec := repository
		spec.After = after
		names, problems := rules.NewPathNames(spec)
		if names == nil {
			if len(problems) != 1 || problems[0].Path != "paths.after" {
				t.Errorf("after %q: problems %v, want one of paths.after", after, problems)
			}
			return
		}
		path, api := rules.NormalizePath(raw), names.API(raw)
		if !strings.HasPrefix(api, "/") || len(api) > len(path) {
			t.Fatalf("%q of %q does not begin with a slash, or is longer", api, path)
		}
		// Named once, it has its name: behind after, nothing is cut off again.
		spec.After = ""
		encoded := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(api)
		if again := pathNames(t, spec).API(encoded); again != api {
			t.Errorf("%q becomes %q", api, again)
		}
		for _, r := range api {
			if 'A' <= r && r <= 'Z' {
				t.Fatalf("%q has the letter %c", api, r)
			}
		}
	})
}

// A rule for an API is found by every spelling of it, by a template or by its name.
func TestMatchAPI(t *testing.T) {
	set := compile(t, rules.Spec{Paths: repository, Rules: []rules.RuleSpec{
		{Name: "bundle", Match: rules.MatchSpec{Path: "/Entity/#/Bundle"}, Key: []string{"user", "api"}, Limits: tenPerMinute},
		{Name: "by-name", Match: rules.MatchSpec{Attributes: map[string]rules.Pattern{"api": "/entity/#/BUNDLE"}}, Limits: tenPerMinute},
		{Name: "below", Match: rules.MatchSpec{Attributes: map[string]rules.Pattern{"api": "/Entity/*"}}, Limits: tenPerMinute},
		{Name: "caught", Match: rules.MatchSpec{Path: "/{kind}/#/{rest...}"}, Key: []string{"kind", "rest"}, Limits: tenPerMinute},
		{Name: "path", Match: rules.MatchSpec{Path: "/repo/v1/{rest...}"}, Key: []string{"rest"}, Limits: tenPerMinute},
	}})
	for _, c := range []struct {
		path string
		want []string
	}{
		{"/repo/v1/entity/syn123/bundle", []string{
			"bundle: user=alex api=/entity/#/bundle", "by-name: all requests", "below: all requests",
			"caught: kind=entity rest=bundle", "path: rest=entity/syn123/bundle",
		}},
		{"/file/v1/Entity;x/SYN9.1/bundle/", []string{
			"bundle: user=alex api=/entity/#/bundle", "by-name: all requests", "below: all requests", "caught: kind=entity rest=bundle",
		}},
		{"/entity/name/bundle", []string{"below: all requests"}},
		{"/entity", []string{}},
	} {
		got := []string{}
		for _, m := range set.Match(nil, &request{method: "GET", path: c.path, attributes: attributes{"user": "alex"}}, time.Now) {
			got = append(got, m.Rule.Name+": "+rules.DescribeKey(m.Key))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
}

func TestProblemsOfAPIs(t *testing.T) {
	api := func(name string) rules.Spec {
		return rules.Spec{Paths: repository, Rules: []rules.RuleSpec{{Name: "rule", Match: rules.MatchSpec{Attributes: map[string]rules.Pattern{"api": rules.Pattern(name)}}, Limits: tenPerMinute}}}
	}
	path := func(template string) rules.Spec {
		return rules.Spec{Paths: repository, Rules: []rules.RuleSpec{{Name: "rule", Match: rules.MatchSpec{Path: template}, Limits: tenPerMinute}}}
	}
	const form = "is the name of no API; paths are brought into one form, with # for ids, before they are matched: write"
	for _, c := range []struct {
		spec rules.Spec
		want []string
	}{
		{api("entity"), []string{`rules[0].match.attributes.api: "entity" does not begin with a slash; write "/entity"`}},
		{api("/entity/syn1"), []string{`rules[0].match.attributes.api: "/entity/syn1" ` + form + ` "/entity/#"`}},
		{api("/repo/v1/entity/#"), []string{`rules[0].match.attributes.api: "/repo/v1/entity/#" ` + form + ` "/entity/#"`}},
		{api("/entity/#/"), []string{`rules[0].match.attributes.api: "/entity/#/" ` + form + ` "/entity/#"`}},
		{api("/entity'; DROP TABLE stint_rule; --"), []string{`rules[0].match.attributes.api: "/entity'; DROP TABLE stint_rule; --" ` + form + ` "/entity'"`}},
		{api("/entity/{id}"), []string{`rules[0].match.attributes.api: "/entity/{id}" has braces; write # where an id is, or match by a path template`}},
		{path("/entity/syn1/#"), []string{`rules[0].match.path: "/entity/syn1/#" has the id "syn1" beside a #; write # for it, too`}},
		{path("/entity/alias/x/#"), []string{`rules[0].match.path: "/entity/alias/x/#" has the id "x" beside a #; write # for it, too`}},
		{path("/entity/a#"), []string{`rules[0].match.path: "/entity/a#" has a # in "a#"; it stands for a whole segment that is an id`}},
		{path("/{api}"), []string{`rules[0].match.path: "/{api}" has {api}, which is the name of the API that is called; take another name`}},
		{rules.Spec{Paths: rules.PathSpec{After: "/v1/", IDs: []string{"number", "*", "syn*", "syn*"}, Names: []string{"", "a/b", "/a/", "/a;b"}}}, []string{
			`paths.after: "/v1/" is not a segment; a text between two slashes of a path, such as v1, is allowed`,
			`paths.ids[3]: "syn*" is there already; leave one out`,
			`paths.ids[0]: "number" is unknown; numbers, uuids, hashes, or a prefix with * behind it, such as syn*, is allowed`,
			`paths.ids[1]: "*" has no prefix before the *, or one that no segment has; a prefix such as syn* is allowed`,
			`paths.names[0]: "" is not what a name stands behind; a segment such as alias, or all of an API such as /entity/alias, is allowed`,
			`paths.names[1]: "a/b" is not what a name stands behind; a segment such as alias, or all of an API such as /entity/alias, is allowed`,
			`paths.names[2]: "/a/" is not what a name stands behind; a segment such as alias, or all of an API such as /entity/alias, is allowed`,
			`paths.names[3]: "/a;b" is not what a name stands behind; a segment such as alias, or all of an API such as /entity/alias, is allowed`,
		}},
	} {
		_, problems := rules.Compile(c.spec)
		var got []string
		for _, p := range problems {
			got = append(got, p.Error())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
