package limit

import (
	"context"

	"github.com/stint-dev/stint/limit/algo"
)

// swapperOver returns s itself if it is a Swapper, and otherwise one over its
// Update.
func swapperOver(s Store) Swapper {
	if swapper, ok := s.(Swapper); ok {
		return swapper
	}
	return &updateSwapper{store: s}
}

// updateSwapper swaps by comparing States: one that was changed and changed
// back is as good as unchanged. A Version is a hash of the State.
type updateSwapper struct{ store Store }

func (u *updateSwapper) Swap(ctx context.Context, cells []Cell) (now algo.Ticks, err error) {
	keys := make([]string, len(cells))
	for i := range cells {
		keys[i] = cells[i].Key
	}
	swapped := make([]Cell, len(cells))
	err = u.store.Update(ctx, keys, func(at algo.Ticks, found []Cell) error {
		now = at
		for i := range found {
			kept := &found[i]
			swapped[i] = cells[i]
			if c := &swapped[i]; c.Dirty && c.Version == versionOf(kept.State) {
				kept.State, kept.TTL, kept.Dirty = c.State, c.TTL, true
				c.Version = versionOf(c.State)
				if c.TTL <= 0 {
					c.Version = 0
				}
			} else {
				*c = Cell{Key: kept.Key, State: kept.State, Version: versionOf(kept.State)}
			}
		}
		return nil
	})
	if err == nil {
		copy(cells, swapped)
	}
	return now, err
}

// versionOf returns a hash (FNV-1a) of s, and 0 for the zero State alone.
func versionOf(s algo.State) int64 {
	if s.Equal(algo.State{}) {
		return 0
	}
	h := uint64(14695981039346656037)
	for _, word := range []uint64{uint64(s.At), uint64(s.A), uint64(s.B)} {
		for range 8 {
			h = (h ^ word&0xff) * 1099511628211
			word >>= 8
		}
	}
	for _, b := range []byte(s.Entries()) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return int64(h | 1)
}
