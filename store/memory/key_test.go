package memory

import (
	"hash/maphash"
	"strings"
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		name   string
		joined string
		want   storeKey
	}{
		{"made by StoreKey", "g\x05loginalice", storeKey{algorithm: 'g', policy: "login", rest: "alice"}},
		{"no rest", "g\x05login", storeKey{algorithm: 'g', policy: "login"}},
		{"no policy", "g\x00alice", storeKey{algorithm: 'g', rest: "alice"}},
		{"one byte", "g", storeKey{bare: true, rest: "g"}},
		{"length past the end", "g\x06login", storeKey{bare: true, rest: "g\x06login"}},
		{"longest policy", "g\xff" + strings.Repeat("p", 255) + "k", storeKey{algorithm: 'g', policy: strings.Repeat("p", 255), rest: "k"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := split(test.joined)
			if got != test.want {
				t.Errorf("split(%q) = %+v, want %+v", test.joined, got, test.want)
			}
			if got.len() != len(test.joined) {
				t.Errorf("len() = %d, want %d", got.len(), len(test.joined))
			}
		})
	}
}

// A key is found by its parts just as by the whole, and by nothing else.
func FuzzStoreKey(f *testing.F) {
	f.Add("login", "alice", "g\x05loginalice")
	f.Add("", "", "g\x00")
	f.Add("login", "alice", "g\x04loginalice")
	f.Add("login", "alice", "s\x05loginalice")
	f.Add("a", "b", "g")
	f.Add("a", "b", "g\xffb")
	seed := maphash.MakeSeed()
	f.Fuzz(func(t *testing.T, policy, rest, other string) {
		policy = policy[:min(len(policy), limit.MaxNameLen)]
		parts := storeKey{algorithm: algo.GCRA.ID, policy: policy, rest: rest}
		joined := limit.StoreKey(&limit.Policy{Name: policy}, rest)
		if got := split(joined); got != parts || got.hash(seed) != parts.hash(seed) {
			t.Errorf("split(%q) = %+v, want %+v and its hash", joined, got, parts)
		}
		if got := parts.join(); got != joined || parts.len() != len(joined) {
			t.Errorf("join() = %q, len() = %d, want %q", got, parts.len(), joined)
		}
		arbitrary := split(other)
		if got := arbitrary.join(); got != other {
			t.Errorf("split(%q) joins to %q", other, got)
		}
		if arbitrary.is(joined) != (other == joined) || parts.is(other) != (other == joined) {
			t.Errorf("%q and %q: is does not tell whether they are the same", other, joined)
		}
	})
}
