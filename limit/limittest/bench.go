package limittest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Bench measures the stores of h: single updates, updates of one hot key and
// of many keys by parallel callers, and updates of several keys at once.
func Bench(b *testing.B, h Harness) {
	p := year(algo.GCRA, 1e12)
	b.Run("one caller", func(b *testing.B) {
		s := h.open(b)
		b.ReportAllocs()
		for b.Loop() {
			mustSpend(b, s, p, "alice")
		}
	})
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("parallel callers/keys=%d", keys), func(b *testing.B) {
			s := h.open(b)
			var callers atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := int(callers.Add(1)) * 7919; pb.Next(); i++ {
					mustSpend(b, s, p, fmt.Sprint("user ", i%keys))
				}
			})
		})
	}
	b.Run("keys at once=100", func(b *testing.B) {
		s := h.open(b)
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprint("user ", i)
		}
		b.ReportAllocs()
		for b.Loop() {
			update(b, s, count, keys...)
		}
	})
}

func mustSpend(b *testing.B, s limit.Store, p *limit.Policy, key string) {
	if v, err := spend(context.Background(), s, p, key, 1); err != nil || !v.OK {
		b.Errorf("%+v, %v", v, err)
	}
}
