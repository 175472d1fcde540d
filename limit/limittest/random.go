package limittest

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// randomly runs property on random input, as often as rapid does or the budget
// allows.
func randomly(t *testing.T, property func(r *rapid.T)) {
	end, failed := time.Now().Add(budget), false
	rapid.Check(t, func(r *rapid.T) {
		if time.Now().After(end) && !failed { // one that has failed is being made smaller
			return
		}
		defer func() { failed = failed || r.Failed() }()
		property(r)
	})
}

// stride moves the clock of a store on, by random spans.
type stride struct {
	h     Harness
	moved algo.Ticks
}

// farthest bounds a stride's way: up to the year 2255 a float64 counts ticks
// exactly, and a store may work with those.
const farthest = 100 * algo.Year

// take moves on by some windows of p at most.
func (s *stride) take(t *testing.T, r *rapid.T, p *limit.Policy) {
	window := int64(p.Limit().Window)
	gap := algo.Ticks(rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(1, 10),
		rapid.Int64Range(0, window/2),
		rapid.Int64Range(0, 3*window),
	).Draw(r, "gap"))
	gap = min(gap, farthest-s.moved)
	s.h.Advance(t, time.Duration(gap)*time.Microsecond)
	s.moved += gap
}

func drawPolicy(r *rapid.T, a *algo.Algorithm) *limit.Policy {
	units := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, min(a.MaxQuota, 1e12)))
	windows := rapid.OneOf(
		rapid.SampledFrom([]algo.Ticks{algo.MinWindow, algo.Second, algo.Minute, algo.Hour, algo.MaxWindow}),
		rapid.Map(rapid.Int64Range(int64(algo.MinWindow), int64(algo.Hour)), func(n int64) algo.Ticks { return algo.Ticks(n) }),
		rapid.Map(rapid.Int64Range(int64(algo.MinWindow), int64(algo.MaxWindow)), func(n int64) algo.Ticks { return algo.Ticks(n) }),
	)
	p := &limit.Policy{
		Name:      "drawn",
		Algorithm: a,
		Quota:     units.Draw(r, "quota"),
		Window:    time.Duration(windows.Draw(r, "window")) * time.Microsecond,
		Burst:     units.Draw(r, "burst"),
	}
	if rapid.IntRange(0, 19).Draw(r, "shut") == 0 {
		p.Quota = 0
	}
	return p
}

// add adds spans of time, saturating.
func add(a, b algo.Ticks) algo.Ticks {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
