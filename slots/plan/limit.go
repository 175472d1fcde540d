package plan

import (
	"math"
	"slices"
	"sort"
)

// limitOf returns how many phases of window w may be taken, the lower ones first.
// While nothing but Max has ever been raised, that is Max.
//
// Otherwise there may be slots of another era, which lie anywhere, and strays: slots
// of a phase that is not allowed any more. They stay, and the windows that they lie
// in or near make room. The limit of a window is the greatest c such that, if all its
// phases less than c are counted as taken,
//
//	(1) it holds at most Max slots, of whichever era, with those of its own that the
//	    era's end cuts off; and
//	(2) so does every interval of one Window that touches it, if all the phases less
//	    than c are counted as taken there, and strays are left out.
//
// So
//
//   - after a slot is taken, no interval of one Window that it lies in holds more
//     than Max, or the greatest Max under which any slot of the two windows that it
//     touches was booked. Take c of that of the two with the greater limit, of which
//     (2) has been checked: of the phases less than c the interval meets each once,
//     and all else has been counted but for strays, whose phases are distinct, not
//     less than Max, and less than what was Max when they were booked;
//   - the limit does not depend on what is taken under it here and next door:
//     raising c by one adds one to what is counted, or nothing if that phase is
//     taken there, so the conditions for the greater limit imply those for the
//     lesser. It can be worked out anew at any time, from whatever has been booked;
//   - within a whole window nothing is lost: as c grows by one, what is counted grows
//     by one or none, from what is taken to more than Max; so it meets Max.
func (s *sweep) limitOf(p *span, w Window, want int) (int, error) {
	limit, others := p.Max, 0
	if p.others {
		if v := &s.near; v.span != p || w.Index < v.from || w.Index >= v.to {
			if err := s.look(p, w.Index, want); err != nil {
				return 0, err
			}
		}
		limit, others = p.room(w.Index, s.near.slots)
	}
	taken := w.Taken.Count(8 * len(w.Taken))
	return greatest(limit, func(c int) bool { return c+taken-w.Taken.Count(c)+others <= p.Max }), nil
}

// vicinity is all that is booked in and around a stretch of windows; nothing if
// no slot of another era is.
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
	others, err := s.o.Strays(p.era, math.MaxInt, from, to)
	if err != nil || len(others) == 0 {
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

// room returns the greatest c that meets (2) for window k, and how many slots of other
// eras lie in that window. around is all that is booked near it, in the order of time.
func (p *span) room(k int64, around []Slot) (limit, others int) {
	start, end := p.bounds(k)
	near := around[after(around, start-p.Window):after(around, end+p.Window-2)]
	if !slices.ContainsFunc(near, func(s Slot) bool { return s.Era != p.era }) {
		return p.Max, 0
	}
	// Of all the intervals that touch window k those matter that begin with a
	// slot, and the last one.
	var intervals []interval
	touching := func(from Ticks) {
		intervals = append(intervals, interval{after(near, from-1), after(near, from+p.Window-1)})
	}
	for _, s := range near {
		if s.At < end {
			touching(s.At)
		}
		if s.Era != p.era && s.At >= start && s.At < end {
			others++
		}
	}
	touching(end - 1)
	counted := make([]int, len(near)+1)
	return greatest(p.Max, func(c int) bool {
		for i, s := range near {
			counted[i+1] = counted[i]
			if s.Era != p.era || s.Phase >= c && s.Phase < p.Max {
				counted[i+1]++
			}
		}
		return !slices.ContainsFunc(intervals, func(i interval) bool {
			return c+counted[i.to]-counted[i.from] > p.Max
		})
	}), others
}

// interval is one Window long. It holds the slots from index from to index to.
type interval struct{ from, to int }

// greatest returns the greatest c from 0 to most that fits, if all below one that
// fits do; 0 if none does.
func greatest(most int, fits func(c int) bool) int {
	return max(0, sort.Search(most+1, func(c int) bool { return !fits(c) })-1)
}

// after returns the index of the first of the slots that lies after at.
func after(slots []Slot, at Ticks) int {
	return sort.Search(len(slots), func(i int) bool { return slots[i].At > at })
}
