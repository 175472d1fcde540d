package plan

import (
	"math"
	"slices"
	"sort"
)

// makesRoom reports whether there may be slots that the span's windows have to
// make room for.
func (p *span) makesRoom() bool {
	return p.others || p.strayIn(p.lo, p.hi) < math.MaxInt
}

// strayIn returns the least phase that is a stray in one of the windows from lo
// to hi, which are the span's, or in one next to them; math.MaxInt if none is.
func (p *span) strayIn(lo, hi int64) int {
	stray := p.stray
	if p.before != nil && lo == p.lo {
		stray = min(stray, p.before.stray)
	}
	if p.after != nil && hi == p.hi {
		stray = min(stray, p.after.stray)
	}
	return stray
}

// limitOf returns how many phases of window k may be taken, the lower ones first.
// While nothing but Max has ever been raised, that is Max.
//
// Otherwise there may be strays: slots of another era, which lie anywhere, or
// of a phase that is not allowed any more. They stay, and the windows near them
// make room. The limit is the greatest c such that every interval of one Window
// that touches window k holds at most Max slots, if all the phases less than c
// in it are counted as taken. So
//
//   - after a slot is taken in window k, no interval of one Window that it lies
//     in holds more than Max. For an interval touches two windows at most, k and
//     one beside it; take c of that with the greater limit, of which the condition
//     has been checked: of the phases less than c it meets each once, and all
//     else has been counted;
//   - the limit does not depend on what is taken under it here and next door:
//     raising c by one adds one to what is counted in an interval, or nothing if
//     that phase is taken in it, so the condition for the greater limit implies
//     that for the lesser. It can be worked out anew at any time, from whatever
//     has been booked;
//   - within a window nothing is lost: as c grows by one, what is counted grows
//     by one or none, from what is taken to more than Max; so it meets Max.
//
// Where Max changes from window k to the next, an interval that touches both
// may hold the greater of the two.
func (s *sweep) limitOf(p *span, k int64, want int) (int, error) {
	if !p.makesRoom() {
		return p.Max, nil
	}
	if v := &s.near; v.span != p || k < v.from || k >= v.to {
		if err := s.look(p, k, want); err != nil {
			return 0, err
		}
	}
	if len(s.near.slots) == 0 {
		return p.Max, nil
	}
	return p.room(k, s.near.slots), nil
}

// vicinity is all that is booked in and around a stretch of windows; nothing if
// there is no stray.
type vicinity struct {
	span     *span
	from, to int64
	slots    []Slot
}

// look asks for the vicinity of the windows that will be used from k on: twice
// as many as the last time, if those were not enough.
func (s *sweep) look(p *span, k int64, want int) error {
	n := int64((want-1)/p.Max + 1)
	if s.near.span == p {
		n = max(n, 2*(s.near.to-s.near.from))
	}
	n = min(n, maxLook, p.hi-k)
	s.near = vicinity{span: p, from: k, to: k + n}
	start, _ := p.bounds(k)
	_, end := p.bounds(k + n - 1)
	from, to := start-p.Window+1, min(end+p.Window-1, p.until)
	strays, err := s.o.Strays(p.era, p.strayIn(k, k+n), from, to)
	if err != nil || len(strays) == 0 {
		return err
	}
	s.near.slots, err = s.o.Strays(p.era, 0, from, to)
	return err
}

// maxLook bounds how many windows are looked around at once.
const maxLook = 1024

// bounds returns the first instant of window k that is the era's, and the one
// after the last.
func (p *span) bounds(k int64) (start, end Ticks) {
	start, end = p.grid.bounds(k)
	return max(start, p.from), min(end, p.until)
}

// room returns the limit of window k, with near around it.
func (p *span) room(k int64, near []Slot) int {
	start, end := p.bounds(k)
	near = near[after(near, start-p.Window):after(near, end+p.Window-2)]
	stray := p.strayIn(k, k+1)
	if !slices.ContainsFunc(near, func(s Slot) bool { return s.Era != p.era || s.Phase >= stray }) {
		return p.Max
	}
	// Of all the intervals that touch window k those matter that begin with a
	// slot, and the last ones to which the window, or Max alone, applies.
	var intervals []interval
	touching := func(from Ticks) {
		i, j := after(near, from-1), after(near, from+p.Window-1)
		intervals = append(intervals, interval{i, j, p.allowed(k, from)})
	}
	for _, s := range near {
		if s.At < end {
			touching(s.At)
		}
	}
	touching(end - 1)
	if next, _ := p.grid.bounds(k + 1); p.after != nil && next-p.Window < end {
		touching(next - p.Window)
	}
	counted := make([]int, len(near)+1)
	return max(0, sort.Search(p.Max+1, func(c int) bool {
		for i, s := range near {
			counted[i+1] = counted[i]
			if s.Era != p.era || s.Phase >= c {
				counted[i+1]++
			}
		}
		return slices.ContainsFunc(intervals, func(i interval) bool {
			return c+counted[i.to]-counted[i.from] > i.allowed
		})
	})-1)
}

// interval is one Window long. It holds the slots from index from to index to,
// and may hold as many as allowed.
type interval struct{ from, to, allowed int }

// allowed returns how many slots an interval that begins at from, and touches
// window k, may hold.
func (p *span) allowed(k int64, from Ticks) int {
	most := p.Max
	if p.before != nil && k == p.lo {
		if _, end := p.grid.bounds(k - 1); from < end {
			most = max(most, p.before.Max)
		}
	}
	if p.after != nil && k+1 == p.hi {
		if start, _ := p.grid.bounds(k + 1); from+p.Window > start {
			most = max(most, p.after.Max)
		}
	}
	return most
}

// after returns the index of the first of the slots that lies after at.
func after(slots []Slot, at Ticks) int {
	return sort.Search(len(slots), func(i int) bool { return slots[i].At > at })
}
