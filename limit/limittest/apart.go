package limittest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// mostTried bounds the search for keys that go together. A Redis Cluster has
// 16,384 slots, so about 64 of so many keys lie in the slot of the first.
const mostTried = 1 << 20

// joined returns n keys that s can change together. From a Scattered store,
// where they have to be looked for, it returns 2 to 8; if there are no two, the
// test is skipped.
func joined(t testing.TB, s limit.Store, n int) (keys []string) {
	t.Helper()
	apart, scattered := s.(limit.Scattered)
	if scattered {
		n = min(n, 8)
	}
	for i := 0; i < mostTried && len(keys) < n; i++ {
		keys = append(keys, fmt.Sprint("key ", i*7919))
		if scattered && !apart.Together(keys) {
			keys = keys[:len(keys)-1]
		}
	}
	if len(keys) < 2 {
		t.Skipf("of %d keys no two can be changed together", mostTried)
	}
	return keys
}

// writeAll puts states under their keys, in one update if s can do that.
func writeAll(t testing.TB, s limit.Store, states map[string]algo.State, ttl algo.Ticks, keys ...string) {
	t.Helper()
	if _, scattered := s.(limit.Scattered); scattered {
		for _, key := range keys {
			put(t, s, states[key], ttl, key)
		}
		return
	}
	update(t, s, func(cells []limit.Cell) {
		for i := range cells {
			cells[i].State, cells[i].TTL = states[cells[i].Key], ttl
		}
	}, keys...)
}

// scattered checks what a Scattered store says of keys. That it can do what it
// says is for the properties of several keys to find out.
func scattered(t *testing.T, h Harness) {
	s := h.open(t)
	apart, ok := s.(limit.Scattered)
	if !ok {
		t.Skip("the store is no limit.Scattered: it can change any keys together")
	}
	for _, key := range append(longKeys(), hostile...) {
		if !apart.Together([]string{key}) {
			t.Errorf("%q is not together with itself", key)
		}
	}
	keys := joined(t, s, 8)
	for i := range keys {
		for j := range i {
			for _, pair := range [][]string{{keys[i], keys[j]}, {keys[j], keys[i]}} {
				if !apart.Together(pair) {
					t.Errorf("%q go together, but %q do not", keys, pair)
				}
			}
		}
	}
	reversed := slices.Clone(keys)
	slices.Reverse(reversed)
	if !apart.Together(reversed) {
		t.Errorf("%q go together, but not in the order %q", keys, reversed)
	}
}
