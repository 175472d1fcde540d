package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPhasesAreDistinctAndInOrder(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, p phases) {
		seen := make([]bool, p.n)
		last := Ticks(-1)
		for rank := range p.n {
			j := p.at(rank)
			at := p.offset(j)
			if seen[j] || at <= last || at >= p.window {
				t.Fatalf("%d phases of %s, seed %d: phase %d, at %d, follows %d", p.n, FormatDuration(p.window), p.seed, j, at, last)
			}
			seen[j], last = true, at
		}
	}
	for n := 1; n <= 333; n++ {
		check(t, newPhases(Jitter, MinWindow, 0, n))
		check(t, newPhases(Spread, MinWindow, 0, n))
	}
	for _, window := range []Ticks{3 * MaxMax, Day, MaxWindow} {
		check(t, newPhases(Jitter, window, 1<<63-1, 1_000_000))
		check(t, newPhases(Spread, window, 0, 1_000_000))
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		window := max(MinWindow, Ticks(n)*spacing+Ticks(rapid.IntRange(0, 5000).Draw(t, "more")))
		check(t, newPhases(Jitter, window, rapid.Uint64().Draw(t, "seed"), n))
	})
}

func TestRankIsTheFirstPhaseThatIsNotBefore(t *testing.T) {
	for _, mode := range []Mode{Jitter, Spread} {
		p := newPhases(mode, MinWindow, 42, 100)
		for least := range p.window {
			var want []Ticks
			for rank := range p.n {
				if at := p.offset(p.at(rank)); at >= least {
					want = append(want, at)
				}
			}
			if rank := p.rank(least); rank != p.n-len(want) {
				t.Fatalf("%s: %d: rank %d, %d phases follow", mode, least, rank, len(want))
			}
		}
	}
}

// However many phases there are, and in whatever part of the window one looks:
// their number is that of an even spread, give or take two.
func TestJitterIsSmoothAtEveryScale(t *testing.T) {
	for _, n := range []int{10, 100, 1000} {
		p := newPhases(Jitter, Day, 7, n)
		for parts := Ticks(2); parts <= Ticks(n); parts++ {
			for part := range parts {
				got := p.rank((part+1)*(Day/parts)) - p.rank(part*(Day/parts))
				if even := float64(n) / float64(parts); float64(got) > even+3 || float64(got) < even-3 {
					t.Fatalf("%d of %d phases in part %d of %d", got, n, part, parts)
				}
			}
		}
	}
}

func TestMorePhasesLeaveTheOldOnesWhereTheyAre(t *testing.T) {
	few, many := newPhases(Jitter, Second, 3, 100), newPhases(Jitter, Second, 3, 1000)
	for j := range few.n {
		if few.offset(j) != many.offset(j) {
			t.Fatalf("phase %d moves from %d to %d", j, few.offset(j), many.offset(j))
		}
	}
}

func TestSpreadIsEven(t *testing.T) {
	p := newPhases(Spread, 4*Second, 0, 7)
	var gaps []Ticks
	for j := 1; j < p.n; j++ {
		gaps = append(gaps, p.offset(j)-p.offset(j-1))
	}
	gaps = append(gaps, p.window-p.offset(p.n-1))
	if slices.Min(gaps) < 571_428 || slices.Max(gaps) > 571_429 {
		t.Errorf("gaps of a seventh of 4s: %v", gaps)
	}
}
