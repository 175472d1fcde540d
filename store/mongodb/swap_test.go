package mongodb_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/mongodb"
)

// swap swaps cells, which must not fail.
func swap(t *testing.T, s *mongodb.Store, cells ...limit.Cell) []limit.Cell {
	t.Helper()
	if _, err := s.Swap(t.Context(), cells); err != nil {
		t.Fatal(err)
	}
	return cells
}

// change returns c as a caller leaves it who has counted it up.
func change(c limit.Cell) limit.Cell {
	c.State.A++
	c.TTL, c.Dirty = algo.Day, true
	return c
}

// remove removes a document as the TTL monitor does.
func (d *databases) remove(t *testing.T, key string) {
	t.Helper()
	r, err := d.raw().Collection("stint_state").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: bson.Binary{Data: []byte(key)}}})
	if err != nil || r.DeletedCount != 1 {
		t.Fatalf("%d documents removed, %v; want 1", r.DeletedCount, err)
	}
}

func TestSwap(t *testing.T) {
	d := start(t)
	t.Run("each cell on its own", func(t *testing.T) { swapEach(t, d) })
	t.Run("what is gone stays gone", func(t *testing.T) { swapGone(t, d) })
	t.Run("what has expired counts as gone", func(t *testing.T) { swapExpired(t, d) })
	t.Run("no version comes back", func(t *testing.T) { versions(t, d) })
	t.Run("statements", func(t *testing.T) { statements(t, d) })
}

// One call commits, loads, finds itself too late, and creates, and each of the
// cells tells which it was.
func swapEach(t *testing.T, d *databases) {
	s := d.store(t, nil)
	var loaded []limit.Cell
	for _, key := range []string{"mine", "theirs", "read"} {
		loaded = append(loaded, swap(t, s, change(limit.Cell{Key: key}))...)
	}
	swap(t, s, change(change(loaded[1])))
	cells := swap(t, s, change(loaded[0]), change(loaded[1]), limit.Cell{Key: "read"}, change(limit.Cell{Key: "new"}), limit.Cell{Key: "unknown"}, change(limit.Cell{Key: "read too late", Version: 77}))
	for i, want := range []struct {
		a         int64
		committed bool
		known     bool
	}{
		{a: 2, committed: true, known: true},
		{a: 3, known: true},
		{a: 1, known: true},
		{a: 1, committed: true, known: true},
		{},
		{},
	} {
		c := cells[i]
		if c.State.A != want.a || c.Dirty != want.committed || c.Version != 0 != want.known {
			t.Errorf("%q: state %d, dirty %t, version %d; want %d, %t, a version: %t", c.Key, c.State.A, c.Dirty, c.Version, want.a, want.committed, want.known)
		}
	}
	if again := swap(t, s, change(cells[0]), change(cells[1]), change(cells[3])); !again[0].Dirty || !again[1].Dirty || !again[2].Dirty {
		t.Errorf("%+v; want all committed by the versions that the first swap has set", again)
	}
}

func swapGone(t *testing.T, d *databases) {
	s := d.store(t, nil)
	old := swap(t, s, change(limit.Cell{Key: "key"}))[0]
	d.remove(t, "key")
	for range 2 { // the first finds nothing, the second what the first has left
		if c := swap(t, s, change(old))[0]; c.Dirty || c.Version != 0 || c.State.A != 0 {
			t.Errorf("%+v; want it not committed and the zero State", c)
		}
		for c, err := range s.List(t.Context(), "") {
			t.Errorf("the list has %+v, %v; want nothing", c, err)
		}
		if n := count(t, s, "key", func(int64) int64 { return 0 }); n != 0 {
			t.Errorf("an update finds %d, want 0", n)
		}
	}
	c := swap(t, s, change(limit.Cell{Key: "key"}))[0]
	if !c.Dirty || c.State.A != 1 {
		t.Errorf("a swap that knows that there is nothing: %+v; want it committed", c)
	}
}

