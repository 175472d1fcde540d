package limit_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/memory"
)

var unlimited = &limit.Policy{Name: "bench", Quota: 1e9, Window: time.Hour}

func BenchmarkTakeHotKey(b *testing.B) {
	l := limit.New(memory.New(nil), nil)
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := l.Take(ctx, unlimited, "alex", 1); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
}

func BenchmarkTakeMillionKeys(b *testing.B) {
	keys := make([]string, 1_000_000)
	for i := range keys {
		keys[i] = "user-" + strconv.Itoa(i)
	}
	l := limit.New(memory.New(nil), nil)
	ctx := b.Context()
	for _, k := range keys {
		l.Take(ctx, unlimited, k, 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		at := rand.IntN(len(keys))
		for pb.Next() {
			at = (at + 514_229) % len(keys) // visits all, in no useful order
			if d, err := l.Take(ctx, unlimited, keys[at], 1); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
}

func BenchmarkTakeAllOfThree(b *testing.B) {
	l := limit.New(memory.New(nil), nil)
	ctx := b.Context()
	second, minute := *unlimited, *unlimited
	second.Name, minute.Name = "second", "minute"
	spends := []limit.Spend{{Policy: unlimited, Key: "alex", Cost: 1}, {Policy: &second, Key: "alex", Cost: 1}, {Policy: &minute, Key: "alex", Cost: 1}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.TakeAll(ctx, spends); err != nil {
			b.Fatal(err)
		}
	}
}
