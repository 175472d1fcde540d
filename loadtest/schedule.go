package loadtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// arrival is one request that an instance is to be sent.
type arrival struct {
	// At is when, since the beginning of the load.
	At  time.Duration
	Key string
}

// segment is a stretch of time over which the rate goes evenly from one to
// another, in requests a second.
type segment struct {
	from, to float64
	seconds  float64
}

// count returns how many requests a segment makes.
func (g segment) count() float64 { return (g.from + g.to) / 2 * g.seconds }

// when returns how many seconds after its beginning a segment has made n
// requests. It is the n-th crossing of the integral of the rate,
// from*t + (to-from)*t*t/(2*seconds) = n.
func (g segment) when(n float64) float64 {
	if n <= 0 {
		return 0
	}
	a := (g.to - g.from) / (2 * g.seconds)
	return 2 * n / (g.from + math.Sqrt(max(0, g.from*g.from+4*a*n)))
}

// segments returns the load on one instance, as fast as it comes.
func (s *Scenario) segments() (all []segment) {
	for _, h := range s.Load.Phases {
		seconds := time.Duration(h.For).Seconds() / s.Compress
		switch {
		case h.Rate != nil:
			rate := *h.Rate * s.Compress
			all = append(all, segment{rate, rate, seconds})
		case h.Steps == 0:
			all = append(all, segment{*h.From * s.Compress, *h.To * s.Compress, seconds})
		default:
			for i := range h.Steps {
				rate := (*h.From + (*h.To-*h.From)*float64(i)/float64(h.Steps-1)) * s.Compress
				all = append(all, segment{rate, rate, seconds / float64(h.Steps)})
			}
		}
	}
	return all
}

// expected returns how many requests segments make.
func expected(segments []segment) (total float64) {
	for _, g := range segments {
		total += g.count()
	}
	return total
}

// rounding is how much of a request the sums above may be wrong by.
const rounding = 1e-6

// times returns when requests are sent to one instance: the first at once, and
// each other one as soon as the rate, summed up, says that it is due.
func times(segments []segment) []time.Duration {
	all := make([]time.Duration, 0, int(expected(segments))+1)
	begin, before := 0.0, 0.0 // of the segment: seconds, and requests until then
	for _, g := range segments {
		for n := float64(len(all)); n < before+g.count()-rounding; n++ {
			seconds := begin + g.when(n-before)
			all = append(all, time.Duration(math.Round(seconds*1e9)))
		}
		begin += g.seconds
		before += g.count()
	}
	return all
}

// schedule returns the arrivals of each instance. It is the same every time.
func (s *Scenario) schedule() [][]arrival {
	due := times(s.segments())
	all := make([][]arrival, s.Instances.Count)
	for i := range all {
		next := s.Load.Keys.chooser(uint64(i))
		all[i] = make([]arrival, len(due))
		for n, at := range due {
			all[i][n] = arrival{at, next()}
		}
	}
	return all
}

// chooser returns a function that names the key of one request after another.
func (k *Keys) chooser(seed uint64) func() string {
	random := rand.New(rand.NewPCG(seed, 1))
	turn := 0
	switch {
	case len(k.List) > 0:
		return func() string {
			turn++
			return k.List[(turn-1)%len(k.List)]
		}
	case k.Zipf > 0:
		zipf := rand.NewZipf(random, k.Zipf, 1, uint64(k.Count-1))
		return func() string { return fmt.Sprintf("key-%d", zipf.Uint64()) }
	}
	return func() string { return fmt.Sprintf("key-%d", random.IntN(int(k.Count))) }
}
