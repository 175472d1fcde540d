package limittest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// hostile are distinct keys that a database may take for the same, cut short,
// or refuse.
var hostile = []string{
	"\x00", "\x00\x00", "a\x00", "a\x00b", "\x00a",
	"a", "A", "\u00df", "ss", "\u0130", "i", "I", "\u0131",
	" ", "a ", "a  ", " a", "a\t", "a\n", "a\r\n",
	"\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi",
	"\u200b", "a\u200b", "\ufeffa", "\u202ea", "\u00ad",
	"\xff", "\xfe", "\xff\xff", "\xc3", "\xc3\x28", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\ufffd",
	"'", "''", `"`, "`", `\`, `\\`, `\0`, "%", "_", "*", "?", "[a]", "{a}", "a:b", "a.b", "$a", ";--",
	"0", "00", "0.0", "1e0", "1", "null", "NULL", "true", "😀", "😁",
}

// longKeys differ only at the end of the longest key that there can be.
func longKeys() []string {
	stem := strings.Repeat("k", limit.MaxKeyLen-2)
	return []string{stem, stem + "a", stem + "A", stem + "a ", stem + "aa", stem + "ab", stem + "\xff\xff", stem + "\x00\x00"}
}

func hostileKeys(t *testing.T, h Harness) {
	s := h.open(t)
	keys := append(longKeys(), hostile...)
	for i, key := range keys {
		put(t, s, algo.State{A: int64(i + 1)}, algo.Day, key)
	}
	for i, key := range keys {
		if got, _ := look(t, s, key); got.A != int64(i+1) {
			t.Errorf("key %q holds what was put under %q", key, name(keys, got.A))
		}
	}
	for i, key := range keys {
		if i%2 == 0 {
			if err := s.Delete(timeout(t), key); err != nil {
				t.Errorf("delete of %q: %v", key, err)
			}
		}
	}
	for i, key := range keys {
		if got, _ := look(t, s, key); (got.A == 0) != (i%2 == 0) {
			t.Errorf("after every other key was deleted, %q holds %d", key, got.A)
		}
	}
	t.Run("out of bounds", func(t *testing.T) { refusedKeys(t, s) })
}

func name(keys []string, number int64) string {
	if number == 0 {
		return "(nothing)"
	}
	return keys[number-1]
}

func refusedKeys(t *testing.T, s limit.Store) {
	for _, key := range []string{"", strings.Repeat("k", limit.MaxKeyLen+1)} {
		keys := []string{"fine", key}
		for op, call := range keyedCalls(s, keys...) {
			if apart, ok := s.(limit.Scattered); ok && op == "update" && !apart.Together(keys) {
				continue
			}
			if fault := storeError(t, op, call(timeout(t)), limit.ErrKeyLen); fault.Sent {
				t.Errorf("%s of a key of %d bytes says that it was sent", op, len(key))
			}
			if got, _ := look(t, s, "fine"); !got.Equal(algo.State{}) {
				t.Errorf("%s of a key of %d bytes was refused, and the other key changed", op, len(key))
			}
		}
	}
}

func listing(t *testing.T, h Harness) {
	s := h.open(t)
	lister, ok := s.(limit.Lister)
	if !ok {
		t.Skip("the store is no limit.Lister")
	}
	want := map[string]algo.State{}
	keys := append(longKeys(), hostile...)
	for i := range 1200 { // more than a store would read at a time
		keys = append(keys, fmt.Sprintf("many %04d", i))
	}
	for i, key := range keys {
		want[key] = algo.State{A: int64(i + 1)}.WithEntries(key)
	}
	for some := range slices.Chunk(keys, 100) {
		writeAll(t, s, want, algo.Day, some...)
	}
	gone := map[string]algo.State{"deleted": {A: 1}, "many deleted": {A: 1}, "expired": {A: 1}, "many expired": {A: 1}}
	writeAll(t, s, gone, algo.Day, "deleted", "many deleted")
	if err := s.Delete(timeout(t), "deleted", "many deleted"); err != nil {
		t.Fatal(err)
	}
	writeAll(t, s, gone, algo.Millisecond, "expired", "many expired")
	h.pause(t, 2*time.Second)

	for _, prefix := range []string{"", "many ", "many 00", "a", "A", "\xff", "\xff\xff", "\x00", "%", "_", "*", "nothing begins so", keys[2]} {
		list(t, lister, prefix, want)
	}
	for range lister.List(timeout(t), "many ") {
		break // leaving early must not hold anything up
	}
	put(t, s, algo.State{A: 1}, algo.Day, "after a loop left early")
}

// list checks that prefix yields what it is to yield of all.
func list(t *testing.T, l limit.Lister, prefix string, all map[string]algo.State) {
	t.Helper()
	seen := map[string]bool{}
	for c, err := range l.List(timeout(t), prefix) {
		state, known := all[c.Key]
		switch {
		case err != nil:
			t.Fatalf("list of %q: %v", prefix, err)
		case seen[c.Key]:
			t.Errorf("list of %q yields %q twice", prefix, c.Key)
		case !known || !strings.HasPrefix(c.Key, prefix):
			t.Errorf("list of %q yields %q", prefix, c.Key)
		case !c.State.Equal(state):
			t.Errorf("list of %q yields %q with %s, want %s", prefix, c.Key, brief(c.State), brief(state))
		case c.TTL <= 0 || c.TTL > algo.Day:
			t.Errorf("list of %q yields %q with a TTL of %v, want more than 0 and at most 1d", prefix, c.Key, c.TTL)
		}
		seen[c.Key] = true
	}
	for key := range all {
		if strings.HasPrefix(key, prefix) && !seen[key] {
			t.Errorf("list of %q leaves out %q", prefix, key)
		}
	}
}
