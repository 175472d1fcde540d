package algo_test

import (
	"math"
	"testing"

	"github.com/stint-dev/stint/limit/algo"
)

// FuzzDecide gives the algorithms States that no algorithm has written: a
// store may hold anything.
func FuzzDecide(f *testing.F) {
	valid, _ := algo.Log.Decide(algo.Limit{Quota: 5, Window: algo.Minute}, algo.State{}, algo.Day, 3)
	const least, most = math.MinInt64, math.MaxInt64
	for i := range algo.All {
		for _, at := range []int64{least, -1, int64(algo.Day), most} {
			for _, n := range []int64{least, -1, most} {
				for _, log := range []string{valid.Entries(), "\x80\x80\x01\x01\x80", valid.Entries()[:len(valid.Entries())-1] + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01"} {
					f.Add(uint8(i), int64(100), int64(algo.Minute), int64(10), at, n, n, log, int64(algo.Day), int64(2))
				}
				f.Add(uint8(i), int64(most), int64(algo.MaxWindow), int64(most), at, n, n, "", int64(most), int64(most))
				f.Add(uint8(i), int64(1), int64(algo.MinWindow), int64(1), at, n, n, "", int64(0), int64(least))
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, quota, window, burst, at, a, b int64, log string, now, cost int64) {
		l := algo.Limit{Quota: quota, Window: algo.Ticks(window), Burst: burst}
		h := &history{a: algo.All[int(which)%len(algo.All)], l: l, s: algo.State{At: algo.Ticks(at), A: a, B: b}.WithEntries(log), now: algo.Ticks(now)}
		if now < 0 || l.Quota == 0 || h.a.Check(l) != nil {
			t.Skip()
		}
		if used := h.a.Used(l, h.s, h.now); !(used >= 0 && used < math.Inf(1)) {
			t.Errorf("%g used", used)
		}
		for range 2 { // the second time on what the first has kept
			before := h.s
			v := h.spend(cost)
			switch {
			case v.OK != (v.RetryAfter == 0), v.RetryAfter < 0, v.ResetAfter < 0:
				t.Errorf("%s: %+v", h.a, v)
			case v.Remaining < 0 || v.Remaining > h.a.Capacity(l):
				t.Errorf("%s: %d remaining of %d", h.a, v.Remaining, h.a.Capacity(l))
			case cost <= 0 && !v.OK, cost > h.a.Capacity(l) && v.OK:
				t.Errorf("%s: a cost of %d: ok is %t", h.a, cost, v.OK)
			case !v.OK && !h.s.Equal(before), cost == 0 && !h.s.Equal(before):
				t.Errorf("%s: %+v became %+v", h.a, before, h.s)
			}
		}
	})
}
