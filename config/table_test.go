package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
)

// parsed is a file without problems.
func parsed(t testing.TB, text string) *config.File {
	t.Helper()
	f, problems := config.Parse("stint.yaml", []byte(text))
	if f == nil {
		t.Fatal(printed(problems))
	}
	return f
}

// The rules of the file stand before those of the table, and these by their ids.
// Of two that cannot stand beside each other the first holds.
func TestTable(t *testing.T) {
	f := parsed(t, `
version: 1
paths: {ids: [numbers, syn*]}
rules_from: {key: [tenant, user|ip]}
identity: {attributes: {tenant: [{header: {name: X-Tenant, unverified: true}}]}}
plans: {pro: {members: {tenant: acme}}}
rules:
  - {name: first, match: {path: /a}, limits: [{quota: 1, window: 1s}]}
  - {name: second, match: {path: /b}, limits: [{name: two, quota: 1, window: 1s}]}
`)
	plain := func(id int64, path string, calls, period int64) rules.Row {
		return rules.Row{ID: id, Enabled: true, Path: path, Calls: calls, PeriodMS: period}
	}
	full := func(id int64, text string) rules.Row { return rules.Row{ID: id, Enabled: true, Rule: text} }
	named := func(name string, r rules.Row) rules.Row {
		r.Name = name
		return r
	}
	off := plain(12, "nonsense", 1, 1)
	off.Enabled = false
	rows := []rules.Row{
		plain(3, "/Entity/#/Bundle", 10, 1500),
		named("first", plain(4, "/x", 1, 1000)),
		full(5, "name: two\nlimits: [{quota: 1, window: 1m}]"),
		named("five", plain(6, "/entity/#/bundle", 10, 1500)),
		named("pro", full(7, `{"name": "pro", "limits": [{"quota": 1, "window": "1m"}], "overrides": [{"plan": "pro", "exempt": true}]}`)),
		named("other", full(8, "name: pros\nlimits: [{quota: 1, window: 1m}]")),
		full(9, "name: clash\nmatch: {path: '/{tenant}/x'}\nlimits: [{quota: 1, window: 1m}]"),
		full(10, "name: bad\nkey: 'a b'\nlimits:\n  - {quota: x, window: 1}\n"),
		full(11, "name: [\n"),
		off,
		plain(13, "/entity/*", 3, 1000),
		plain(14, "/entity/*/x", 3, 1000),
		plain(15, "/entity/{id}", 3, 1000),
		plain(16, "/entity/syn12", 3, 1000),
		plain(17, "/entity", -1, 1000),
		plain(18, "/entity", 1, 0),
		full(19, strings.Repeat("#", 1<<20)),
		full(20, "name: fine\nlimits: [{quota: 1, window: 1m}]"),
		full(21, "--- {name: a}\n--- {name: b}"),
	}
	var table config.Table
	for range 2 { // the second time much of it is known
		set, problems := table.Compile(f, rows)
		var got []string
		for _, r := range set.Rules() {
			got = append(got, fmt.Sprintf("%d %s %v", r.Row, r.Name, r.Spec.Key))
		}
		if diff := cmp.Diff([]string{
			"0 first []", "0 second []", "3 rule-3 [tenant user|ip]", "7 pro []", "13 rule-13 [tenant user|ip]", "20 fine []",
		}, got); diff != "" {
			t.Errorf("the rules (-want +got):\n%s", diff)
		}
		got = nil
		for _, p := range problems {
			got = append(got, p.Error())
		}
		const form = "is the name of no API; paths are brought into one form, with # for ids, before they are matched: write"
		if diff := cmp.Diff([]string{
			`row 4: name: "first" is already the name of rules[0]`,
			`row 5: limits[0].name: "two" is already the name of rules[1].limits[0]; give this limit a name of its own`,
			`row 6: matches and counts exactly what rule "rule-3" does; put its limits into one rule`,
			`row 8: name: "other" is not the name of the row's rule, "pros"; make them the same`,
			`row 9: match.path: {tenant} is also the name of an identity attribute; rename one of them`,
			`row 10: limits[0].quota: line 4: "x" is not a whole number`,
			`row 10: limits[0].window: line 4: "1" is not a duration; a number and a unit (us, ms, s, m, h, d, w) is allowed, such as 10s, 1m30s or 7d`,
			`row 11: this is not YAML: did not find expected node content; look at the indentation, colons and quotes of this line and the one above it`,
			`row 14: path: "/entity/*/x" has a * that is not at its end; a value, a prefix with * behind it, * alone for present, or nothing for absent is allowed`,
			`row 15: path: "/entity/{id}" has braces; write # where an id is, or match by a path template`,
			`row 16: path: "/entity/syn12" ` + form + ` "/entity/#"`,
			`row 17: calls: -1 is negative; 0 (admit nothing) or more is allowed`,
			`row 18: period_ms: 0 is out of bounds; 1 to 31536000000 (365 days) is allowed`,
			`row 19: rule: has 1048576 bytes; at most 262144 are allowed, put callers that are alike into a plan`,
			`row 21: line 2: a second document begins here; the rule holds one, remove the --- or split it`,
		}, got); diff != "" {
			t.Errorf("the problems (-want +got):\n%s", diff)
		}
	}
	rows[3].Path, rows[0].Enabled = "/entity/#/bundle", false
	set, _ := table.Compile(f, rows)
	if r := set.Rules()[2]; r.Name != "five" || r.Row != 6 {
		t.Errorf("behind the file stands %s of row %d, want five of row 6: what comes first does not hold any more", r.Name, r.Row)
	}
}

