package algo_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit/algo"
)

// A reference is an algorithm in rational numbers of any size, written from
// its definition: slow, and plainly right.
type reference interface {
	decide(now algo.Ticks, cost int64) algo.Verdict
}

func TestVerdictsEqualThoseOfRationalArithmetic(t *testing.T) {
	for a, model := range map[*algo.Algorithm]func(algo.Limit) reference{
		algo.GCRA:         func(l algo.Limit) reference { return &bucket{l: l, missing: new(big.Rat)} },
		algo.Sliding:      func(l algo.Limit) reference { return &window{l: l} },
		algo.Proportional: func(l algo.Limit) reference { return &window{l: l, proportional: true} },
	} {
		t.Run(a.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h := &history{a: a, l: drawLimit(t, a), now: algo.Ticks(rapid.Int64Range(0, int64(lastInstant)).Draw(t, "start"))}
				if a == algo.Proportional {
					h.l.Quota = min(h.l.Quota, 1<<50) // keeps its count below 63 bits
				}
				reference := model(h.l)
				for range rapid.IntRange(1, 40).Draw(t, "steps") {
					h.now += h.drawGap(t)
					cost := h.drawCost(t)
					want, got := reference.decide(h.now, cost), h.spend(cost)
					if got != want {
						t.Fatalf("%d at %d under %+v: got %+v, want %+v", cost, h.now, h.l, got, want)
					}
				}
			})
		})
	}
}

// bucket is the token bucket: what is missing from it is refilled at
// Quota/Window, never below 0.
type bucket struct {
	l       algo.Limit
	missing *big.Rat
	at      algo.Ticks
}

func (b *bucket) decide(now algo.Ticks, cost int64) algo.Verdict {
	rate := big.NewRat(b.l.Quota, int64(b.l.Window))
	back := new(big.Rat).Mul(rate, integer(int64(now-b.at)))
	b.missing.Sub(b.missing, back)
	if b.missing.Sign() < 0 {
		b.missing.SetInt64(0)
	}
	b.at = now

	var v algo.Verdict
	after := new(big.Rat).Add(b.missing, integer(cost))
	overdrawn := new(big.Rat).Sub(after, integer(b.l.Burst))
	if v.OK = overdrawn.Sign() <= 0; v.OK {
		b.missing = after
	} else {
		v.RetryAfter = span(ceil(overdrawn.Quo(overdrawn, rate)))
	}
	v.Remaining = floor(new(big.Rat).Sub(integer(b.l.Burst), b.missing)).Int64()
	v.ResetAfter = span(ceil(new(big.Rat).Quo(b.missing, rate)))
	return v
}

// window is the sliding window counter, with the units of every frame.
type window struct {
	l            algo.Limit
	proportional bool
	frame        int64 // the present one
	units        [2]int64
}

func (w *window) decide(now algo.Ticks, cost int64) algo.Verdict {
	frame, passed := int64(now/w.l.Window), int64(now%w.l.Window)
	for range min(2, frame-w.frame) {
		w.units = [2]int64{w.units[1], 0}
	}
	w.frame = frame

	var v algo.Verdict
	if v.OK = w.fits(w.units, cost, passed); v.OK {
		w.units[1] += cost
	} else {
		v.RetryAfter = algo.Ticks(w.wait(cost, passed))
	}
	v.Remaining = w.remaining(passed)
	if length := int64(w.l.Window); w.units[1] > 0 {
		v.ResetAfter = algo.Ticks(2*length - passed)
	} else if w.units[0] > 0 {
		v.ResetAfter = algo.Ticks(length - passed)
	}
	return v
}

func (w *window) weights(passed int64) (previous, current *big.Rat) {
	f := big.NewRat(passed, int64(w.l.Window))
	previous, current = new(big.Rat).Sub(integer(1), f), integer(1)
	if w.proportional {
		current = f
	}
	return previous, current
}

func (w *window) fits(units [2]int64, cost, passed int64) bool {
	previous, current := w.weights(passed)
	used := previous.Mul(previous, integer(units[0]))
	if !w.proportional {
		used.SetInt(floor(used)) // whole units
	}
	counted := new(big.Rat).Add(integer(units[1]), integer(cost))
	used.Add(used, counted.Mul(counted, current))
	return used.Cmp(integer(w.l.Quota)) <= 0
}

// remaining is the most that fits, up to the quota.
func (w *window) remaining(passed int64) int64 {
	return most(w.l.Quota, func(cost int64) bool { return w.fits(w.units, cost, passed) })
}

// wait looks for the first instant at which cost fits: in the rest of this
// frame, in the next and in the one after. Within a frame what is used changes
// at an even rate, so it falls, or it rises and the first instant is as good
// as any.
func (w *window) wait(cost, passed int64) int64 {
	length := int64(w.l.Window)
	begin, units := passed, w.units
	for before := int64(0); ; before += length {
		if w.fits(units, cost, begin) {
			return before + begin - passed
		}
		if w.fits(units, cost, length-1) {
			early := most(length-1-begin, func(n int64) bool { return !w.fits(units, cost, begin+n) })
			return before + begin + early + 1 - passed
		}
		begin, units = 0, [2]int64{units[1], 0}
	}
}

// most returns the largest n from 0 to limit with holds(n), by bisection, or 0.
func most(limit int64, holds func(int64) bool) int64 {
	low, high := int64(0), limit
	for low < high {
		middle := high - (high-low)/2
		if holds(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

func integer(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

func ceil(r *big.Rat) *big.Int {
	n := floor(new(big.Rat).Neg(r))
	return n.Neg(n)
}

// span converts n to Ticks, of which there are no more than 63 bits.
func span(n *big.Int) algo.Ticks {
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return algo.Ticks(n.Int64())
}
