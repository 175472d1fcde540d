package algo_test

import (
	"testing"

	"github.com/stint-dev/stint/limit/algo"
)

func BenchmarkDecide(b *testing.B) {
	for _, a := range algo.All {
		l := algo.Limit{Quota: 100, Window: algo.Minute, Burst: 100}
		b.Run(a.Name+"/admitted", func(b *testing.B) {
			benchmarkDecide(b, a, l, algo.Second)
		})
		b.Run(a.Name+"/denied", func(b *testing.B) {
			benchmarkDecide(b, a, l, algo.Microsecond)
		})
	}
	b.Run("log/quota=4096", func(b *testing.B) {
		benchmarkDecide(b, algo.Log, algo.Limit{Quota: 4096, Window: 4096 * algo.Millisecond}, algo.Millisecond)
	})
}

// benchmarkDecide spends one unit every gap, on a key that has been in use for
// some time.
func benchmarkDecide(b *testing.B, a *algo.Algorithm, l algo.Limit, gap algo.Ticks) {
	b.ReportAllocs()
	var s algo.State
	now := 1000 * algo.Day
	for range 2 * l.Quota {
		now += gap
		s, _ = a.Decide(l, s, now, 1)
	}
	for b.Loop() {
		now += gap
		s, _ = a.Decide(l, s, now, 1)
	}
}
