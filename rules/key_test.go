package rules_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// keyOf returns the key of a request with these attributes.
func keyOf(t testing.TB, set *rules.Set, a attributes) string {
	t.Helper()
	matches := set.Match(nil, &request{method: "GET", host: "Example.com:80", path: "//items/x", attributes: a}, time.Now)
	if len(matches) != 1 {
		t.Fatalf("%d matches, want 1", len(matches))
	}
	return matches[0].Key
}

func TestKey(t *testing.T) {
	long := strings.Repeat("x", 65)
	key := func(parts ...string) []string { return parts }
	for _, c := range []struct {
		name       string
		key        []string
		attributes attributes
		want       string
	}{
		{"none", nil, attributes{"user": "alex"}, "all requests"},
		{"one", key("user"), attributes{"user": "alex"}, "user=alex"},
		{"two", key("user", "ip"), attributes{"user": "alex", "ip": "192.0.2.7"}, "user=alex ip=192.0.2.7"},
		{"IPv6", key("ip"), attributes{"ip": "2001:db8::/64"}, "ip=2001:db8::/64"},
		{"missing", key("user"), nil, "user=-"},
		{"a dash", key("user"), attributes{"user": "-"}, `user="-"`},
		{"empty", key("user"), attributes{"user": ""}, `user=""`},
		{"first of two", key("user|ip"), attributes{"user": "alex", "ip": "192.0.2.7"}, "user=alex"},
		{"second of two", key("user|ip"), attributes{"ip": "192.0.2.7"}, "ip=192.0.2.7"},
		{"empty is passed over", key("user|ip"), attributes{"user": "", "ip": "192.0.2.7"}, "ip=192.0.2.7"},
		{"neither of two", key("user|ip"), nil, "user=-"},
		{"neither of two, the first empty", key("user|ip"), attributes{"user": ""}, `user=""`},
		{"spaces around the names", key(" user | ip "), attributes{"ip": "192.0.2.7"}, "ip=192.0.2.7"},
		{"built in", key("method", "host", "path"), attributes{"method": "x", "host": "x", "path": "x"}, "method=GET host=example.com path=/items/x"},
		{"hostile", key("user"), attributes{"user": "a b\n\x00\xff\"="}, `user="a b\n\x00\xff\"="`},
		{"looks like two", key("user"), attributes{"user": "alex ip=::1"}, `user="alex ip=::1"`},
		{"longest that is kept", key("user"), attributes{"user": long[:64]}, "user=" + long[:64]},
		{"hashed", key("user"), attributes{"user": long}, "user=sha256:9537c5fdf120..."},
		{"looks hashed", key("user"), attributes{"user": "sha256:9537c5fdf120..."}, `user="sha256:9537c5fdf120..."`},
		{
			"hashed as a whole", key("a", "b", "c", "d", "e", "f"),
			attributes{"a": long[:64], "b": long[:64], "c": long[:64], "d": long[:64], "e": long[:64], "f": long[:64]},
			"sha256:02c17074cd4e...",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := keyOf(t, compileMatch(t, rules.MatchSpec{}, c.key...), c.attributes)
			if got := rules.DescribeKey(key); got != c.want {
				t.Errorf("key %q is described as %s, want %s", key, got, c.want)
			}
		})
	}
}

// The longest key of the longest policy name still fits a store.
func TestMaxKey(t *testing.T) {
	policy := &limit.Policy{Name: strings.Repeat("p", limit.MaxNameLen)}
	var key []string
	a := attributes{}
	for i := range 8 {
		name := strings.Repeat(string(rune('a'+i)), 64)
		key = append(key, name)
		set := compileMatch(t, rules.MatchSpec{}, key...)
		for n := range 66 {
			a[name] = strings.Repeat("x", n)
			got := keyOf(t, set, a)
			if len(got) > rules.MaxKey {
				t.Fatalf("%d attributes, the last of %d bytes: a key of %d bytes, above %d", i+1, n, len(got), rules.MaxKey)
			}
			if n := len(limit.StoreKey(policy, got)); n > limit.MaxKeyLen {
				t.Fatalf("the store key has %d bytes, above %d", n, limit.MaxKeyLen)
			}
		}
	}
}

