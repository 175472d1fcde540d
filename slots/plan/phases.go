package plan

import (
	"fmt"
	"math/bits"
	"sort"
)

// Mode says where in a window its slots lie.
type Mode string

const (
	// Jitter scatters the slots: irregular for whoever looks at a few, even
	// for whoever counts many. A larger Max adds slots and moves none. It is
	// the default, and "" means the same.
	Jitter Mode = "jitter"
	// Spread puts the slots Window/Max apart, to the microsecond. Another Max
	// moves them all.
	Spread Mode = "spread"
)

// goldenRatio is 2^64/φ, rounded to odd. It is the step of the sequence whose
// points stay evenly spread however many of them are taken.
const goldenRatio = 0x9E3779B97F4A7C15

// phases are the offsets of a window's slots from its start.
//
// The offsets of Jitter are frac(j/φ + seed) of a window, in fixed point of 64
// bits: Fibonacci hashing (Knuth, The Art of Computer Programming, vol. 3, 6.4).
// Of m such points no two are closer than 0.44/m of a window. So they stay
// distinct when they are cut to microseconds, of which there are 3 for each.
type phases struct {
	mode   Mode
	window Ticks
	seed   uint64
	n      int
	// order holds the phases in the order of their offsets. It is nil for
	// Spread, where phase j is the j-th.
	order []int32
}

func newPhases(mode Mode, window Ticks, seed uint64, n int) phases {
	p := phases{mode: mode, window: window, seed: seed, n: n}
	if mode != Spread {
		p.order = goldenOrder(n, seed)
	}
	return p
}

// goldenOrder sorts the phases 0 to n-1 by j*goldenRatio+seed modulo 2^64. On
// the circle the next point after j is found with two numbers only: those of
// the points next to point 0 on either side (V. T. Sós's theorem of three gaps).
func goldenOrder(n int, seed uint64) []int32 {
	after, before, first := 0, 0, 0
	for j := 1; j < n; j++ {
		switch at := uint64(j) * goldenRatio; {
		case after == 0:
			after, before = j, j
		case at < uint64(after)*goldenRatio:
			after = j
		case at > uint64(before)*goldenRatio:
			before = j
		}
		if uint64(j)*goldenRatio+seed < uint64(first)*goldenRatio+seed {
			first = j
		}
	}
	order := make([]int32, n)
	j := first
	for i := range order {
		order[i] = int32(j)
		switch {
		case j < n-after:
			j += after
		case j >= before:
			j -= before
		default:
			j += after - before
		}
	}
	return order
}

// offset returns how long after the start of its window phase j lies.
func (p *phases) offset(j int) Ticks {
	if p.mode == Spread {
		hi, lo := bits.Mul64(uint64(j), uint64(p.window))
		at, _ := bits.Div64(hi, lo, uint64(p.n))
		return Ticks(at)
	}
	at, _ := bits.Mul64(uint64(j)*goldenRatio+p.seed, uint64(p.window))
	return Ticks(at)
}

// at returns the phase that is the rank-th in time.
func (p *phases) at(rank int) int {
	if p.mode == Spread {
		return rank
	}
	return int(p.order[rank])
}

// rank returns the rank of the first phase with an offset of at least least; n
// if there is none.
func (p *phases) rank(least Ticks) int {
	return sort.Search(p.n, func(i int) bool { return p.offset(p.at(i)) >= least })
}

// checkPhases returns an error that says what is allowed.
func checkPhases(mode Mode, window Ticks, n int) error {
	switch {
	case mode != "" && mode != Jitter && mode != Spread:
		return fmt.Errorf("mode: %q is unknown; jitter and spread are allowed", mode)
	case window < MinWindow || window > MaxWindow:
		return fmt.Errorf("window: %d microseconds is out of bounds; PT0.001S to P366D is allowed", window)
	case n < 1:
		return fmt.Errorf("max: %d is too small; at least 1 is allowed", n)
	case n > MaxMax:
		return fmt.Errorf("max: %d is too large; at most %d is allowed", n, MaxMax)
	case Ticks(n) > window/spacing:
		return fmt.Errorf("max: %d is too large for a window of %s; at most %d is allowed, one for each %d microseconds", n, FormatDuration(window), window/spacing, spacing)
	}
	return nil
}
