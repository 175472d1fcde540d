package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/rules"
)

// kinds has a field of every kind that the decoder knows.
type kinds struct {
	Text     string                   `yaml:"text"`
	Number   int                      `yaml:"number"`
	Long     int64                    `yaml:"long"`
	Truth    bool                     `yaml:"truth"`
	Span     rules.Duration           `yaml:"span"`
	Instant  time.Time                `yaml:"instant"`
	Level    string                   `yaml:"level" enum:"low,high"`
	Code     int                      `yaml:"code" enum:"429,503"`
	Texts    []string                 `yaml:"texts"`
	Patterns map[string]rules.Pattern `yaml:"patterns"`
	Lists    map[string][]string      `yaml:"lists"`
	Pointer  *int64                   `yaml:"pointer"`
	Inner    *inner                   `yaml:"inner"`
	Inners   []inner                  `yaml:"inners"`
	inlined  `yaml:",inline"`
}

type inner struct {
	Name string `yaml:"name" required:"true"`
	Next string `yaml:"next"`
}

type inlined struct {
	Below string `yaml:"below"`
}

func TestDecode(t *testing.T) {
	five := int64(5)
	for _, tt := range []struct {
		text string
		want kinds
	}{
		{"text: plain", kinds{Text: "plain"}},
		{"text: 'quoted'", kinds{Text: "quoted"}},
		{"text: |\n  two\n  lines", kinds{Text: "two\nlines"}},
		{"text: 42", kinds{Text: "42"}},
		{"text: 1.50", kinds{Text: "1.50"}},
		{"text: yes", kinds{Text: "yes"}},
		{"text: true", kinds{Text: "true"}},
		{"text: 2027-01-31", kinds{Text: "2027-01-31"}},
		{"text: ''", kinds{}},
		{"text: !!str 42", kinds{Text: "42"}},
		{"number: -7", kinds{Number: -7}},
		{"long: 1_000_000", kinds{Long: 1_000_000}},
		{"long: 0", kinds{}},
		{"truth: true", kinds{Truth: true}},
		{"truth: True", kinds{Truth: true}},
		{"truth: false", kinds{}},
		{"span: 1m30s", kinds{Span: rules.Duration(90 * time.Second)}},
		{"instant: 2027-01-31T12:00:00Z", kinds{Instant: time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)}},
		{"level: high", kinds{Level: "high"}},
		{"code: 503", kinds{Code: 503}},
		{"texts: [a, 2, no]", kinds{Texts: []string{"a", "2", "no"}}},
		{"texts: one", kinds{Texts: []string{"one"}}},
		{"texts: []", kinds{Texts: []string{}}},
		{"patterns: {a: 1, 2: '', c: '*'}", kinds{Patterns: map[string]rules.Pattern{"a": "1", "2": "", "c": "*"}}},
		{"lists: {a: [x], b: y}", kinds{Lists: map[string][]string{"a": {"x"}, "b": {"y"}}}},
		{"pointer: 5", kinds{Pointer: &five}},
		{"inner: {name: a}", kinds{Inner: &inner{Name: "a"}}},
		{"inners: [{name: a}, {name: b, next: c}]", kinds{Inners: []inner{{Name: "a"}, {"b", "c"}}}},
		{"below: here", kinds{inlined: inlined{Below: "here"}}},
		{"texts: &t [a]\nlists: {x: *t}", kinds{Texts: []string{"a"}, Lists: map[string][]string{"x": {"a"}}}},
		{"text: &t a\nlevel: low\nbelow: *t", kinds{Text: "a", Level: "low", inlined: inlined{Below: "a"}}},
		{"&k text: a\ninner: {name: *k }", kinds{Text: "a", Inner: &inner{Name: "text"}}},
		{`{"text": "JSON", "texts": ["is", "YAML"]}`, kinds{Text: "JSON", Texts: []string{"is", "YAML"}}},
	} {
		got, problems := decodeKinds(tt.text)
		if len(problems) > 0 {
			t.Errorf("%s: %v", tt.text, problems)
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(kinds{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestDecodeProblems(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"text: [a]", "1:1: text: text is allowed here, not a list"},
		{"text:", `1:1: text: has no value; give it one or remove it; an empty text is ""`},
		{"text: !!binary aGk=", `1:1: text: has the tag "!!binary"; remove it, only plain values are allowed`},
		{"number: {}", "1:1: number: a number is allowed here, not a mapping"},
		{"number: 1 2", `1:1: number: "1 2" is not a whole number`},
		{"number: 1e400", `1:1: number: "1e400" is not a whole number`},
		{"number: 2.0", `1:1: number: "2.0" is not a whole number; write 2`},
		{"number: +1_000.0", `1:1: number: "+1_000.0" is not a whole number; write 1000`},
		{"long: -9223372036854775809", "1:1: long: -9223372036854775809 is out of bounds; -9223372036854775808 to 9223372036854775807 is allowed"},
		{"truth: on", `1:1: truth: "on" is not allowed; true or false is`},
		{"truth: [true]", "1:1: truth: true or false is allowed here, not a list"},
		{"span: 5", `1:1: span: "5" is not a duration; a number and a unit (us, ms, s, m, h, d, w) is allowed, such as 10s, 1m30s or 7d`},
		{"span: [5s]", "1:1: span: text is allowed here, not a list"},
		{"instant: 2027-01-31", `1:1: instant: "2027-01-31" is not a time; a date, a time and a zone as in 2027-01-31T00:00:00Z are allowed`},
		{"level: hgih", `1:1: level: "hgih" is not allowed (did you mean high?); allowed: low, high`},
		{"level: ''", `1:1: level: "" is not allowed; allowed: low, high`},
		{"level: [low]", "1:1: level: text is allowed here, not a list"},
		{"code: '429'", `1:1: code: "429" is text; write 429 without quotes`},
		{"texts: {a: b}", "1:1: texts: a list is allowed here, not a mapping"},
		{"texts:\n  - a\n  - [b]", "3:5: texts[1]: text is allowed here, not a list"},
		{"patterns: [a]", "1:1: patterns: a mapping is allowed here, not a list"},
		{"patterns: {a: {b: c}}", "1:12: patterns.a: text is allowed here, not a mapping"},
		{"patterns: {[a]: b}", "1:12: patterns: the name of a field must be text"},
		{"patterns: {a: 1, a: 2}", "1:18: patterns.a: is there twice, first on line 1; remove one"},
		{"pointer: ~", "1:1: pointer: has no value; give it one or remove it"},
		{"inner: {}", "1:8: inner.name: is required"},
		{"inner: {nmae: a}", "1:9: inner.nmae: unknown field (did you mean name?); allowed here: name, next"},
		{"inner: a", "1:1: inner: a mapping is allowed here, not text"},
		{"inners: {name: a}", "1:1: inners: a list is allowed here, not a mapping"},
		{"inners: [5, true]", "1:10: inners[0]: a mapping is allowed here, not a number\n1:13: inners[1]: a mapping is allowed here, not true or false"},
		{"inners: &loop [*loop]", "1:16: inners[0]: a mapping is allowed here, not a list"},
		{"other: 1", "1:1: other: unknown field; allowed here: text, number, long, truth, span, instant, level, code, texts, patterns, lists, pointer, inner, inners, below"},
		{"\"a\\nb\": 1", "1:1: a?b: unknown field; allowed here: text, number, long, truth, span, instant, level, code, texts, patterns, lists, pointer, inner, inners, below"},
	} {
		_, problems := decodeKinds(tt.text)
		var got []string
		for _, p := range problems {
			got = append(got, strings.TrimPrefix(p.Error(), "f:"))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
	}
}

func decodeKinds(text string) (kinds, []Problem) {
	var k kinds
	d := newDecoder(&problems{file: "f"})
	if root := parse([]byte(text), d.problems); root != nil {
		d.value("", root, root, reflect.ValueOf(&k).Elem())
	}
	return k, d.sorted()
}

// TestSyntaxLine: the line of a mistake is named, wherever what it is a part of began.
func TestSyntaxLine(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		line       int
	}{
		{"indentation", "a:\n  b: 1\n c: 2\n", 3},
		{"far below its mapping", "a: 1\n" + strings.Repeat("b: 1\n", 500) + "c d\ne: 1\n", 502},
		{"after a list over many lines", "a: [1,\n2,\n3]\nb: 'x\n  y'\nc: d: e\nf: 1\n", 6},
		{"open bracket", "a: 1\nb: [1\nc: 2\n", 2},
		{"open quote", "a: 1\nb: \"1\nc: 2\nd: 3\n", 2},
		{"two values in a line", "a: b: c\n", 1},
		{"unknown alias", "a: 1\nb: *c\n", 2},
		{"reserved character", "a: 1\nb: @c", 2},
		{"in the second document", "a: 1\n---\nb: 1\n c: 2\n", 4},
		{"Windows line ends", "a: 1\r\nb: 2\r\n c: 3\r\n", 3},
	} {
		p := &problems{}
		if root := parse([]byte(tt.text), p); root != nil || len(p.list) != 1 || p.list[0].Line != tt.line {
			t.Errorf("%s: got %v, want line %d", tt.name, p.list, tt.line)
		}
	}
}

func TestLocate(t *testing.T) {
	p := &problems{}
	root := parse([]byte(`a: 1
list:
  - name: x
    deep: &deep
      k.dotted: v
      k: w
  - other: *deep
text: one
`), p)
	for path, line := range map[string]int{
		"":                           1,
		"a":                          1,
		"b":                          1,
		"list":                       2,
		"list[0]":                    3,
		"list[0].name":               3,
		"list[0].gone.further":       3,
		"list[0].deep.k":             6,
		"list[0].deep.k.dotted":      5,
		"list[1].other":              7,
		"list[1].other.k":            6,
		"list[2]":                    2,
		"list[x]":                    2,
		"list[99999999999999999999]": 2,
		"text[0]":                    8,
	} {
		if got := locate(root, path).Line; got != line {
			t.Errorf("%q is on line %d, want %d", path, got, line)
		}
	}
}

// TestFollowsFromHole: what could not be read must not be judged, nor what
// depends on it; everything else is.
func TestFollowsFromHole(t *testing.T) {
	for _, tt := range []struct {
		hole, path string
		want       bool
	}{
		{"rules[0].limits[0].window", "rules[0].limits[0].window", true},
		{"rules[0].limits[0].window", "rules[0].limits[0].quota", false},
		{"rules[0].limits[0].window", "rules[0].cost", true},
		{"rules[0].limits[0].window", "rules[0].name", false},
		{"rules[0].limits", "rules[0].overrides[0].limits", true},
		{"rules[0].limits", "rules[1].overrides[0].limits", false},
		{"rules[0].status", "rules[0].cost", false},
		{"rules[0].match.path", "rules[1]", true}, // two rules that are the same
		{"rules[1].name", "rules[10].name", false},
		{"rules", "rules[0].name", true},
		{"log.level", "rules[0].name", false},
		{"identity.attributes.user[0].jwt", "identity.attributes.user[0]", true},
		{"identity.attributes.user[0].jwt", "identity.attributes.tenant[0].jwt", false},
		{"identity.attributes.user[0].api_key.keys_file", "identity.attributes.user[0].api_key.attribute", true},
		{"identity.trusted_proxies", "identity.attributes.user[0].header", true},
		{"plans.gold.members", "plans.gold", true},
		{"plans.gold.members", "plans.silver", false},
		{"", "rules[0].name", true},
	} {
		l := &loading{decoder: &decoder{holes: []string{tt.hole}}}
		if got := l.followsFromHole(tt.path); got != tt.want {
			t.Errorf("a problem at %s follows from a hole at %s: %v, want %v", tt.path, tt.hole, got, tt.want)
		}
	}
}
