package limittest

import (
	"cmp"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// oldVersions tries to commit with Versions that are not the store's any more.
func oldVersions(t *testing.T, h Harness) {
	const found, now, mine = 1, 50, 100
	clients := h.clients(t)
	forget := func(t testing.TB, s limit.Store, key string) {
		if err := s.Delete(timeout(t), key); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name   string
		absent bool
		ttl    algo.Ticks // of what is found; a day if 0
		lose   func(t testing.TB, s limit.Store, key string)
		want   int64 // what there is after lose; -1: that depends
	}{
		{name: "after an update", want: now, lose: func(t testing.TB, s limit.Store, key string) {
			put(t, s, algo.State{A: now}, algo.Day, key)
		}},
		{name: "after a swap", want: now, lose: func(t testing.TB, s limit.Store, key string) {
			putBySwap(t, s, algo.State{A: now}, algo.Day, key)
		}},
		{name: "after a swap by somebody else who finds nothing either", absent: true, want: now, lose: func(t testing.TB, s limit.Store, key string) {
			putBySwap(t, s, algo.State{A: now}, algo.Day, key)
		}},
		{name: "after a take", absent: true, want: -1, lose: takeOne},
		{name: "after a delete", lose: forget},
		{name: "after an update with a TTL of 0", lose: func(t testing.TB, s limit.Store, key string) {
			put(t, s, algo.State{A: now}, 0, key)
		}},
		{name: "after a swap with a negative TTL", lose: func(t testing.TB, s limit.Store, key string) {
			putBySwap(t, s, algo.State{A: now}, -algo.Second, key)
		}},
		{name: "after its TTL", ttl: algo.Second, lose: func(t testing.TB, _ limit.Store, _ string) {
			h.pause(t, 2100*time.Millisecond)
		}},
		{name: "of what was deleted and is there again", want: found, lose: func(t testing.TB, s limit.Store, key string) {
			forget(t, s, key)
			h.pause(t, 10*time.Millisecond)
			put(t, s, algo.State{A: found}, algo.Day, key)
		}},
		{name: "of what was dropped and is there again", want: found, lose: func(t testing.TB, s limit.Store, key string) {
			put(t, s, algo.State{A: found}, 0, key)
			h.pause(t, 10*time.Millisecond)
			putBySwap(t, s, algo.State{A: found}, algo.Day, key)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, key := clients[0], test.name
			if !test.absent {
				put(t, s, algo.State{A: found}, cmp.Or(test.ttl, algo.Day), key)
			}
			old := load(t, s, key)
			if (old[0].Version == 0) != test.absent {
				t.Fatalf("what was loaded has the Version %d; 0 is that of what is not there", old[0].Version)
			}
			test.lose(t, clients[1], key)
			kept, _ := look(t, s, key)
			change(&old[0], algo.State{A: mine}, algo.Day)
			swap(t, s, old)
			if old[0].Dirty || !old[0].State.Equal(kept) {
				t.Fatalf("a cell with an old Version comes back with %s, dirty: %v; want %s, not dirty", brief(old[0].State), old[0].Dirty, brief(kept))
			}
			if (old[0].Version == 0) != kept.Equal(algo.State{}) {
				t.Errorf("the cell that comes back with %s has the Version %d; 0 is that of what is not there", brief(kept), old[0].Version)
			}
			if got, _ := look(t, clients[1], key); !got.Equal(kept) {
				t.Errorf("an old Version has made %s of %s", brief(got), brief(kept))
			}
			if test.want >= 0 && kept.A != test.want {
				t.Errorf("there is %s, want one that counts %d", brief(kept), test.want)
			}
			change(&old[0], algo.State{A: mine}, algo.Day)
			if swap(t, s, old); !old[0].Dirty {
				t.Error("the cell that came back is not committed, though nobody has changed it since")
			}
		})
	}
}

// takeOne takes one from key in bulk, if s can do that, and changes it otherwise.
func takeOne(t testing.TB, s limit.Store, key string) {
	bulk, ok := s.(limit.BulkTaker)
	if !ok || countable(bulk) == nil {
		put(t, s, algo.State{A: 1}, algo.Day, key)
		return
	}
	takes := []limit.Take{{Policy: countable(bulk), Key: key, Cost: 1, Times: 1}}
	if err := bulk.TakeBulk(timeout(t), takes); err != nil {
		t.Fatal(err)
	}
}
