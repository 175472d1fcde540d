package limittest

import (
	"context"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// calls returns one call of everything that s can be asked.
func calls(s limit.Store) map[string]func(ctx context.Context) error {
	all := keyedCalls(s, "key")
	all["ping"] = s.Ping
	if lister, ok := s.(limit.Lister); ok {
		all["list"] = func(ctx context.Context) (err error) {
			for _, err = range lister.List(ctx, "") {
			}
			return err
		}
	}
	if taker, ok := s.(limit.Taker); ok {
		all["take"] = func(ctx context.Context) error {
			_, err := taker.Take(ctx, year(algo.GCRA, 1), "key", 1)
			return err
		}
	}
	if notifier, ok := s.(limit.Notifier); ok {
		all["notify"] = func(ctx context.Context) error { return notifier.Notify(ctx, "message") }
		all["listen"] = func(ctx context.Context) error { return notifier.Listen(ctx, func(string) {}) }
	}
	return all
}

// keyedCalls returns one call of everything that changes keys.
func keyedCalls(s limit.Store, keys ...string) map[string]func(ctx context.Context) error {
	cells := func() []limit.Cell {
		cells := make([]limit.Cell, len(keys))
		for i, key := range keys {
			cells[i].Key = key
		}
		countUp(cells)
		return cells
	}
	all := map[string]func(ctx context.Context) error{
		"update": func(ctx context.Context) error {
			return s.Update(ctx, keys, func(_ algo.Ticks, cells []limit.Cell) error {
				countUp(cells)
				return nil
			})
		},
		"delete": func(ctx context.Context) error { return s.Delete(ctx, keys...) },
	}
	if swapper, ok := s.(limit.Swapper); ok {
		all["swap"] = func(ctx context.Context) error {
			_, err := swapper.Swap(ctx, cells())
			return err
		}
	}
	bulk, ok := s.(limit.BulkTaker)
	if !ok {
		return all
	}
	if p := countable(bulk); p != nil {
		all["take bulk"] = func(ctx context.Context) error {
			takes := make([]limit.Take, len(keys))
			for i, key := range keys {
				takes[i] = limit.Take{Policy: p, Key: key, Cost: 1, Times: 1}
			}
			return bulk.TakeBulk(ctx, takes)
		}
	}
	return all
}
