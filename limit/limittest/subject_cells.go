package limittest

import (
	"context"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// mapCells keep States for ever. The clock is kept under the empty key, which
// no policy has.
type mapCells map[string]algo.State

func (m mapCells) set(now algo.Ticks) { m[""] = algo.State{At: now} }

func (m mapCells) update(key string, change func(algo.Ticks, algo.State) (algo.State, algo.Ticks)) error {
	m[key], _ = change(m[""].At, m[key])
	return nil
}

// storeCells keep States in a store.
type storeCells struct {
	ctx   context.Context
	store limit.Store
	clock *clock     // nil: decide by now instead of the store's clock
	now   algo.Ticks // of the script
}

func (c *storeCells) set(now algo.Ticks) {
	if c.clock != nil {
		c.clock.set(now)
	}
	c.now = now
}

func (c *storeCells) update(key string, change func(algo.Ticks, algo.State) (algo.State, algo.Ticks)) error {
	return c.store.Update(c.ctx, []string{key}, func(now algo.Ticks, cells []limit.Cell) error {
		cell := &cells[0]
		if c.clock == nil {
			now = c.now
		}
		after, ttl := change(now, cell.State)
		if after.Equal(cell.State) {
			return nil
		}
		if c.clock == nil && ttl > 0 {
			ttl = algo.Day // by the store's clock, which does not follow the script's
		}
		cell.State, cell.TTL, cell.Dirty = after, ttl, true
		return nil
	})
}
