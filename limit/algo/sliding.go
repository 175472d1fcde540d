package algo

import (
	"math"
	"math/bits"
)

// Sliding is the sliding window counter. Time is cut into frames of one Window,
// aligned to the Unix epoch; State.At is the instant of the newest change,
// State.B the units spent in its frame and State.A those of the frame before. At a
// fraction f of the present frame the last Window holds, if the previous frame
// was even,
//
//	used = previous*(1-f) + current
//
// and a cost is admitted while used, in whole units, and cost are no more than
// Quota. Rounding the fading share down makes a key that never lets up get its
// whole Quota in every frame. The estimate errs where the previous frame was
// uneven: units spent at its very end fade as if they had been spread over it,
// and an interval of one Window may admit up to 2*Quota. What it costs is two
// counters.
var Sliding = &Algorithm{
	Name: "sliding",
	ID:   's',
	Decide: func(l Limit, s State, now Ticks, cost int64) (State, Verdict) {
		return slide(l, s, now, cost, false)
	},
	Charge:   slideCharge,
	Used:     func(l Limit, s State, now Ticks) float64 { return slideUsed(l, s, now, false) },
	MaxQuota: MaxQuota,
}

// Proportional is the sliding window counter with both frames weighted by the
// share of the window that lies in them:
//
//	used = previous*(1-f) + current*f
//
// It exists for compatibility with systems that weigh so. Units of the present
// frame hardly count while the frame is young: after an idle frame Quota/f
// units are admitted by the time a fraction f of the frame has passed, without
// bound at its first tick, and are paid for by a block in the next frame. Where
// that matters, use Sliding. Remaining never promises more than Quota.
var Proportional = &Algorithm{
	Name: "sliding-proportional",
	ID:   'p',
	Decide: func(l Limit, s State, now Ticks, cost int64) (State, Verdict) {
		return slide(l, s, now, cost, true)
	},
	Charge:   slideCharge,
	Used:     func(l Limit, s State, now Ticks) float64 { return slideUsed(l, s, now, true) },
	MaxQuota: MaxQuota,
}

func slide(l Limit, s State, now Ticks, cost int64, proportional bool) (State, Verdict) {
	if l.Quota == 0 {
		return s, nothing(l, cost)
	}
	lag := max(now, s.At) - now
	now += lag
	start, previous, current := frames(l, s, now)
	passed := now - start

	if cost > 0 && !fits(l, previous, current, cost, passed, proportional) {
		return s, Verdict{
			Remaining:  slideRemaining(l, previous, current, passed, proportional),
			RetryAfter: add(lag, slideWait(l, previous, current, cost, passed, proportional)),
			ResetAfter: add(lag, slideReset(l, previous, current, passed)),
		}
	}
	if cost > 0 {
		current += min(cost, math.MaxInt64-current) // only Proportional gets that far
	} else {
		// Give back the newest units first: they would count the longest.
		back := -max(cost, -math.MaxInt64)
		newest := min(current, back)
		current -= newest
		previous = max(0, previous-(back-newest))
	}
	v := Verdict{
		OK:         true,
		Remaining:  slideRemaining(l, previous, current, passed, proportional),
		ResetAfter: add(lag, slideReset(l, previous, current, passed)),
	}
	switch {
	case cost == 0:
		return s, v
	case previous == 0 && current == 0:
		return State{}, v
	}
	return State{At: now, A: previous, B: current}, v
}

func slideCharge(l Limit, s State, at Ticks, units int64) State {
	if l.Quota == 0 || units == 0 {
		return s
	}
	now := max(at, s.At)
	start, previous, current := frames(l, s, now)
	switch {
	case at >= start:
		current = sum(current, units)
	case at >= start-l.Window:
		previous = sum(previous, units)
	default:
		return s // of a frame that counts no more
	}
	return State{At: now, A: previous, B: current}
}

// frames returns the frame that holds now >= s.At, and the units spent in the
// frame before it and in it. Frames of a window that has changed since are
// taken as the present window's frames that they began in.
func frames(l Limit, s State, now Ticks) (start Ticks, previous, current int64) {
	start = now - now%l.Window
	switch {
	case s.At >= start:
		return start, max(0, s.A), max(0, s.B)
	case s.At >= start-l.Window:
		return start, max(0, s.B), 0
	}
	return start, 0, 0
}

// faded returns what is left of the previous frame's units, passed into a
// frame, in whole units.
func faded(l Limit, previous int64, passed Ticks) int64 {
	hi, lo := bits.Mul64(uint64(previous), uint64(l.Window-passed))
	whole, _ := bits.Div64(hi, lo, uint64(l.Window))
	return int64(whole)
}

