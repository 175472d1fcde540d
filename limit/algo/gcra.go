package algo

import (
	"fmt"
	"math"
	"math/bits"
)

// GCRA is the generic cell rate algorithm of ITU-T I.371, which is a token
// bucket that holds Burst units and is refilled, evenly, with Quota units in
// every Window.
//
// It is kept as the bucket's deficit rather than as a theoretical arrival
// time: State.A is the whole units missing from a full bucket and State.B the
// numerator, over Window, of the unit that is partly refilled. Both are
// integers, so refilling is exact for any quota and window; and a limit that
// changes while units are missing refills what is missing at its new rate.
//
// Any interval of length t admits at most Burst + Quota*t/Window units.
var GCRA = &Algorithm{
	Name:     "gcra",
	ID:       'g',
	Decide:   gcra,
	Used:     gcraUsed,
	Capacity: func(l Limit) int64 { return l.Burst },
	Check: func(l Limit) error {
		if err := check(l); err != nil {
			return err
		}
		if l.Quota > 0 && l.Burst < 1 {
			return fmt.Errorf("burst: %d is too small; at least 1 is allowed", l.Burst)
		}
		return nil
	},
}

func gcra(l Limit, s State, now Ticks, cost int64) (State, Verdict) {
	if l.Quota == 0 {
		return s, nothing(l, cost)
	}
	lag := max(0, s.At-now)
	now += lag
	missing, part := refill(l, s, now)

	if cost > l.Burst-missing || cost > 0 && cost == l.Burst-missing && part > 0 {
		// The bucket must first get back what this cost overdraws it by.
		wait := refillTime(l, missing-l.Burst+cost, part)
		return s, Verdict{
			Remaining:  gcraRemaining(l, missing, part),
			RetryAfter: add(lag, wait),
			ResetAfter: add(lag, refillTime(l, missing, part)),
		}
	}
	if cost >= 0 {
		missing += cost
	} else if missing += cost; missing < 0 {
		missing, part = 0, 0
	}
	kept := State{At: now, A: missing, B: part}
	if missing == 0 && part == 0 {
		kept = State{}
	}
	if cost == 0 {
		kept = s
	}
	return kept, Verdict{
		OK:         true,
		Remaining:  gcraRemaining(l, missing, part),
		ResetAfter: add(lag, refillTime(l, missing, part)),
	}
}

// refill returns what is missing from the bucket at now >= s.At: whole units,
// and the numerator over l.Window of one more.
func refill(l Limit, s State, now Ticks) (missing, part int64) {
	missing, part = s.A, min(s.B, int64(l.Window)-1) // the window may have shrunk since
	if missing == 0 && part == 0 {
		return 0, 0
	}
	hi, lo := bits.Mul64(uint64(l.Quota), uint64(now-s.At))
	if hi >= uint64(l.Window) {
		return 0, 0 // more than 2^64 units came back
	}
	whole, rest := bits.Div64(hi, lo, uint64(l.Window))
	if whole > uint64(missing) || whole == uint64(missing) && rest >= uint64(part) {
		return 0, 0
	}
	missing -= int64(whole)
	if part -= int64(rest); part < 0 {
		part += int64(l.Window)
		missing--
	}
	return missing, part
}

// refillTime returns how long it takes to refill whole units and part/Window
// of another, rounded up to a tick.
func refillTime(l Limit, whole, part int64) Ticks {
	hi, lo := bits.Mul64(uint64(whole), uint64(l.Window))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	return divUp(hi+carry, lo, uint64(l.Quota))
}

func gcraRemaining(l Limit, missing, part int64) int64 {
	left := l.Burst - missing
	if part > 0 {
		left--
	}
	return max(0, left)
}

func gcraUsed(l Limit, s State, now Ticks) float64 {
	missing, part := refill(l, s, max(now, s.At))
	return float64(missing) + float64(part)/float64(l.Window)
}

// nothing is the verdict of a quota of 0: wait a window, the rule may have changed.
func nothing(l Limit, cost int64) Verdict {
	if cost <= 0 {
		return Verdict{OK: true}
	}
	return Verdict{RetryAfter: l.Window}
}

// check holds for every algorithm.
func check(l Limit) error {
	switch {
	case l.Quota < 0:
		return fmt.Errorf("quota: %d is negative; 0 (admit nothing) or more is allowed", l.Quota)
	case l.Window < MinWindow || l.Window > MaxWindow:
		return fmt.Errorf("window: %v is out of bounds; 1ms to 365d is allowed", l.Window)
	}
	return nil
}

// add adds spans of time, saturating.
func add(a, b Ticks) Ticks {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// divUp returns ceil(hi:lo / d) as Ticks, saturating.
func divUp(hi, lo, d uint64) Ticks {
	if hi >= d {
		return math.MaxInt64
	}
	q, r := bits.Div64(hi, lo, d)
	if r > 0 {
		q++
	}
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return Ticks(q)
}
