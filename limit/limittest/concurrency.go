package limittest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func oppositeOrders(t *testing.T, h Harness) {
	clients := h.clients(t)
	keys := make([]string, 10)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	ctx := timeout(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			own := slices.Clone(keys)
			if g%2 == 0 {
				slices.Reverse(own)
			}
			for range 25 {
				err := clients[g/2].Update(ctx, own, func(_ algo.Ticks, cells []limit.Cell) error {
					for i := range cells {
						cells[i].TTL, cells[i].Dirty = algo.Day, true
					}
					count(cells)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if got, _ := look(t, clients[0], key); got.A != 100 {
			t.Errorf("%s counts %d updates, want 100", key, got.A)
		}
	}
}

func exactQuota(t *testing.T, h Harness) {
	const quota, callers = 200, 32
	for _, a := range algo.All {
		if a == algo.Proportional {
			continue // admits more than a quota to a young frame, by design
		}
		t.Run(a.Name, func(t *testing.T) {
			clients, p, ctx := h.clients(t), year(a, quota), timeout(t)
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for _, s := range clients {
				for range callers {
					wg.Go(func() { admitted.Add(exhaust(ctx, t, s, p)) })
				}
			}
			wg.Wait()
			if n := admitted.Load(); n != quota {
				t.Errorf("%d units admitted, want exactly %d", n, quota)
			}
		})
	}
}

// exhaust spends unit by unit until the first denial and returns how many were
// admitted.
func exhaust(ctx context.Context, t *testing.T, s limit.Store, p *limit.Policy) (admitted int64) {
	for i := 0; ; i++ {
		v, err := spendEitherWay(ctx, s, p, 1, i)
		if err != nil {
			t.Error(err)
			return admitted
		}
		if !v.OK {
			return admitted
		}
		admitted++
	}
}

// spendEitherWay spends from one key through Update and, every other time,
// through the store's fast path if it has one.
func spendEitherWay(ctx context.Context, s limit.Store, p *limit.Policy, cost int64, i int) (algo.Verdict, error) {
	if fast, ok := s.(limit.Taker); ok && i%2 == 0 {
		return fast.Take(ctx, p, "shared", cost)
	}
	return spend(ctx, s, p, "shared", cost)
}

// monotonicTime writes the time of each update into the cell, so that each sees
// the time of the one before it, by whichever client.
func monotonicTime(t *testing.T, h Harness) {
	clients := h.clients(t)
	ctx := timeout(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 25 {
				var before, now algo.Ticks
				err := clients[g%2].Update(ctx, []string{"key"}, func(at algo.Ticks, cells []limit.Cell) error {
					c := &cells[0]
					before, now = c.State.At, at
					c.State.At, c.TTL, c.Dirty = at, algo.Day, true
					return nil
				})
				if err != nil {
					t.Error(err)
				} else if now < before {
					t.Errorf("an update at %d comes after one at %d: the clock is to be read under the lock", now, before)
				}
				if h.Advance != nil {
					h.Advance(t, time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
}
