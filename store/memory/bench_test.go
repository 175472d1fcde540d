package memory

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// benchPolicy denies nothing and lets nothing expire while a benchmark runs.
var benchPolicy = &limit.Policy{Name: "login", Quota: 1000, Window: 24 * time.Hour, Burst: 1e12}

func userKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%07d", i)
	}
	return keys
}

func mustTake(b *testing.B, s *Store, key string) {
	if _, err := s.Take(context.Background(), benchPolicy, key, 1); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkTake(b *testing.B) {
	b.Run("hot", func(b *testing.B) {
		s := New(nil)
		b.ReportAllocs()
		for b.Loop() {
			mustTake(b, s, "user:0000001")
		}
	})
	b.Run("hot/parallel", func(b *testing.B) {
		s := New(nil)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				mustTake(b, s, "user:0000001")
			}
		})
	})
	// A request brings its key in memory of its own, not in the store's.
	var users [4][]string
	for i := range users {
		users[i] = userKeys(1e6)
	}
	anyUser := func(random *rand.Rand) string { return users[1+random.IntN(3)][random.IntN(1e6)] }
	b.Run("1M/parallel", func(b *testing.B) {
		s := New(&Options{MaxKeys: 1 << 21})
		for _, k := range users[0] {
			mustTake(b, s, k)
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for pb.Next() {
				mustTake(b, s, anyUser(random))
			}
		})
	})
	b.Run("1M/parallel/floor", func(b *testing.B) {
		f := newFloor()
		for _, k := range users[0] {
			f.take(k)
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for pb.Next() {
				f.take(anyUser(random))
			}
		})
	})
}

// floor is the least that could do the work: one policy, built-in maps, no
// bound and no expiry.
type floor struct {
	shards [mostShards]struct {
		mu     sync.Mutex
		states map[string]algo.State
		_      [48]byte
	}
	seed  maphash.Seed
	start time.Time
}

func newFloor() *floor {
	f := &floor{seed: maphash.MakeSeed(), start: time.Now()}
	for i := range f.shards {
		f.shards[i].states = map[string]algo.State{}
	}
	return f
}

func (f *floor) take(key string) bool {
	sh := &f.shards[maphash.String(f.seed, key)%mostShards]
	sh.mu.Lock()
	now := algo.Ticks(time.Since(f.start) / time.Microsecond)
	s, v := benchPolicy.Decide(sh.states[key], now, 1)
	sh.states[key] = s
	sh.mu.Unlock()
	return v.OK
}

// BenchmarkClock is the part of a Take that reads the time.
func BenchmarkClock(b *testing.B) {
	now := monotonic(time.Now())
	for b.Loop() {
		now()
	}
}

// BenchmarkInsert meets only keys that are unknown, in a store that is full.
func BenchmarkInsert(b *testing.B) {
	keys := userKeys(1 << 20)
	s := New(&Options{MaxKeys: 1 << 17})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		mustTake(b, s, keys[i%len(keys)])
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 3, 1000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s := New(nil)
			keys := userKeys(n)
			for i, k := range keys {
				keys[i] = limit.StoreKey(benchPolicy, k)
			}
			b.ReportAllocs()
			for b.Loop() {
				err := s.Update(context.Background(), keys, func(now algo.Ticks, cells []limit.Cell) error {
					for i := range cells {
						c := &cells[i]
						var v algo.Verdict
						c.State, v = benchPolicy.Decide(c.State, now, 1)
						c.TTL, c.Dirty = v.ResetAfter, true
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHeap reports the heap that a key takes beyond its own bytes.
func BenchmarkHeap(b *testing.B) {
	for _, n := range []int{6e5, 9e5, 1e6, 13e5} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			keys := userKeys(n)
			own := n * len(limit.StoreKey(benchPolicy, keys[0]))
			for b.Loop() {
				before := heap()
				s := New(&Options{MaxKeys: 1 << 21})
				for _, k := range keys {
					mustTake(b, s, k)
				}
				b.ReportMetric(float64(heap()-before-own)/float64(n), "B/key")
				runtime.KeepAlive(s)
				runtime.KeepAlive(keys)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
