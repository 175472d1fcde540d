package fair

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// pause is how long it is from one sweep to the next.
func (r *Room) pause() time.Duration {
	return 100*time.Millisecond + time.Duration(len(r.all))*20*time.Microsecond
}

// sweep works out, for all tenants that are known, what depends on the others: the
// level, and who waited behind whom. It forgets those that may be.
func (r *Room) sweep() {
	past := r.now - r.swept
	r.swept = r.now
	for i := len(r.all) - 1; i >= 0; i-- {
		t := r.all[i]
		t.observe(r.now, r.config.Memory)
		if t.idle != nil && t.v <= r.v && t.mean < littleDemand {
			r.forget(t)
		}
	}
	r.behind.sweep(r.all, past)
	r.level = MaxSeats
	if r.config.Guarantee > 0 {
		r.level = r.levelNow()
	}
	r.needs, r.most, r.spreads = 0, 0, 0
	for _, t := range r.all {
		// What is kept for t is what it may take: whole seats.
		t.share = t.shareAt(r.level)
		share := float64(t.share)
		t.need, t.spread, t.most = 0, 0, 0
		if r.config.Guarantee > 0 && (t.idle == nil || r.now-t.left < 2*r.config.Memory) {
			t.need = min(t.mean, share)
			t.spread = math.Sqrt(t.variance())
			if r.z > 0 {
				t.spread = min(t.spread, (share-t.need)/r.z)
			}
			t.most = max(0, t.need+max(r.z, 3)*t.spread)
		}
		r.needs += t.need
		r.spreads += t.spread * t.spread
		r.hold(t)
		if t.waiting > 0 || t.in != nil {
			r.place(t)
		}
	}
}

// levelNow returns the share for each unit of weight: the greatest at which those
// whose demand stays within it, taken together, leave as much to the others.
func (r *Room) levelNow() float64 {
	if len(r.all) == 0 {
		return MaxSeats
	}
	mean, variance, heavy := 0.0, 0.0, 0.0
	r.byDemand = append(r.byDemand[:0], r.all...)
	for _, t := range r.byDemand {
		t.usual = (t.mean + max(0, r.z)*math.Sqrt(t.variance())) / float64(t.plan.Weight)
		mean += t.mean
		variance += t.variance()
	}
	slices.SortFunc(r.byDemand, func(a, b *tenant) int { return cmp.Compare(b.usual, a.usual) })
	level := 0.0
	for _, t := range r.byDemand {
		if heavy > 0 && t.usual <= level {
			break
		}
		mean -= t.mean
		variance -= t.variance()
		heavy += float64(t.plan.Weight)
		level = (float64(r.seats) - mean - r.z*math.Sqrt(max(0, variance))) / heavy
	}
	clear(r.byDemand)
	return level
}

// needed returns how many seats must be left over for the others when t starts
// something beyond its share.
func (r *Room) needed(t *tenant) float64 {
	if r.config.Guarantee == 0 {
		return 0
	}
	missing := r.needs - t.need - (r.most - min(float64(t.use), t.most))
	spread := r.spreads - t.spread*t.spread
	const rounding = 1e-6 // of the sums
	return missing + r.z*math.Sqrt(max(0, spread)) - rounding
}
