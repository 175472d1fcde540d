package replay

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzJSON holds the parser against encoding/json: what that accepts is read
// to the same effect. The parser accepts more, since it does not look at the
// grammar of what it passes over.
func FuzzJSON(f *testing.F) {
	f.Add(`{"time":971186136.5,"user":"al\u20acice","a":{"b":[1,{"c":"}"}],"d":"e"}}`)
	f.Add(`{"time":"2000-10-10T13:55:36Z","user":"\uD83D\uDE00\uD800","a":null}`)
	f.Add(`{"time":1e3,"user":{"x":1},"a":{"d":-1}}`)
	f.Fuzz(func(t *testing.T, line string) {
		p, err := newJSONParser(map[string]string{"d": "a.d"})
		if err != nil {
			t.Fatal(err)
		}
		var got entry
		err = p.parse(line, &got)
		if err == nil && got.at < 0 {
			t.Errorf("before 1970: %v", got.at)
		}
		var want map[string]any
		if json.Unmarshal([]byte(line), &want) != nil || want == nil || !utf8.ValidString(line) || maybeTwice(line) {
			return
		}
		if err == errJSONSyntax || err == errJSONObject || err == errJSONAfter {
			t.Fatalf("%q: %v", line, err)
		}
		if user, ok := want["user"].(string); ok && err == nil && got.user != user && user != "-" {
			t.Errorf("%q: user %q, want %q", line, got.user, user)
		}
	})
}

// maybeTwice reports whether the name user may be there twice: the library
// takes the last, the parser both in turn, and an escaped name counts, too.
func maybeTwice(line string) bool {
	return strings.Count(line, "user") > 1 || strings.Contains(line, `\u00`)
}
