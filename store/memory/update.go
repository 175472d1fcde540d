package memory

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// update is what one Update works on. The store keeps them for the next ones.
type update struct {
	keys   []hashed
	shards []int // to lock, ascending
	cells  []limit.Cell
}

type hashed struct {
	storeKey
	sum uint64
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
	for _, joined := range keys {
		k := split(joined)
		h := k.hash(s.seed)
		u.keys = append(u.keys, hashed{k, h})
		u.shards = append(u.shards, s.shardIndex(h))
		u.cells = append(u.cells, limit.Cell{Key: joined})
	}
	slices.Sort(u.shards)
	u.shards = slices.Compact(u.shards)
}

// end lets go of the strings and makes u ready for the next Update.
func (u *update) end() {
	clear(u.keys)
	clear(u.cells)
	u.keys, u.shards, u.cells = u.keys[:0], u.shards[:0], u.cells[:0]
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
	for i := range u.keys {
		k := &u.keys[i]
		sh := s.shard(k.sum)
		u.cells[i].State = sh.read(sh.find(k.sum, &k.storeKey), now)
	}
	if err := fn(now, u.cells); err != nil {
		return err
	}
	for i := range u.keys {
		c := &u.cells[i]
		if !c.Dirty {
			continue
		}
		k := &u.keys[i]
		sh := s.shard(k.sum)
		// Found anew: an earlier write may have moved it.
		sh.write(sh.find(k.sum, &k.storeKey), k.sum, &k.storeKey, c.State, now, c.TTL)
	}
	return nil
}
