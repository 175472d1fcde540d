package memory

import (
	"context"
	"iter"
	"strings"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// List yields the live cells under prefix: see [limit.Lister]. It copies one
// shard after the other and holds no lock while it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		var cells []limit.Cell
		for i := range s.shards {
			if err := s.ready(ctx, "list", nil); err != nil {
				yield(limit.Cell{}, err)
				return
			}
			cells = s.shards[i].live(cells[:0], prefix, s.now)
			for _, c := range cells {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// live appends the live cells under prefix to cells.
func (s *shard) live(cells []limit.Cell, prefix string, clock func() algo.Ticks) []limit.Cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock()
	for i := range s.n {
		e := s.entry(i)
		if e.expires > now && strings.HasPrefix(e.key, prefix) {
			cells = append(cells, limit.Cell{Key: e.key, State: e.state, TTL: e.expires - now})
		}
	}
	return cells
}
