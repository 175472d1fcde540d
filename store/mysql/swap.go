package mysql

import (
	"context"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Swap implements [limit.Swapper] by updates of as many cells as fit a statement:
// each writes, all or nothing, those that it finds as they were loaded.
func (s *Store) Swap(ctx context.Context, cells []limit.Cell) (now algo.Ticks, err error) {
	keys := make([]string, len(cells))
	for i := range cells {
		keys[i] = cells[i].Key
	}
	if err := s.enter(ctx, "swap", keys...); err != nil {
		return 0, err
	}
	defer s.inside.RUnlock()
	from := 0
	for _, page := range pages(keys) {
		if now, err = s.swap(ctx, cells[from:from+len(page)], page); err != nil {
			return 0, sentBefore(from > 0, err)
		}
		from += len(page)
	}
	return now, nil
}

func (s *Store) swap(ctx context.Context, cells []limit.Cell, keys []string) (now algo.Ticks, err error) {
	swapped := make([]limit.Cell, len(cells))
	err = s.update(ctx, "swap", keys, func(v *view) error {
		now = v.now
		for i := range v.cells {
			found, c := &v.cells[i], &swapped[i]
			if *c = *found; !cells[i].Dirty || cells[i].Version != found.Version {
				continue
			}
			*c = cells[i]
			*found = *c
			if c.Version = next(v.rows[i].mark(now)); c.TTL <= 0 {
				c.Version = 0
			}
		}
		return nil
	})
	if err == nil {
		copy(cells, swapped)
	}
	return now, err
}
