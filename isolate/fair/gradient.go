package fair

import (
	"math"
	"time"
)

// gradient is the number of seats that follows the time which requests take.
type gradient struct {
	limit float64
	since time.Duration
	n     int
	ratio float64 // the sum of n ratios
	peak  int     // seats that were busy at once
}

// longRun is how long a tenant's requests take in the long run.
type longRun struct {
	mean float64
	n    int
}

// ratio returns how long one took against the long run, and counts it in.
func (l *longRun) ratio(ran time.Duration) float64 {
	l.n = min(l.n+1, 600)
	l.mean += (float64(ran) - l.mean) / float64(l.n)
	return float64(ran) / max(1, l.mean)
}

// adapt counts that a request of t ran for so long. Every 250ms, and 20 requests, it
// changes the number of seats: by the ratio of Tolerance to how much longer than in the
// long run requests took, each against those of its own tenant, so that it does not
// matter whose they were. It leaves room for growth by the root of the limit, and does
// not grow while less than half of the seats are used.
func (r *Room) adapt(t *tenant, ran time.Duration) {
	g, a := &r.gradient, r.config.Adaptive
	g.n++
	g.ratio += t.long.ratio(ran)
	g.peak = max(g.peak, r.busy+1)
	if g.n < 20 || r.now-g.since < 250*time.Millisecond {
		return
	}
	slope := min(1, max(0.5, a.Tolerance*float64(g.n)/max(1e-9, g.ratio)))
	if slope < 1 || 2*float64(g.peak) >= g.limit {
		next := slope*g.limit + math.Sqrt(g.limit)
		g.limit = min(float64(r.config.Seats), max(float64(a.Min), 0.8*g.limit+0.2*next))
	}
	*g = gradient{limit: g.limit, since: r.now}
	r.seats = int(g.limit)
}
