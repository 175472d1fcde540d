package limit_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/memory"
)

// onlyUpdates hides that the memory store decides by itself.
type onlyUpdates struct{ store limit.Store }

func (o onlyUpdates) Update(ctx context.Context, keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
	return o.store.Update(ctx, keys, fn)
}
func (o onlyUpdates) Delete(ctx context.Context, keys ...string) error {
	return o.store.Delete(ctx, keys...)
}
func (o onlyUpdates) Ping(ctx context.Context) error { return o.store.Ping(ctx) }
func (o onlyUpdates) Close() error                   { return o.store.Close() }

// BenchmarkCombining is what combining costs a decision, with a store that costs
// next to nothing.
func BenchmarkCombining(b *testing.B) {
	for _, callers := range []int{1, 32, 512} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			l := limit.New(onlyUpdates{memory.New(nil)}, nil)
			defer l.Close()
			keys := make([]string, 10_000)
			for i := range keys {
				keys[i] = "user-" + strconv.Itoa(i)
			}
			var next atomic.Int64
			b.ReportAllocs()
			b.SetParallelism((callers + 1) / 2)
			b.RunParallel(func(pb *testing.PB) {
				for i := int(next.Add(7919)); pb.Next(); i++ {
					if d, err := l.Take(b.Context(), unlimited, keys[i%len(keys)], 1); err != nil || !d.Allowed {
						b.Error(d, err)
						return
					}
				}
			})
		})
	}
}
