package memory

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// update is what one Update works on. The store keeps them for the next ones.
type update struct {
	hashes []uint64 // of the cells' keys
	shards []int    // to lock, ascending
	cells  []limit.Cell
}

// Update runs fn once, with the shards of keys locked: see [limit.Store]. fn
// must not call the store. cells is valid only during fn.
func (s *Store) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if err := s.ready(ctx, "update", keys); err != nil {
		return err
	}
	u, _ := s.updates.Get().(*update)
	if u == nil {
		u = new(update)
	}
	u.begin(s, keys)
	err := s.commit(u, fn)
	u.end()
	s.updates.Put(u)
	return err
}

// begin sets u up for keys.
func (u *update) begin(s *Store, keys []string) {
	for _, key := range keys {
		h := maphash.String(s.seed, key)
		u.hashes = append(u.hashes, h)
		u.shards = append(u.shards, s.shardIndex(h))
		u.cells = append(u.cells, limit.Cell{Key: key})
	}
	slices.Sort(u.shards)
	u.shards = slices.Compact(u.shards)
}

// end lets go of the strings and makes u ready for the next Update.
func (u *update) end() {
	clear(u.cells)
	u.hashes, u.shards, u.cells = u.hashes[:0], u.shards[:0], u.cells[:0]
}

func (s *Store) commit(u *update, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	// In ascending order, so that two Updates never wait for each other.
	for _, i := range u.shards {
		s.shards[i].mu.Lock()
	}
	defer func() { // also if fn panics
		for _, i := range u.shards {
			s.shards[i].mu.Unlock()
		}
	}()
	now := s.now()
	for i, h := range u.hashes {
		c, sh := &u.cells[i], s.shard(h)
		c.State = sh.read(sh.find(h, []byte(c.Key)), now)
	}
	if err := fn(now, u.cells); err != nil {
		return err
	}
	for i, h := range u.hashes {
		c, sh := &u.cells[i], s.shard(h)
		if c.Dirty {
			// Found anew: an earlier write may have moved it.
			key := []byte(c.Key)
			sh.write(sh.find(h, key), h, key, c.State, now, c.TTL)
		}
	}
	return nil
}
