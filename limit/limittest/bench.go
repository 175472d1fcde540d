package limittest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Bench measures the stores of h: single updates, updates of one hot key and
// of many keys by parallel callers, updates of several keys at once and, where
// the store has them, swaps and takes of many keys in one trip.
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
		keys := joined(b, s, 100)
		if len(keys) < 100 {
			b.Skip("the store cannot change so many keys together")
		}
		b.ReportAllocs()
		for b.Loop() {
			update(b, s, count, keys...)
		}
	})
	b.Run("swapped cells=1000", func(b *testing.B) { benchSwap(b, h.open(b), 1000) })
	for _, keys := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("taken in bulk/keys=%d", keys), func(b *testing.B) { benchTakeBulk(b, h.open(b), keys) })
	}
}

// benchSwap commits n cells again and again. An operation is all of them.
func benchSwap(b *testing.B, s limit.Store, n int) {
	if _, ok := s.(limit.Swapper); !ok {
		b.Skip("the store is no limit.Swapper")
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("user ", i)
	}
	cells := load(b, s, keys...)
	b.ReportAllocs()
	for b.Loop() {
		countUp(cells)
		swap(b, s, cells)
	}
	for _, c := range cells {
		if !c.Dirty {
			b.Fatalf("%q is not committed", c.Key)
		}
	}
}

// benchTakeBulk takes from n keys again and again, under a policy that nobody can
// exhaust. An operation is all of them.
func benchTakeBulk(b *testing.B, s limit.Store, n int) {
	p := &limit.Policy{Name: "second", Algorithm: algo.GCRA, Quota: 1e6, Window: time.Second}
	bulk, ok := s.(limit.BulkTaker)
	if !ok || !bulk.TakesBulk(p, 1) {
		b.Skip("the store is no limit.BulkTaker, or not under this policy")
	}
	takes := make([]limit.Take, n)
	for i := range takes {
		takes[i] = limit.Take{Policy: p, Key: limit.StoreKey(p, fmt.Sprint("user ", i)), Cost: 1, Times: 1}
	}
	b.ReportAllocs()
	for b.Loop() {
		if admitted, _ := takeBulk(b, bulk, takes); admitted[0] != 1 {
			b.Fatal("a take is denied")
		}
	}
}

func mustSpend(b *testing.B, s limit.Store, p *limit.Policy, key string) {
	if v, err := spend(context.Background(), s, p, key, 1); err != nil || !v.OK {
		b.Errorf("%+v, %v", v, err)
	}
}
