package limittest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func swapper(t *testing.T, h Harness) {
	if _, ok := h.open(t).(limit.Swapper); !ok {
		t.Skip("the store is no limit.Swapper")
	}
	t.Run("each cell on its own", func(t *testing.T) { mixedSwap(t, h) })
	t.Run("an old Version never", func(t *testing.T) { oldVersions(t, h) })
	t.Run("States and keys", func(t *testing.T) { swappedStates(t, h) })
	t.Run("ten thousand cells", func(t *testing.T) { manySwapped(t, h) })
	t.Run("side by side", func(t *testing.T) { racingSwaps(t, h) })
}

// swap calls Swap with cells and returns the store's time.
func swap(t testing.TB, s limit.Store, cells []limit.Cell) algo.Ticks {
	t.Helper()
	now, err := s.(limit.Swapper).Swap(t.Context(), cells)
	if err != nil {
		t.Fatalf("swap of %d cells: %v", len(cells), err)
	}
	return now
}

// load returns the cells of keys.
func load(t testing.TB, s limit.Store, keys ...string) []limit.Cell {
	t.Helper()
	cells := make([]limit.Cell, len(keys))
	for i, key := range keys {
		cells[i].Key = key
	}
	swap(t, s, cells)
	return cells
}

// change makes c one that is to be committed.
func change(c *limit.Cell, state algo.State, ttl algo.Ticks) {
	c.State, c.TTL, c.Dirty = state, ttl, true
}

// putBySwap is put through Swap.
func putBySwap(t testing.TB, s limit.Store, state algo.State, ttl algo.Ticks, keys ...string) {
	t.Helper()
	cells := load(t, s, keys...)
	for i := range cells {
		change(&cells[i], state, ttl)
	}
	swap(t, s, cells)
	for _, c := range cells {
		if !c.Dirty {
			t.Fatalf("%q was loaded, nobody else has changed it, and it is not committed", c.Key)
		}
	}
}

// mixedSwap has every kind of cell in one Swap.
func mixedSwap(t *testing.T, h Harness) {
	clients := h.clients(t)
	s := clients[0]
	kinds := []struct {
		key      string
		found    int64 // what there is before; 0 for nothing
		version  bool  // the Version that was loaded, rather than 0
		dirty    bool  // it is to become 100
		stolen   bool  // another client makes it 50 in between
		commits  bool
		dropping bool  // with a TTL of 0
		seen     int64 // what there is afterwards
	}{
		{key: "known", found: 1, version: true, dirty: true, commits: true, seen: 100},
		{key: "stolen", found: 2, version: true, dirty: true, stolen: true, seen: 50},
		{key: "only read", found: 3, version: true, seen: 3},
		{key: "never loaded", found: 4, seen: 4},
		{key: "taken for new", found: 5, dirty: true, seen: 5},
		{key: "new", dirty: true, commits: true, seen: 100},
		{key: "made by another", dirty: true, stolen: true, seen: 50},
		{key: "unknown"},
		{key: "dropped", found: 6, version: true, dirty: true, dropping: true, commits: true},
		{key: "last", found: 7, version: true, dirty: true, commits: true, seen: 100},
	}
	cells := make([]limit.Cell, len(kinds))
	for i, k := range kinds {
		if k.found > 0 {
			put(t, s, algo.State{A: k.found}, algo.Day, k.key)
		}
		cells[i].Key = k.key
		if k.version {
			cells[i] = load(t, s, k.key)[0]
		}
		if k.dirty {
			change(&cells[i], algo.State{A: 100}, algo.Day)
		}
		if k.dropping {
			cells[i].TTL = 0
		}
		if k.stolen {
			put(t, clients[1], algo.State{A: 50}, algo.Day, k.key)
		}
	}
	_, earliest := look(t, s, "the clock")
	now := swap(t, s, cells)
	if _, latest := look(t, s, "the clock"); now < earliest || now > latest {
		t.Errorf("swap tells the time %d, want one from %d to %d, as before and after it", now, earliest, latest)
	}
	for i, k := range kinds {
		c := cells[i]
		if c.Key != k.key || c.Dirty != k.commits || c.State.A != k.seen && !k.dropping {
			t.Errorf("%s: the cell is %q, counts %d and is dirty: %v; want %d and %v", k.key, c.Key, c.State.A, c.Dirty, k.seen, k.commits)
		}
		if (c.Version != 0) != (k.seen > 0) && !k.dropping {
			t.Errorf("%s: the cell that counts %d has the Version %d; 0 is that of what is not there", k.key, c.State.A, c.Version)
		}
		if got, _ := look(t, clients[1], k.key); got.A != k.seen {
			t.Errorf("%s: another client finds %d, want %d", k.key, got.A, k.seen)
		}
	}
}

// swappedStates writes the hardest States and keys by one client and reads them
// by the other.
func swappedStates(t *testing.T, h Harness) {
	clients := h.clients(t)
	keys := append(longKeys(), hostile...)
	cells := load(t, clients[0], keys...)
	for i := range cells {
		change(&cells[i], extremes[1+i%(len(extremes)-1)], algo.Day)
		cells[i].State.B = int64(i)
	}
	want := slices.Clone(cells)
	swap(t, clients[0], cells)
	for i, c := range load(t, clients[1], keys...) {
		if !cells[i].Dirty || c.Key != keys[i] || !c.State.Equal(want[i].State) || c.Version != cells[i].Version {
			t.Errorf("%q: swapped %s to Version %d (dirty: %v); another client loads %s of Version %d",
				c.Key, brief(want[i].State), cells[i].Version, cells[i].Dirty, brief(c.State), c.Version)
		}
	}
	for i, key := range keys {
		if got, _ := look(t, clients[1], key); !got.Equal(want[i].State) {
			t.Errorf("%q: swapped %s, update sees %s", key, brief(want[i].State), brief(got))
		}
	}
}

// manySwapped has more cells in one Swap than a statement may have parameters.
func manySwapped(t *testing.T, h Harness) {
	clients := h.clients(t)
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("cell ", i*7919%len(keys))
	}
	mine := load(t, clients[0], keys...)
	for i := range mine {
		change(&mine[i], algo.State{A: int64(i + 1)}, algo.Day)
	}
	swap(t, clients[0], mine)

	var stolen []string
	for i := 0; i < len(keys); i += 3 {
		stolen = append(stolen, keys[i])
	}
	putBySwap(t, clients[1], algo.State{A: -1}, algo.Day, stolen...)
	for i := range mine {
		if !mine[i].Dirty {
			t.Fatalf("%q is new, and is not committed", mine[i].Key)
		}
		change(&mine[i], algo.State{A: int64(-i - 2)}, algo.Day)
	}
	swap(t, clients[0], mine)
	for i, c := range load(t, clients[1], keys...) {
		want := int64(-i - 2)
		if i%3 == 0 {
			want = -1
		}
		if mine[i].Dirty != (i%3 > 0) || c.State.A != want || mine[i].State.A != want {
			t.Fatalf("%q: dirty: %v and %d, another client loads %d; want %v and %d", c.Key, mine[i].Dirty, mine[i].State.A, c.State.A, i%3 > 0, want)
		}
	}
}
