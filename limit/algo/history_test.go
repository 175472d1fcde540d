package algo_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit/algo"
)

// lastInstant is in the year 2255, the last that a Lua number counts exactly.
const lastInstant = algo.Ticks(1) << 53

// history is one key that has been decided on for some time.
type history struct {
	a   *algo.Algorithm
	l   algo.Limit
	s   algo.State
	now algo.Ticks
}

// overAll runs property on random histories of every algorithm.
func overAll(t *testing.T, property func(t *rapid.T, h *history)) {
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, drawHistory(t, a)) })
		})
	}
}

// drawHistory spends, fails to spend and gives back, at instants from now to
// years apart; the limit may change meanwhile.
func drawHistory(t *rapid.T, a *algo.Algorithm) *history {
	h := &history{a: a, l: drawLimit(t, a), now: algo.Ticks(rapid.Int64Range(0, int64(lastInstant)).Draw(t, "start"))}
	for range rapid.IntRange(0, 12).Draw(t, "steps") {
		if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
			h.l = drawLimit(t, a)
		}
		h.now += h.drawGap(t)
		cost := h.drawCost(t)
		if rapid.IntRange(0, 4).Draw(t, "give back") == 0 {
			cost = -cost
		}
		h.spend(cost)
	}
	h.now += h.drawGap(t)
	return h
}

func drawLimit(t *rapid.T, a *algo.Algorithm) algo.Limit {
	units := func(most int64, label string) int64 {
		return rapid.OneOf(
			rapid.Int64Range(1, 10),
			rapid.Int64Range(1, min(most, 1e12)),
			rapid.Int64Range(1, most),
			rapid.Just(most),
		).Draw(t, label)
	}
	return algo.Limit{
		Quota:  units(a.MaxQuota, "quota"),
		Burst:  units(math.MaxInt64, "burst"),
		Window: drawWindow().Draw(t, "window"),
	}
}

func drawWindow() *rapid.Generator[algo.Ticks] {
	return rapid.OneOf(
		rapid.SampledFrom([]algo.Ticks{algo.MinWindow, algo.Second, algo.Minute, algo.Hour, algo.Day, algo.MaxWindow}),
		rapid.Map(rapid.Int64Range(int64(algo.MinWindow), int64(algo.MaxWindow)), func(n int64) algo.Ticks { return algo.Ticks(n) }),
	)
}

func (h *history) drawGap(t *rapid.T) algo.Ticks {
	return algo.Ticks(rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(1, 10),
		rapid.Int64Range(0, int64(h.l.Window)/2),
		rapid.Int64Range(0, 3*int64(h.l.Window)),
		rapid.Int64Range(0, int64(20*algo.Year)),
	).Draw(t, "gap"))
}

// drawCost returns a cost from 1 to the capacity, often one that just fits or
// just does not.
func (h *history) drawCost(t *rapid.T) int64 {
	capacity, left := h.a.Capacity(h.l), h.peek(0).Remaining
	cost := rapid.OneOf(
		rapid.Just(int64(1)),
		rapid.Just(left),
		rapid.Just(min(left, capacity-1)+1),
		rapid.Int64Range(1, capacity),
		rapid.Just(capacity),
	).Draw(t, "cost")
	return max(1, cost)
}

func (h *history) spend(cost int64) algo.Verdict {
	s, v := h.a.Decide(h.l, h.s, h.now, cost)
	h.s = s
	return v
}

func (h *history) peek(cost int64) algo.Verdict { return h.peekAt(h.now, cost) }

func (h *history) peekAt(now algo.Ticks, cost int64) algo.Verdict {
	_, v := h.a.Decide(h.l, h.s, now, cost)
	return v
}

// answersLike reports whether s and h's own State give the same verdicts at now.
func (h *history) answersLike(s algo.State, now algo.Ticks) bool {
	capacity, left := h.a.Capacity(h.l), h.peekAt(now, 0).Remaining
	for _, cost := range []int64{0, 1, left, min(left, capacity-1) + 1, capacity, -1, -capacity} {
		if _, v := h.a.Decide(h.l, s, now, cost); v != h.peekAt(now, cost) {
			return false
		}
	}
	return true
}