// Two callers share a key only if all that it is made of is equal: there is
// no way to write one value that reads as two, or as a hash, or as nothing.
func TestKeysAreInjective(t *testing.T) {
	set := compileMatch(t, rules.MatchSpec{}, "a", "b|c", "d")
	names := []string{"a", "b", "c", "d"}
	value := rapid.OneOf(
		rapid.StringMatching(`[abcd\x00\x01A]{0,3}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 60, 70), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.Uint8(), func(b byte) string { return string(rune(b)) }),
	)
	caller := rapid.Custom(func(t *rapid.T) attributes {
		a := attributes{}
		for _, name := range names {
			if rapid.Bool().Draw(t, "has "+name) {
				a[name] = value.Draw(t, name)
			}
		}
		return a
	})
	// what returns the attributes that the key must tell apart, unmistakably.
	what := func(a attributes) [3][3]string {
		of := func(name string) [3]string {
			if v, ok := a[name]; ok {
				return [3]string{name, "is", v}
			}
			return [3]string{name, "is missing"}
		}
		second := of("b")
		if a["b"] == "" && a["c"] != "" {
			second = of("c")
		}
		return [3][3]string{of("a"), second, of("d")}
	}
	rapid.Check(t, func(rt *rapid.T) {
		one, two := caller.Draw(rt, "one"), caller.Draw(rt, "two")
		// Often let them differ in one attribute only.
		for _, name := range names {
			if v, ok := one[name]; ok && rapid.Bool().Draw(rt, "same "+name) {
				two[name] = v
			}
		}
		same := keyOf(t, set, one) == keyOf(t, set, two)
		if want := what(one) == what(two); same != want {
			rt.Fatalf("keys of %q and %q are equal: %v, want %v", one, two, same, want)
		}
	})
}

func FuzzDescribeKey(f *testing.F) {
	set := compileMatch(f, rules.MatchSpec{}, "user", "ip|tenant")
	for _, a := range []attributes{nil, {"user": "alex", "ip": "::1"}, {"user": strings.Repeat("x", 100)}} {
		f.Add(keyOf(f, set, a))
	}
	for _, seed := range []string{"", "\x00", "\x04user", "\x04user\x05alex", "\x04user\x41short", "\x04user\x42", "\xff", "\x00" + strings.Repeat("h", 32)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		text := rules.DescribeKey(key)
		if text == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%q is described as %q", key, text)
		}
	})
}

func TestDescribeKeyOfSomethingElse(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"alex", `"alex"`},
		{"\x04user", `"\x04user"`},
		{"\x04user\x05alex", `"\x04user\x05alex"`},
		{"\x04user\x41short", `"\x04userAshort"`},
		{"\x04us r\x04alex", `"\x04us r\x04alex"`},
		{"\x04user\x43alex", `"\x04userCalex"`},
		{"\x00short", `"\x00short"`},
	} {
		if got := rules.DescribeKey(c.key); got != c.want {
			t.Errorf("%q is described as %s, want %s", c.key, got, c.want)
		}
	}
}

func TestKeyAttribute(t *testing.T) {
	set := compileMatch(t, rules.MatchSpec{}, "client", "user|ip")
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		caller    attributes
		attribute string
		want      string // "" for none
	}{
		{attributes{"client": "shop", "user": "alex"}, "client", "shop"},
		{attributes{"client": "shop", "user": "alex"}, "user", "alex"},
		{attributes{"client": "shop", "ip": "::1"}, "ip", "::1"},
		{attributes{"client": "shop", "ip": "::1"}, "user", ""},
		{attributes{"client": "shop", "user": "alex"}, "tenant", ""},
		{attributes{"user": "alex"}, "client", ""},
		{attributes{"client": "-"}, "client", `"-"`},
		{attributes{"client": "a b"}, "client", `"a b"`},
		{attributes{"client": "\xff"}, "client", `"\xff"`},
		{attributes{"client": long}, "client", rules.DescribeKey(keyOf(t, set, attributes{"client": long}))[len("client="):][:len("sha256:0123456789ab...")]},
	} {
		got, ok := rules.KeyAttribute(keyOf(t, set, c.caller), c.attribute)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s of %.20q is %q, %v; want %q", c.attribute, c.caller, got, ok, c.want)
		}
	}
	for _, key := range []string{"", "alex", "\x04user", "\x00" + strings.Repeat("h", 32)} {
		if got, ok := rules.KeyAttribute(key, "user"); ok {
			t.Errorf("%q is said to have the user %q", key, got)
		}
	}
}