// count changes a key's count and returns what it was before.
func count(t *testing.T, s *mongodb.Store, key string, change func(int64) int64) (before int64) {
	t.Helper()
	err := s.Update(t.Context(), []string{key}, func(_ algo.Ticks, cells []limit.Cell) error {
		c := &cells[0]
		before = c.State.A
		if after := change(before); after != before {
			c.State.A, c.TTL, c.Dirty = after, algo.Day, true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return before
}

func swapExpired(t *testing.T, d *databases) {
	now := noon
	s := d.store(t, new(mongodb.Options).WithClock(func() algo.Ticks { return now }))
	short := change(limit.Cell{Key: "key"})
	short.TTL = algo.Second
	old := swap(t, s, short)[0]
	now += algo.Second
	if c := swap(t, s, change(old))[0]; c.Dirty || c.Version != 0 || c.State.A != 0 {
		t.Errorf("%+v; want it not committed and the zero State", c)
	}
	if c := swap(t, s, change(limit.Cell{Key: "key"}))[0]; !c.Dirty {
		t.Errorf("%+v; want it committed", c)
	}
	dropped := change(limit.Cell{Key: "dropped"})
	dropped.TTL = 0
	if c := swap(t, s, dropped)[0]; !c.Dirty || c.Version != 0 {
		t.Errorf("a cell without a TTL: %+v; want it committed and no version", c)
	}
	if c := swap(t, s, limit.Cell{Key: "dropped"})[0]; c.Version != 0 || c.State.A != 0 {
		t.Errorf("a cell without a TTL is loaded as %+v; want the zero State", c)
	}
}

// A key that is deleted and comes back, all within a millisecond, has none of
// its versions again.
func versions(t *testing.T, d *databases) {
	s := d.store(t, nil)
	seen := map[int64]bool{}
	for range 20 {
		c := limit.Cell{Key: "key"}
		for range 3 {
			c = swap(t, s, change(c))[0]
			if seen[c.Version] || c.Version == 0 {
				t.Errorf("version %d comes back", c.Version)
			}
			seen[c.Version] = true
		}
		if err := s.Delete(t.Context(), "key"); err != nil {
			t.Fatal(err)
		}
	}
}

// statements counts what a swap of many cells costs.
func statements(t *testing.T, d *databases) {
	const many = 2500
	s := d.store(t, &mongodb.Options{Timeout: time.Minute})
	var mu sync.Mutex
	sent := map[string]int{}
	client, err := mongo.Connect(options.Client().ApplyURI(d.last).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			mu.Lock()
			defer mu.Unlock()
			sent[e.CommandName]++
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	s.Through(client)
	cells := make([]limit.Cell, many)
	for i := range cells {
		cells[i] = change(limit.Cell{Key: fmt.Sprint("user ", i)})
	}
	for _, test := range []struct {
		what    string
		prepare func(*limit.Cell)
		want    string
	}{
		{"commits", func(*limit.Cell) {}, "map[aggregate:1 update:3]"},
		{"loads", func(c *limit.Cell) { *c = limit.Cell{Key: c.Key} }, "map[aggregate:3]"},
		{"is too late with", func(c *limit.Cell) { *c = change(limit.Cell{Key: c.Key}) }, "map[aggregate:4 update:3]"},
	} {
		for i := range cells {
			test.prepare(&cells[i])
		}
		clear(sent)
		began := time.Now()
		swap(t, s, cells...)
		t.Logf("a swap that %s %d cells: %v in %v", test.what, many, sent, time.Since(began))
		if got := fmt.Sprint(sent); got != test.want {
			t.Errorf("a swap that %s %d cells sends %s, want %s", test.what, many, got, test.want)
		}
		if c := cells[many-1]; c.State.A != 1 || c.Version == 0 {
			t.Errorf("the last cell is %+v, want its count 1", c)
		}
	}
}
