package bench

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const keys = 1 << 20

// newKey returns a key of 16 letters, as many identifiers are.
func newKey(i int) string {
	return strconv.FormatUint(uint64(i)*0x9e3779b97f4a7c15|1<<63, 16)
}

// BenchmarkKeys takes from a million keys in random order. All are known, and
// none is ever used up or refilled so far that it could be forgotten.
func BenchmarkKeys(b *testing.B) {
	names := make([]string, keys)
	for i := range names {
		names[i] = newKey(i)
	}
	for _, s := range subjects {
		take, done := s.open(b, quota{units: 10_000, window: 24 * time.Hour})
		for _, key := range names {
			take(strings.Clone(key)) // a later request brings a key of its own
		}
		runtime.GC()
		b.Run(s.name, func(b *testing.B) {
			measure(b, true, take, func() func() string {
				random := rand.NewPCG(rand.Uint64(), rand.Uint64())
				return func() string { return names[random.Uint64()%keys] }
			})
		})
		done()
	}
}

// BenchmarkHotKeyAdmitted takes from one key, whose quota is never used up.
func BenchmarkHotKeyAdmitted(b *testing.B) {
	for _, s := range subjects {
		b.Run(s.name, func(b *testing.B) {
			take, done := s.open(b, quota{units: 1_000_000_000, window: time.Hour})
			defer done()
			measure(b, true, take, oneKey)
		})
	}
}

// BenchmarkHotKeyDenied takes from one key, whose quota is used up.
func BenchmarkHotKeyDenied(b *testing.B) {
	for _, s := range subjects {
		b.Run(s.name, func(b *testing.B) {
			take, done := s.open(b, quota{units: 1, window: time.Hour})
			defer done()
			take(newKey(0))
			measure(b, false, take, oneKey)
		})
	}
}

func oneKey() func() string {
	key := newKey(0)
	return func() string { return key }
}

// measure takes from all processors at once. newKeys is called once for each.
func measure(b *testing.B, want bool, take take, newKeys func() func() string) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		next := newKeys()
		for pb.Next() {
			if take(next()) != want {
				b.Error("wrong decision")
				return
			}
		}
	})
}

// BenchmarkHeap measures what a million keys take in memory, names included.
func BenchmarkHeap(b *testing.B) {
	for _, s := range subjects {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				take, done := s.open(b, quota{units: 10_000, window: 24 * time.Hour})
				for i := range keys {
					take(newKey(i))
				}
				b.ReportMetric(float64(heap()-before)/keys, "heap-B/key")
				runtime.KeepAlive(take)
				done()
			}
			b.ReportMetric(0, "ns/op") // leaves it out
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
