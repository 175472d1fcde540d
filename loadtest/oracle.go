package loadtest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Ideal is how many requests a limiter without a fault grants. One that is due
// at the very end of a period is granted or denied by a hair's breadth, so it
// is a range.
type Ideal struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

const (
	// trials is how often the oracle tries with other delays.
	trials = 20
	// mostDelay is the most that a request is late in a trial, as it is on its
	// way through a network.
	mostDelay = 2 * time.Millisecond
)

// ideal returns what the algorithm of p grants if the arrivals come just when
// they are due, and in trials in which each is late by up to mostDelay. It is
// the same every time.
func ideal(p *limit.Policy, instances [][]arrival) Ideal {
	onTime := grants(p, instances, func() time.Duration { return 0 })
	found := Ideal{onTime, onTime}
	for trial := range uint64(trials) {
		random := rand.New(rand.NewPCG(trial, 2))
		n := grants(p, instances, func() time.Duration { return time.Duration(random.Int64N(int64(mostDelay))) })
		found.Least, found.Most = min(found.Least, n), max(found.Most, n)
	}
	return found
}

// grants returns how many arrivals p's algorithm grants if each comes late by
// what late returns.
func grants(p *limit.Policy, instances [][]arrival, late func() time.Duration) (n int64) {
	var all []arrival
	for _, arrivals := range instances {
		for _, a := range arrivals {
			all = append(all, arrival{a.At + late(), a.Key})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.At, b.At) })
	states := make(map[string]algo.State)
	for _, a := range all {
		state, verdict := p.Decide(states[a.Key], algo.Ticks(a.At/time.Microsecond), 1)
		if verdict.OK {
			states[a.Key] = state
			n++
		}
	}
	return n
}

// admits returns the most that p ever grants to one key in a span of time:
// Burst + Quota*span/Window under GCRA. The others count by windows, of which
// the span touches two that are not whole.
func admits(p *limit.Policy, span time.Duration) float64 {
	l := p.Limit()
	windows := float64(span) / float64(p.Window)
	if p.Algorithm == algo.GCRA {
		return float64(l.Burst) + math.Floor(float64(l.Quota)*windows)
	}
	return float64(l.Quota) * (math.Floor(windows) + 2)
}
