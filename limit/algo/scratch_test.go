package algo_test

import (
	"github.com/stint-dev/stint/limit/algo"
	"math"
	"testing"
)

func TestScratch(t *testing.T) {
	for _, a := range algo.All {
		l := algo.Limit{Quota: 100, Window: algo.Minute, Burst: 100}
		now := algo.Ticks(1e15)
		s, _ := a.Decide(l, algo.State{}, now, 100)
		low := algo.Limit{Quota: 5, Window: algo.Minute, Burst: 5}
		_, v := a.Decide(low, s, now, 0)
		t.Log(a, "lowered cost 0", v)
		_, v = a.Decide(low, s, now, -10)
		t.Log(a, "lowered refund", v)
		r, v := a.Decide(l, s, now, math.MinInt64)
		t.Log(a, "min refund", r, v)
		// clock back 1h, saturated
		n := 0
		for range 1000 {
			s2, v := a.Decide(l, s, now-algo.Hour, 100)
			if v.OK {
				n++
			}
			s = s2
		}
		t.Log(a, "stepped back admits", n, "x quota")
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Log(a, "PANIC", r)
				}
			}()
			for _, x := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
				for _, y := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
					for _, z := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
						a.Decide(l, algo.State{At: algo.Ticks(x), A: y, B: z, Log: "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}, now, 3)
					}
				}
			}
		}()
	}
}
func BenchmarkDecide(b *testing.B) {
	for _, a := range algo.All {
		for _, q := range []int64{100, 1_000_000_000} {
			l := algo.Limit{Quota: q, Window: algo.Minute, Burst: q}
			b.Run(a.Name, func(b *testing.B) {
				if a.Check(l) != nil {
					b.Skip()
				}
				b.ReportAllocs()
				var s algo.State
				now := algo.Ticks(1e15)
				for b.Loop() {
					now += 7
					s, _ = a.Decide(l, s, now, 1)
				}
			})
		}
	}
}
