package algo_test

import (
	"math/big"
	"testing"

	"github.com/stint-dev/stint/limit/algo"
)

// A key that is kept at its limit for long gets exactly its quota per window,
// to the last unit, however badly quota and window divide.
func TestGCRADoesNotDrift(t *testing.T) {
	for _, test := range []struct {
		quota  int64
		window algo.Ticks
	}{
		{1, algo.MaxWindow},
		{1, 86_399_999_983}, // primes
		{7, algo.Millisecond},
		{7, 999_983},
		{999_983, 7_919},
		{100, algo.Minute},
		{3_333_333, algo.Hour},
		{1_000_000_000_000, algo.Millisecond},
		{1_000_000_000_000, algo.MaxWindow},
		{999_999_999_989, 31_535_999_999_999},
	} {
		h := &history{
			a:   algo.GCRA,
			l:   algo.Limit{Quota: test.quota, Window: test.window, Burst: max(2, test.quota)},
			now: 56 * algo.Year,
		}
		begin := h.now
		admitted := big.NewInt(0)
		step := max(1, h.l.Window/97)
		for i := range algo.Ticks(100_000) {
			h.now += step + i%3 // never long enough to fill the bucket
			if cost := h.peek(0).Remaining; cost > 0 && h.spend(cost).OK {
				admitted.Add(admitted, big.NewInt(cost))
			}
		}
		// The bucket was full when the first unit was spent.
		passed := big.NewInt(int64(h.now - begin - step))
		want := passed.Mul(passed, big.NewInt(test.quota))
		want.Add(want.Div(want, big.NewInt(int64(test.window))), big.NewInt(h.l.Burst))
		if admitted.Cmp(want) != 0 {
			t.Errorf("%d per %v admit %d, want %d", test.quota, test.window, admitted, want)
		}
	}
}

// A client that comes back exactly when it was told to gets its quota too.
func TestRetryAfterDoesNotDrift(t *testing.T) {
	const windows = 10_000
	for _, test := range []struct {
		quota  int64
		window algo.Ticks
	}{
		{7, algo.Millisecond},
		{13, 999_983},
		{3, algo.MaxWindow},
	} {
		h := &history{a: algo.GCRA, l: algo.Limit{Quota: test.quota, Window: test.window, Burst: 2}, now: 1}
		end := h.now + windows*h.l.Window
		got := int64(0)
		for h.now <= end {
			if v := h.spend(1); v.OK {
				got++
			} else {
				h.now += max(1, v.RetryAfter)
			}
		}
		if want := h.l.Burst + windows*test.quota; got != want {
			t.Errorf("%d per %v admit %d in %d windows, want %d", test.quota, test.window, got, windows, want)
		}
	}
}

// What every algorithm gives a key that asks again and again, one unit at a
// time, over a hundred windows from the start of one.
func TestSaturatedRate(t *testing.T) {
	const windows = 100
	for _, test := range []struct {
		a     *algo.Algorithm
		quota int64
		want  int64
	}{
		{algo.GCRA, 1, windows},
		{algo.GCRA, 7, 7 * windows},
		{algo.Log, 1, windows},
		{algo.Log, 7, 7 * windows},
		{algo.Fixed, 1, windows},
		{algo.Fixed, 7, 7 * windows},
		{algo.Sliding, 1, windows},
		{algo.Sliding, 2, 2 * windows},
		{algo.Sliding, 7, 7 * windows},
	} {
		h := &history{a: test.a, l: algo.Limit{Quota: test.quota, Window: algo.Second, Burst: 1}, now: algo.Day}
		end := h.now + windows*h.l.Window
		got := int64(0)
		for h.now < end {
			if v := h.spend(1); v.OK {
				got++
			} else {
				h.now += max(1, v.RetryAfter)
			}
		}
		if got != test.want {
			t.Errorf("%s with a quota of %d admits %d in %d windows, want %d", test.a, test.quota, got, windows, test.want)
		}
	}
}
