package replay

import (
	"math"
	"math/bits"

	"github.com/stint-dev/stint/limit/algo"
)

// maxPoints bounds what is kept of one key's past.
const maxPoints = 16

// bucket finds the smallest quota with which a GCRA limit admits everything
// that arrived.
//
// The limit admits all if and only if the units of any row of arrivals, from
// one at s to one at t, are at most burst + quota*(t-s)/window. So
//
//	quota >= units * window / (t-s+window)    if the burst is the quota
//	quota >= (units-burst) * window / (t-s)   if it is given
//
// Draw for each arrival a point at its time, as high as the units that came
// before it. Then either bound is the steepest line from one of the points to
// one that lies to the right of them all, and that line touches their lower
// convex hull. Of the hull, what is not as steep as the quota needed already
// cannot matter any more, which leaves a few points. Should there be more than
// maxPoints, two are merged into one that lies right of and below both: the
// quota comes out too large then, never too small.
type bucket struct {
	units  int64
	hull   []point // from left to right, ever steeper
	merged bool
}

type point struct {
	at     algo.Ticks
	before int64
}

// add counts an arrival, which is not before the last one.
func (b *bucket) add(now algo.Ticks, cost int64) {
	// Of several arrivals at one instant, the first has the lowest point.
	if n := len(b.hull); n == 0 || b.hull[n-1].at < now {
		b.hull = appendHull(b.hull, point{now, b.units})
		if len(b.hull) > maxPoints {
			b.merge()
		}
	}
	b.units += min(cost, math.MaxInt64-b.units)
}

// appendHull puts p, which lies right of hull, on it.
func appendHull(hull []point, p point) []point {
	for n := len(hull); n >= 2 && !steeper(hull[n-1], p, hull[n-2], hull[n-1]); n = len(hull) {
		hull = hull[:n-1]
	}
	return append(hull, p)
}

// steeper reports whether the line from a to b is steeper than that from c to d.
func steeper(a, b, c, d point) bool {
	hi, lo := bits.Mul64(uint64(b.before-a.before), uint64(d.at-c.at))
	hi2, lo2 := bits.Mul64(uint64(d.before-c.before), uint64(b.at-a.at))
	return hi > hi2 || hi == hi2 && lo > lo2
}

// merge makes one point of those two neighbours that lie closest, but for the
// newest one.
func (b *bucket) merge() {
	b.merged = true
	least, at := math.Inf(1), 0
	for i := range len(b.hull) - 2 {
		p, q := b.hull[i], b.hull[i+1]
		if area := float64(q.at-p.at) * float64(q.before-p.before); area < least {
			least, at = area, i
		}
	}
	b.hull[at+1].before = b.hull[at].before
	rest := b.hull[at+1:]
	b.hull = b.hull[:at]
	for _, p := range rest {
		b.hull = appendHull(b.hull, p)
	}
}

// needs returns the smallest quota that admits what arrived just now. A burst
// of 0 means that it is the quota.
func (b *bucket) needs(now, window algo.Ticks, burst int64) (quota int64) {
	for _, p := range b.hull {
		units, span := b.units-p.before-burst, now-p.at
		if burst == 0 {
			span += window
		}
		if units > 0 {
			quota = max(quota, rate(units, span, window))
		}
	}
	return quota
}

// rate returns units*window/span, rounded up.
func rate(units int64, span, window algo.Ticks) int64 {
	hi, lo := bits.Mul64(uint64(units), uint64(window))
	if hi >= uint64(span) {
		return never
	}
	quota, rest := bits.Div64(hi, lo, uint64(span))
	if rest > 0 {
		quota++
	}
	return int64(min(quota, never))
}

// forget drops the points that no line steeper than quota in window touches.
func (b *bucket) forget(quota int64, window algo.Ticks) {
	drop := 0
	per := point{window, quota}
	for drop+1 < len(b.hull) && !steeper(b.hull[drop], b.hull[drop+1], point{}, per) {
		drop++
	}
	b.hull = append(b.hull[:0], b.hull[drop:]...)
}
