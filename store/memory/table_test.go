package memory

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"testing"

	"github.com/stint-dev/stint/limit/algo"
	"pgregory.net/rapid"
)

// The table holds what a map would hold, whatever the hashes: a mask makes
// many keys share a home, a tag or a whole hash.
func TestTableIsAMap(t *testing.T) {
	seed := maphash.MakeSeed()
	rapid.Check(t, func(t *rapid.T) {
		mask := rapid.SampledFrom([]uint64{1<<64 - 1, 0xff, 7 << 61, 3<<62 | 1, 0}).Draw(t, "mask")
		names := rapid.IntRange(1, 600)
		table, model := newTable(), map[string]algo.Ticks{}
		hash := func(name string) uint64 { return maphash.String(seed, name) & mask }
		find := func(name string) int {
			return table.find(hash(name), []byte(name))
		}
		insert := func(name string, expires algo.Ticks) {
			if i := find(name); i >= 0 {
				table.entry(i).expires = expires
			} else {
				table.insert(hash(name), name).expires = expires
			}
			model[name] = expires
		}
		remove := func(name string) {
			if i := find(name); i >= 0 {
				table.remove(i)
			}
			delete(model, name)
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				insert(fmt.Sprint(names.Draw(t, "name")), algo.Ticks(rapid.Int64().Draw(t, "expires")))
			},
			"insert many": func(t *rapid.T) {
				from := names.Draw(t, "from")
				for i := range rapid.IntRange(1, 150).Draw(t, "n") {
					insert(fmt.Sprint(from+i), algo.Ticks(i))
				}
			},
			"remove": func(t *rapid.T) { remove(fmt.Sprint(names.Draw(t, "name"))) },
			"remove many": func(t *rapid.T) {
				from := names.Draw(t, "from")
				for i := range rapid.IntRange(1, 150).Draw(t, "n") {
					remove(fmt.Sprint(from + i))
				}
			},
			"": func(t *rapid.T) { equal(t, &table, model, find) },
		})
	})
}

func equal(t *rapid.T, table *table, model map[string]algo.Ticks, find func(string) int) {
	if table.n != len(model) {
		t.Fatalf("%d entries, want %d", table.n, len(model))
	}
	for name, expires := range model {
		i := find(name)
		if i < 0 {
			t.Fatalf("%q is lost", name)
		}
		if e := table.entry(i); e.key != name || e.expires != expires {
			t.Fatalf("%q found entry %q with %d, want %d", name, e.key, e.expires, expires)
		}
	}
	used := 0
	for _, v := range table.index {
		if v != 0 {
			used++
		}
	}
	if used != table.n {
		t.Fatalf("%d slots are in use for %d entries", used, table.n)
	}
	room := len(table.chunks) * chunkLen
	if room-table.n >= 2*chunkLen {
		t.Fatalf("%d entries have room for %d", table.n, room)
	}
	for i := table.n; i < room; i++ {
		if e := table.entry(i); *e != (entry{}) {
			t.Fatalf("entry %d, which is free, still holds %q", i, e.key)
		}
	}
	if n := len(table.index); 5*table.n > 4*n || n > minIndex && 4*table.n < n {
		t.Fatalf("%d entries have an index of %d slots", table.n, n)
	}
}

// What the comments say of cache lines holds.
func TestSizes(t *testing.T) {
	for _, test := range []struct {
		value any
		want  uintptr
	}{
		{entry{}, 64},
		{chunk{}, 4096 - 8},
		{shard{}, 128},
	} {
		if got := reflect.TypeOf(test.value).Size(); got != test.want {
			t.Errorf("a %T has %d bytes, want %d", test.value, got, test.want)
		}
	}
}
