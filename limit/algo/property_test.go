package algo_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit/algo"
)

func TestVerdictIsWithinBounds(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		cost := h.drawCost(t)
		s, v := h.a.Decide(h.l, h.s, h.now, cost)
		switch capacity := h.a.Capacity(h.l); {
		case v.Remaining < 0 || v.Remaining > capacity:
			t.Fatalf("remaining %d is not in [0, %d]", v.Remaining, capacity)
		case v.OK && v.RetryAfter != 0, !v.OK && v.RetryAfter <= 0:
			t.Fatalf("ok is %t and retry after %v", v.OK, v.RetryAfter)
		case v.ResetAfter < 0, !v.OK && v.ResetAfter == 0:
			t.Fatalf("ok is %t and reset after %v", v.OK, v.ResetAfter)
		case !v.OK && s != h.s:
			t.Fatalf("denied, yet the state changed from %+v to %+v", h.s, s)
		}
	})
}

func TestStateNeverGoesBackInTime(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		h.now -= min(h.now, h.drawGap(t))
		cost := h.drawCost(t) * rapid.SampledFrom([]int64{1, -1}).Draw(t, "sign")
		before := h.s.At
		if h.spend(cost); h.s.At < before && h.s != (algo.State{}) {
			t.Fatalf("the state went back from %v to %v", before, h.s.At)
		}
	})
}

func TestCostOfZeroOnlyLooks(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		s, v := h.a.Decide(h.l, h.s, h.now, 0)
		if !v.OK || s != h.s {
			t.Fatalf("ok is %t; the state was %+v and is %+v", v.OK, h.s, s)
		}
		if used := h.a.Used(h.l, h.s, h.now); used < 0 || used == 0 && v.Remaining < h.a.Capacity(h.l) {
			t.Fatalf("%g used, %d remaining", used, v.Remaining)
		}
	})
}

func TestRemainingIsExact(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		left := h.peek(0).Remaining
		if left > 0 && !h.peek(left).OK {
			t.Fatalf("%d remaining and denied", left)
		}
		if left < h.a.Capacity(h.l) && h.peek(left+1).OK {
			t.Fatalf("%d remaining and one more is admitted", left)
		}
	})
}

func TestRetryAfterIsSufficientAndMinimal(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		cost := h.drawCost(t)
		h.checkRetryAfter(t, h.now, cost)
	})
}

// checkRetryAfter fails unless a denied cost is admitted after RetryAfter and
// not a tick before.
func (h *history) checkRetryAfter(t *rapid.T, now algo.Ticks, cost int64) {
	v := h.peekAt(now, cost)
	if v.OK || v.RetryAfter >= math.MaxInt64-now {
		return // admitted, or as good as never
	}
	if at := now + v.RetryAfter; !h.peekAt(at, cost).OK {
		t.Fatalf("denied after a retry after %v", v.RetryAfter)
	} else if h.peekAt(at-1, cost).OK {
		t.Fatalf("admitted before a retry after %v", v.RetryAfter)
	}
}

func TestResetAfterIsWhenTheStateEqualsAKeyNeverSeen(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		v := h.peek(0)
		if v.ResetAfter >= math.MaxInt64-h.now {
			return
		}
		at := h.now + v.ResetAfter
		if !h.answersLike(algo.State{}, at) {
			t.Fatalf("the state still counts after %v", v.ResetAfter)
		}
		// Under Proportional the last of the previous frame may count so
		// little that no verdict shows it.
		if v.ResetAfter > 0 && h.a != algo.Proportional && h.answersLike(algo.State{}, at-1) {
			t.Fatalf("the state counts no more before %v", v.ResetAfter)
		}
	})
}

func TestRefundUndoesTake(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		if h.a == algo.Proportional && h.l.Quota > 1<<50 {
			t.Skip("a young frame admits more than 63 bits can count and give back")
		}
		before, cost := h.s, h.drawCost(t)
		if !h.spend(cost).OK {
			return
		}
		if v := h.spend(-cost); !v.OK {
			t.Fatalf("a refund was denied: %+v", v)
		}
		for _, later := range []algo.Ticks{0, 1, h.l.Window / 2, h.l.Window, 2 * h.l.Window} {
			if !h.answersLike(before, h.now+later) {
				t.Fatalf("%v later %+v answers otherwise than %+v", later, h.s, before)
			}
		}
	})
}

func TestRefundGivesBackNoMoreThanWasSpent(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		for range 2 { // two frames can hold more than 63 bits
			h.spend(rapid.SampledFrom([]int64{-math.MaxInt64, math.MinInt64}).Draw(t, "refund"))
		}
		want := algo.Verdict{OK: true, Remaining: h.a.Capacity(h.l)}
		if v := h.peek(0); v != want || h.s != (algo.State{}) {
			t.Fatalf("all that was ever spent is given back: %+v, %+v", h.s, v)
		}
	})
}

func TestClockSteppedBackAdmitsNothingExtra(t *testing.T) {
	overAll(t, func(t *rapid.T, h *history) {
		if !h.spend(h.drawCost(t)).OK {
			return
		}
		back := algo.Ticks(rapid.Int64Range(0, int64(h.now)).Draw(t, "back"))
		cost := h.drawCost(t)
		if h.peekAt(back, cost).OK && !h.peek(cost).OK {
			t.Fatalf("%d is admitted after the clock went back by %v", cost, h.now-back)
		}
		if there, here := h.peekAt(back, 0).Remaining, h.peek(0).Remaining; there > here {
			t.Fatalf("%d remaining, %d after the clock went back by %v", here, there, h.now-back)
		}
		h.checkRetryAfter(t, back, cost)
	})
}

func TestQuotaOfZeroAdmitsNothing(t *testing.T) {
	for _, a := range algo.All {
		h := &history{a: a, l: algo.Limit{Quota: 10, Burst: 10, Window: algo.Minute}, now: 3 * algo.Minute}
		h.spend(4)
		h.l = algo.Limit{Window: algo.Minute}
		kept := h.s
		if v := h.spend(1); v != (algo.Verdict{RetryAfter: algo.Minute}) || h.s != kept {
			t.Errorf("%s: a spend under a quota of 0: %+v, %+v", a, h.s, v)
		}
		for _, cost := range []int64{0, -1} {
			if v := h.spend(cost); v != (algo.Verdict{OK: true}) || h.s != kept {
				t.Errorf("%s: a cost of %d under a quota of 0: %+v, %+v", a, cost, h.s, v)
			}
		}
	}
}
