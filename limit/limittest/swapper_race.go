package limittest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
)

// racingSwaps counts keys up by swaps and updates of several callers.
func racingSwaps(t *testing.T, h Harness) {
	const each = 200
	for _, test := range []struct {
		name     string
		keys     []string
		updaters int // beside as many swappers
	}{
		{name: "one key", keys: []string{"hot"}},
		{name: "updates of the same key", keys: []string{"hot"}, updaters: 2},
		{name: "opposite orders", keys: []string{"a", "b", "c", "d", "e"}, updaters: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients, end := h.clients(t), time.Now().Add(budget/2)
			counted := make([]atomic.Int64, len(test.keys))
			var wg sync.WaitGroup
			for g := range 4 {
				keys, own := slices.Clone(test.keys), func(i int) *atomic.Int64 { return &counted[i] }
				if g%2 > 0 {
					slices.Reverse(keys)
					own = func(i int) *atomic.Int64 { return &counted[len(counted)-1-i] }
				}
				if g < test.updaters {
					wg.Go(func() { addUpdates(t, clients[g%2], each, end, keys, own) })
				} else {
					wg.Go(func() { addSwaps(t, clients[g%2], each, end, keys, own) })
				}
			}
			wg.Wait()
			for i, key := range test.keys {
				if got, _ := look(t, clients[0], key); got.A != counted[i].Load() {
					t.Errorf("%s counts %d, want %d: so many were committed", key, got.A, counted[i].Load())
				}
			}
		})
	}
}

// addUpdates counts each of keys up n times, if end does not come before that.
func addUpdates(t *testing.T, s limit.Store, n int, end time.Time, keys []string, own func(i int) *atomic.Int64) {
	for i := 0; i < n*len(keys) && time.Now().Before(end); i++ {
		at := i % len(keys)
		if _, err := addByUpdate(t.Context(), s, keys[at], nil); err != nil {
			t.Error(err)
			return
		}
		own(at).Add(1)
	}
}

// addSwaps does the same by swaps of all of keys.
func addSwaps(t *testing.T, s limit.Store, n int, end time.Time, keys []string, own func(i int) *atomic.Int64) {
	cells, left := make([]limit.Cell, len(keys)), make([]int, len(keys))
	for i, key := range keys {
		cells[i].Key, left[i] = key, n
	}
	for slices.Max(left) > 0 && time.Now().Before(end) {
		for i := range cells {
			if cells[i].Dirty = false; left[i] > 0 {
				countUp(cells[i : i+1])
			}
		}
		if _, err := s.(limit.Swapper).Swap(t.Context(), cells); err != nil {
			t.Error(err)
			return
		}
		for i := range cells {
			if cells[i].Dirty {
				left[i]--
				own(i).Add(1)
			}
		}
	}
}
