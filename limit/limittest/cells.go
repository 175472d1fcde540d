package limittest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func absent(t *testing.T, h Harness) {
	s := h.open(t)
	if err := s.Delete(timeout(t), "a", "never seen"); err != nil {
		t.Errorf("delete of keys that are not there: %v", err)
	}
	if err := s.Ping(timeout(t)); err != nil {
		t.Errorf("ping: %v", err)
	}
	keys := joined(t, s, 3)
	slices.Reverse(keys)
	err := s.Update(timeout(t), keys, func(now algo.Ticks, cells []limit.Cell) error {
		if now <= 0 {
			t.Errorf("the store's clock reads %d, want ticks since the epoch", now)
		}
		if !slices.EqualFunc(cells, keys, func(c limit.Cell, key string) bool { return c.Key == key }) {
			t.Errorf("cells %+v, want one for each of %q, in this order", cells, keys)
		}
		for _, c := range cells {
			if !c.State.Equal(algo.State{}) || c.Dirty {
				t.Errorf("an unknown key has the cell %+v, want the zero State, not dirty", c)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func roundTrip(t *testing.T, h Harness) {
	clients := h.clients(t)
	for i, want := range extremes {
		key := fmt.Sprint("key ", i)
		put(t, clients[0], want, algo.Day, key)
		for _, s := range clients {
			if got, _ := look(t, s, key); !got.Equal(want) {
				t.Errorf("put %s, got %s", brief(want), brief(got))
			}
		}
	}
	last := extremes[len(extremes)-1]
	for _, next := range extremes {
		put(t, clients[0], last, algo.Day, "overwritten")
		put(t, clients[1], next, algo.Day, "overwritten")
		if got, _ := look(t, clients[0], "overwritten"); !got.Equal(next) {
			t.Errorf("put %s over %s, got %s", brief(next), brief(last), brief(got))
		}
	}
}

func brief(s algo.State) string {
	return fmt.Sprintf("{At:%d A:%d B:%d Log:%d bytes}", s.At, s.A, s.B, len(s.Entries()))
}

func failingFn(t *testing.T, h Harness) {
	s := h.open(t)
	keys := joined(t, s, 2)
	put(t, s, algo.State{A: 1}, algo.Day, keys[0])
	mine := errors.New("mine")
	err := s.Update(timeout(t), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i].State.A, cells[i].TTL, cells[i].Dirty = 7, algo.Day, true
		}
		return mine
	})
	if err != mine {
		t.Errorf("update returns %v (%T), want fn's own error as it is", err, err)
	}
	for i, want := range []int64{1, 0} {
		if got, _ := look(t, s, keys[i]); got.A != want {
			t.Errorf("%s: A is %d after an error of fn, want %d as before", keys[i], got.A, want)
		}
	}
}

func allOrNothing(t *testing.T, h Harness) {
	t.Run("only dirty cells are kept", func(t *testing.T) {
		s := h.open(t)
		keys := joined(t, s, 2)
		update(t, s, func(cells []limit.Cell) {
			count(cells)
			cells[0].Dirty = false
		}, keys...)
		clean, _ := look(t, s, keys[0])
		dirty, _ := look(t, s, keys[1])
		if clean.A != 0 || dirty.A != 1 {
			t.Errorf("the clean cell counts %d and the dirty one %d, want 0 and 1", clean.A, dirty.A)
		}
	})
	t.Run("a thousand keys at once", func(t *testing.T) {
		s := h.open(t)
		keys := joined(t, s, 1000)
		for want := range int64(2) {
			update(t, s, func(cells []limit.Cell) {
				for i, c := range cells {
					if c.Key != keys[i] || c.State.A != want {
						t.Errorf("cell %d is %q and counts %d, want %q and %d", i, c.Key, c.State.A, keys[i], want)
					}
				}
				count(cells)
			}, keys...)
		}
	})
	t.Run("nobody sees a part", func(t *testing.T) {
		clients := h.clients(t)
		keys := joined(t, clients[0], 4)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for range 25 {
					together(t, clients[g%2], keys)
				}
			})
		}
		wg.Wait()
		for _, key := range keys {
			if got, _ := look(t, clients[0], key); got.A != 100 {
				t.Errorf("%s counts %d updates, want 100", key, got.A)
			}
		}
	})
}

// together counts all of keys up by one and checks that they were equal. Only
// the last run of fn counts: an optimistic store may show a torn view to one
// that it then throws away.
func together(t *testing.T, s limit.Store, keys []string) {
	var before []int64
	err := s.Update(timeout(t), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		before = before[:0]
		for i := range cells {
			before = append(before, cells[i].State.A)
		}
		countUp(cells)
		return nil
	})
	if err != nil {
		t.Error(err)
	} else if slices.Min(before) != slices.Max(before) {
		t.Errorf("an update saw the counts %v, want all equal", before)
	}
}
