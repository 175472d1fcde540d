package plan

import (
	"math/bits"
	"slices"
)

// Occupancy is what a ledger has booked for one config, as of one moment: the
// transaction that holds the config's lock. An error of its methods ends the
// call that they serve and is returned from it.
type Occupancy interface {
	// Load returns what is known of the windows from n.From on.
	Load(n Need) (Chunk, error)
	// Strays returns the slots booked at from <= At < to that are of another
	// era than era, or have a phase of at least phase, in the order of At. It is
	// called only after an era has ended. phase is math.MaxInt where no slot of
	// era's own is asked for, and 0 where all are.
	Strays(era, phase int, from, to Ticks) ([]Slot, error)
}

// Need says which windows of an era have to be looked at.
type Need struct {
	Era  int
	From int64
	// Windows is how many windows that are not full will be used at least, if
	// they are empty: a hint for how many to load. It is 1 or more.
	Windows int
}

// Chunk is what is known of the windows from Need.From to To. Those that are
// neither in Full nor in Taken are empty.
type Chunk struct {
	// To is the first window that is not known, at least Need.From+1. A run
	// in Full that goes on beyond To is known to its own end.
	To int64
	// Full are runs of full windows, in ascending order, that overlap
	// [Need.From, To). They are given whole, not cut to what was asked for.
	Full []Run
	// Taken are the windows with booked slots that no run in Full covers, in
	// ascending order.
	Taken []Window
}

// Window is one window of an era and the phases that are taken in it.
type Window struct {
	Era   int
	Index int64
	Taken Bits
}

// Bits is a set of phases: phase j is bit j%8 of byte j/8. Bytes that are
// missing at the end are zero, so nil is the empty set.
type Bits []byte

// Has reports whether phase j is in the set.
func (b Bits) Has(j int) bool {
	return j>>3 < len(b) && b[j>>3]>>(j&7)&1 == 1
}

// With returns the set with phase j; b must not be used any more.
func (b Bits) With(j int) Bits {
	if missing := j>>3 + 1 - len(b); missing > 0 {
		b = append(b, make([]byte, missing)...)
	}
	b[j>>3] |= 1 << (j & 7)
	return b
}

// Without returns the set without phase j; b must not be used any more. Zeros at
// the end are cut off, so the set that is empty has no bytes.
func (b Bits) Without(j int) Bits {
	if j>>3 < len(b) {
		b[j>>3] &^= 1 << (j & 7)
	}
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// Count returns how many phases less than n are in the set.
func (b Bits) Count(n int) int {
	count := 0
	for i := range min(len(b), (n+7)/8) {
		c := b[i]
		if i == n/8 {
			c &= 1<<(n&7) - 1
		}
		count += bits.OnesCount8(c)
	}
	return count
}

// Run is a run of windows of an era, From included and To not.
type Run struct {
	Era      int
	From, To int64
}

// Runs are runs of one era in ascending order, no two of which overlap. They are
// for a ledger that keeps its runs in memory, and say what one in a database
// does. Add and Cut change the receiver's array.
type Runs []Run

// Add returns rs with r, which takes the place of what it overlaps.
func (rs Runs) Add(r Run) Runs {
	rs = rs.Cut(r)
	return slices.Insert(rs, rs.search(r.From), r)
}

// Cut returns rs without the windows of r.
func (rs Runs) Cut(r Run) Runs {
	i := rs.search(r.From)
	j := i
	var rest []Run
	for ; j < len(rs) && rs[j].From < r.To; j++ {
		if head := rs[j]; head.From < r.From {
			head.To = r.From
			rest = append(rest, head)
		}
		if tail := rs[j]; tail.To > r.To {
			tail.From = r.To
			rest = append(rest, tail)
		}
	}
	return slices.Replace(rs, i, j, rest...)
}

// From returns the runs that end after window k.
func (rs Runs) From(k int64) Runs { return rs[rs.search(k):] }

// search returns the index of the first run that ends after window k.
func (rs Runs) search(k int64) int {
	i, _ := slices.BinarySearchFunc(rs, k, func(r Run, k int64) int {
		if r.To <= k {
			return -1
		}
		return 1
	})
	return i
}
