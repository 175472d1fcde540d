package algo

import (
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
// changes while units are missing refills them at its new rate, from the last
// spend on.
//
// Any interval of length t admits at most Burst + Quota*t/Window units.
var GCRA = &Algorithm{
	Name:     "gcra",
	ID:       'g',
	Decide:   gcra,
	Charge:   gcraCharge,
	Used:     gcraUsed,
	MaxQuota: MaxQuota,
	Bursts:   true,
}

func gcra(l Limit, s State, now Ticks, cost int64) (State, Verdict) {
	if l.Quota == 0 {
		return s, nothing(l, cost)
	}
	lag := max(now, s.At) - now
	now += lag
	missing, part := refill(l, s, now)

	if cost > 0 && (cost > l.Burst-missing || cost == l.Burst-missing && part > 0) {
		// The bucket must first get back what this cost overdraws it by.
		wait := refillTime(l, missing-l.Burst+cost, part)
		return s, Verdict{
			Remaining:  gcraRemaining(l, missing, part),
			RetryAfter: add(lag, wait),
			ResetAfter: add(lag, refillTime(l, missing, part)),
		}
	}
	if missing += cost; missing < 0 {
		missing, part = 0, 0
	}
	v := Verdict{
		OK:         true,
		Remaining:  gcraRemaining(l, missing, part),
		ResetAfter: add(lag, refillTime(l, missing, part)),
	}
	switch {
	case cost == 0:
		return s, v
	case missing == 0 && part == 0:
		return State{}, v
	}
	return State{At: now, A: missing, B: part}, v
}

// gcraCharge takes a spend that is told of late for one at State's own instant:
// what has been refilled since is not known any more. It errs on the safe side,
// by at most what was refilled in between.
func gcraCharge(l Limit, s State, at Ticks, units int64) State {
	if l.Quota == 0 || units == 0 {
		return s
	}
	at = max(at, s.At)
	missing, part := refill(l, s, at)
	return State{At: at, A: sum(missing, units), B: part}
}

// refill returns what is missing from the bucket at now >= s.At: whole units,
// and the numerator over l.Window of one more.
func refill(l Limit, s State, now Ticks) (missing, part int64) {
	missing = max(0, s.A)
	part = min(max(0, s.B), int64(l.Window)-1) // the window may have shrunk since
	hi, lo := numerator(l, missing, part)
	backHi, backLo := bits.Mul64(uint64(l.Quota), uint64(now-s.At))
	lo, borrow := bits.Sub64(lo, backLo, 0)
	hi, borrow = bits.Sub64(hi, backHi, borrow)
	if borrow > 0 {
		return 0, 0
	}
	whole, rest := bits.Div64(hi, lo, uint64(l.Window))
	return int64(whole), int64(rest)
}

// refillTime returns how long it takes to refill whole units and part/Window
// of another, rounded up to a tick.
func refillTime(l Limit, whole, part int64) Ticks {
	hi, lo := numerator(l, whole, part)
	return divUp(hi, lo, uint64(l.Quota))
}

// numerator returns whole units and part/Window of another, times Window.
func numerator(l Limit, whole, part int64) (hi, lo uint64) {
	hi, lo = bits.Mul64(uint64(whole), uint64(l.Window))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	return hi + carry, lo
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

// nothing is the verdict of a quota of 0, under which States are left as they
// are: wait a window, the rule may have changed.
func nothing(l Limit, cost int64) Verdict {
	if cost <= 0 {
		return Verdict{OK: true}
	}
	return Verdict{RetryAfter: l.Window}
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