// A rule of a table is one of the rules of a file.
func FuzzDecodeRule(f *testing.F) {
	for _, seed := range []string{
		"", "name: x", "- name: x", "name: x\nlimits: [{quota: 1, window: 1m}]", `{"name": "x", "key": ["a"], "limits": [{"quota": 1, "window": "1m", "burst": 2}]}`, "a: &a [*a]", "name: \x00", "---\n---",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, problems := config.DecodeRule(text)
		failed := false
		for _, p := range problems {
			failed = failed || !p.Warning
			if p.Message == "" || strings.ContainsAny(p.Message, "\n") && !strings.Contains(p.Message, "YAML") {
				t.Errorf("a problem that is told badly: %q", p.Error())
			}
		}
		if (spec == nil) != failed {
			t.Errorf("the rule is %v, and the problems %v", spec, problems)
		}
	})
}

// BenchmarkTable loads 10,000 rows: all of them, and when one has changed.
func BenchmarkTable(b *testing.B) {
	f := parsed(b, "version: 1")
	forms := map[string]func(id int64) rules.Row{
		"plain": func(id int64) rules.Row {
			return rules.Row{ID: id, Enabled: true, Path: fmt.Sprintf("/api%d/#/table/query", id), Calls: 10, PeriodMS: 60_000}
		},
		"full": func(id int64) rules.Row {
			return rules.Row{ID: id, Enabled: true, Rule: fmt.Sprintf("name: rule-%d\nmatch: {methods: POST, path: /api%d/#/table/query}\nkey: [user]\nlimits: [{quota: 10, window: 1m}]\n", id, id)}
		},
	}
	for name, form := range forms {
		rows := make([]rules.Row, 10_000)
		for i := range rows {
			rows[i] = form(int64(i + 1))
		}
		load := func(b *testing.B, table *config.Table) {
			if set, problems := table.Compile(f, rows); len(set.Rules()) != len(rows) || len(problems) > 0 {
				b.Fatal(problems)
			}
		}
		b.Run("form="+name+"/first", func(b *testing.B) {
			for b.Loop() {
				load(b, new(config.Table))
			}
		})
		b.Run("form="+name+"/again", func(b *testing.B) {
			var table config.Table
			load(b, &table)
			for b.Loop() {
				load(b, &table)
			}
		})
	}
}
