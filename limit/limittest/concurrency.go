package limittest

import (
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
	keys := joined(t, clients[0], 10)
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
					countUp(cells)
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

// exactQuota has the callers of two clients spend one quota, each way that the
// store has in turn, and then another by two Limiters.
func exactQuota(t *testing.T, h Harness) {
	const quota, callers = 100, 16
	for _, a := range algo.All {
		if a == algo.Proportional {
			continue // admits more than a quota to a young frame, by design
		}
		t.Run(a.Name, func(t *testing.T) {
			clients, p, ctx := h.clients(t), year(a, quota), timeout(t)
			var limiters [2]*limit.Limiter
			for i, s := range clients {
				limiters[i] = limit.New(s, &limit.Options{Timeout: patience})
				t.Cleanup(func() { limiters[i].Close() })
			}
			for name, take := range map[string]func(client, turn int) (bool, error){
				"any way": func(client, turn int) (bool, error) {
					v, err := spendAnyWay(ctx, clients[client], p, 1, turn)
					return v.OK, err
				},
				"by limiters": func(client, _ int) (bool, error) {
					d, err := limiters[client].Take(ctx, p, "limited", 1)
					return d.Allowed, err
				},
			} {
				var admitted atomic.Int64
				var wg sync.WaitGroup
				for g := range 2 * callers {
					wg.Go(func() {
						admitted.Add(exhaust(t, func(turn int) (bool, error) { return take(g%2, turn) }))
					})
				}
				wg.Wait()
				if n := admitted.Load(); n != quota {
					t.Errorf("%s: %d units admitted, want exactly %d", name, n, quota)
				}
			}
		})
	}
}

// exhaust takes until the first denial and returns how often it was admitted.
func exhaust(t *testing.T, take func(turn int) (bool, error)) (admitted int64) {
	for turn := 0; ; turn++ {
		ok, err := take(turn)
		if err != nil {
			t.Error(err)
		}
		if err != nil || !ok {
			return admitted
		}
		admitted++
	}
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
