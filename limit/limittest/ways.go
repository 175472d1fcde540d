package limittest

import (
	"context"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// spendAnyWay spends cost from one key, by each way that the store has in turn.
func spendAnyWay(ctx context.Context, s limit.Store, p *limit.Policy, cost int64, turn int) (algo.Verdict, error) {
	const key = "shared"
	ways := []func() (algo.Verdict, error){
		func() (algo.Verdict, error) { return spend(ctx, s, p, key, cost) },
	}
	if fast, ok := s.(limit.Taker); ok {
		ways = append(ways, func() (algo.Verdict, error) { return fast.Take(ctx, p, key, cost) })
	}
	if bulk, ok := s.(limit.BulkTaker); ok && cost > 0 && bulk.TakesBulk(p, cost) {
		ways = append(ways, func() (algo.Verdict, error) { return spendInBulk(ctx, bulk, p, key, cost) })
	}
	if swapper, ok := s.(limit.Swapper); ok {
		ways = append(ways, func() (algo.Verdict, error) { return spendBySwap(ctx, swapper, p, key, cost) })
	}
	return ways[turn%len(ways)]()
}

// spend takes cost from key under p the way a Limiter does, through Update.
func spend(ctx context.Context, s limit.Store, p *limit.Policy, key string, cost int64) (v algo.Verdict, err error) {
	err = s.Update(ctx, []string{limit.StoreKey(p, key)}, func(now algo.Ticks, cells []limit.Cell) error {
		v = decide(p, &cells[0], now, cost)
		return nil
	})
	return v, err
}

func spendInBulk(ctx context.Context, s limit.BulkTaker, p *limit.Policy, key string, cost int64) (algo.Verdict, error) {
	takes := []limit.Take{{Policy: p, Key: limit.StoreKey(p, key), Cost: cost, Times: 1}}
	if err := s.TakeBulk(ctx, takes); err != nil {
		return algo.Verdict{}, err
	}
	_, v := p.Decide(takes[0].Before, takes[0].Now, cost)
	return v, nil
}

// spendBySwap decides again and again until nobody else has been faster.
func spendBySwap(ctx context.Context, s limit.Swapper, p *limit.Policy, key string, cost int64) (algo.Verdict, error) {
	cells := []limit.Cell{{Key: limit.StoreKey(p, key)}}
	now, err := s.Swap(ctx, cells)
	for err == nil {
		v := decide(p, &cells[0], now, cost)
		if !cells[0].Dirty {
			return v, nil
		}
		if now, err = s.Swap(ctx, cells); err == nil && cells[0].Dirty {
			return v, nil
		}
	}
	return algo.Verdict{}, err
}

// decide spends cost on the State of c and marks c dirty if that changes it.
func decide(p *limit.Policy, c *limit.Cell, now algo.Ticks, cost int64) algo.Verdict {
	state, v := p.Decide(c.State, now, cost)
	if !state.Equal(c.State) {
		c.State, c.TTL, c.Dirty = state, v.ResetAfter, true
	}
	return v
}