// fits reports whether, passed into a frame, cost fits on top of what is used.
func fits(l Limit, previous, current, cost int64, passed Ticks, proportional bool) bool {
	if !proportional {
		return cost <= l.Quota-current && cost <= l.Quota-current-faded(l, previous, passed)
	}
	if cost > l.Quota {
		return false // whatever the weight
	}
	// previous*(W-passed) + (current+cost)*passed <= Quota*W, in 128 bits
	total := uint64(current) + uint64(cost) // at most 2^64-2
	hi, lo := bits.Mul64(uint64(previous), uint64(l.Window-passed))
	hi2, lo2 := bits.Mul64(total, uint64(passed))
	lo, carry := bits.Add64(lo, lo2, 0)
	hi += hi2 + carry
	roomHi, roomLo := bits.Mul64(uint64(l.Quota), uint64(l.Window))
	return hi < roomHi || hi == roomHi && lo <= roomLo
}

// slideRemaining returns the largest cost that fits, at most Quota.
func slideRemaining(l Limit, previous, current int64, passed Ticks, proportional bool) int64 {
	if !proportional {
		return max(0, l.Quota-min(l.Quota, current)-faded(l, previous, passed))
	}
	hi, lo := bits.Mul64(uint64(l.Quota), uint64(l.Window))
	usedHi, usedLo := bits.Mul64(uint64(previous), uint64(l.Window-passed))
	lo, borrow := bits.Sub64(lo, usedLo, 0)
	hi, borrow = bits.Sub64(hi, usedHi, borrow)
	if borrow > 0 {
		return 0
	}
	if hi >= uint64(passed) {
		return l.Quota // the weight is 0, or so small that 2^64 units fit
	}
	room, _ := bits.Div64(hi, lo, uint64(passed))
	if room <= uint64(current) {
		return 0
	}
	return int64(min(room-uint64(current), uint64(l.Quota)))
}

// slideWait returns the least wait after which cost, which does not fit now, fits.
func slideWait(l Limit, previous, current, cost int64, passed Ticks, proportional bool) Ticks {
	if cost > l.Quota {
		return l.Window // it will never fit
	}
	if at, ok := earliest(l, previous, current, cost, passed, proportional); ok {
		return at - passed
	}
	wait := l.Window - passed // into the next frame, whose previous is this current
	if at, ok := earliest(l, current, 0, cost, 0, proportional); ok {
		return wait + at
	}
	return wait + l.Window // in the frame after that nothing is left
}

// earliest returns the least instant of a frame, not before from, at which
// cost fits. What is used is linear in time, so there is one solution.
func earliest(l Limit, previous, current, cost int64, from Ticks, proportional bool) (Ticks, bool) {
	if fits(l, previous, current, cost, from, proportional) {
		return from, true
	}
	// The least passed with previous*(W-passed) + total*w <= Quota*W, where
	// used falls as time passes.
	var at Ticks
	if proportional {
		total := uint64(current) + uint64(cost)
		if total >= uint64(previous) || previous <= l.Quota {
			return 0, false
		}
		hi, lo := bits.Mul64(uint64(previous-l.Quota), uint64(l.Window))
		at = divUp(hi, lo, uint64(previous)-total)
	} else {
		if cost > l.Quota-current {
			return 0, false
		}
		at = fadedTo(l, previous, l.Quota-current-cost)
	}
	return at, at < l.Window
}

// fadedTo returns the least instant of a frame at which no more than room is
// left of previous, which is more than that at its start.
func fadedTo(l Limit, previous, room int64) Ticks {
	// The greatest W-passed with previous*(W-passed) < (room+1)*W.
	hi, lo := bits.Mul64(uint64(room)+1, uint64(l.Window))
	lo, borrow := bits.Sub64(lo, 1, 0)
	left, _ := bits.Div64(hi-borrow, lo, uint64(previous))
	return l.Window - Ticks(left)
}

// slideReset returns how long it takes until neither frame counts any more.
func slideReset(l Limit, previous, current int64, passed Ticks) Ticks {
	switch {
	case current > 0:
		return 2*l.Window - passed
	case previous > 0:
		return l.Window - passed
	}
	return 0
}

func slideUsed(l Limit, s State, now Ticks, proportional bool) float64 {
	start, previous, current := frames(l, s, max(now, s.At))
	f := float64(max(now, s.At)-start) / float64(l.Window)
	used := float64(previous) * (1 - f)
	if proportional {
		return used + float64(current)*f
	}
	return used + float64(current)
}
