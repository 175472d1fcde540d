package loadtest

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimesOfAConstantRate(t *testing.T) {
	got := times([]segment{{4, 4, 1}, {0, 0, 1}, {2, 2, 1}})
	var want []time.Duration
	for _, ms := range []int{0, 250, 500, 750, 2000, 2500} {
		want = append(want, time.Duration(ms)*time.Millisecond)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestStepsAreConstantRates(t *testing.T) {
	s := scenario(t, "{rate: 50, for: 1s}", "{from: 10, to: 40, steps: 4, for: 2s}")
	want := []segment{{10, 10, .5}, {20, 20, .5}, {30, 30, .5}, {40, 40, .5}}
	if got := s.segments(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestFoundingProfile: 900, 4950 and 24000 requests in the three phases, on
// each instance.
func TestFoundingProfile(t *testing.T) {
	all := times([]segment{{5, 5, 180}, {5, 50, 180}, {100, 100, 240}})
	var counts [3]int
	for _, at := range all {
		switch {
		case at < 3*time.Minute:
			counts[0]++
		case at < 6*time.Minute:
			counts[1]++
		default:
			counts[2]++
		}
	}
	if counts != [3]int{900, 4950, 24000} {
		t.Errorf("%v", counts)
	}
	if last := all[len(all)-1]; last != 10*time.Minute-10*time.Millisecond {
		t.Errorf("the last request is due at %v", last)
	}
}

// TestTimesFollowTheRate: until any moment there were as many requests as the
// rate, summed up, says; and while it is constant they are evenly spaced.
func TestTimesFollowTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var segments []segment
		for range rapid.IntRange(1, 5).Draw(t, "segments") {
			from := float64(rapid.IntRange(0, 500).Draw(t, "from"))
			to := from
			if rapid.Bool().Draw(t, "ramp") {
				to = float64(rapid.IntRange(0, 500).Draw(t, "to"))
			}
			segments = append(segments, segment{from, to, float64(rapid.IntRange(1, 8).Draw(t, "seconds"))})
		}
		all := times(segments)
		if want := math.Ceil(expected(segments) - rounding); float64(len(all)) != want {
			t.Fatalf("%d requests, want %v", len(all), want)
		}
		begin := 0.0
		for _, g := range segments {
			end := begin + g.seconds
			first := before(all, begin)
			last := before(all, end)
			if n := float64(last - first); math.Abs(n-g.count()) > 1 {
				t.Fatalf("%v makes %v requests, want %v", g, n, g.count())
			}
			for i := first + 1; i < last; i++ {
				gap := (all[i] - all[i-1]).Seconds()
				if g.from == g.to && math.Abs(gap-1/g.from) > 1e-8 {
					t.Fatalf("%v: %v s between two requests", g, gap)
				}
			}
			begin = end
		}
		if !slices.IsSorted(all) {
			t.Fatal("the requests are not in order")
		}
	})
}

// before returns how many of all are due before an instant, in seconds.
func before(all []time.Duration, seconds float64) int {
	i, _ := slices.BinarySearch(all, time.Duration(math.Round((seconds-1e-7)*1e9)))
	return i
}

func TestCompressedTimesAreTheSameButFaster(t *testing.T) {
	slow := times(scenario(t, "{rate: 50, for: 1s}", "{from: 10, to: 90, for: 10s}").segments())
	fast := times(scenario(t, "{rate: 50, for: 1s}", "{from: 10, to: 90, for: 10s}", "name: Small", "name: Small\ncompress: 10").segments())
	if len(slow) != len(fast) {
		t.Fatalf("%d and %d requests", len(slow), len(fast))
	}
	for i := range slow {
		if diff := slow[i] - 10*fast[i]; diff.Abs() > time.Microsecond {
			t.Fatalf("request %d: %v and %v", i, slow[i], fast[i])
		}
	}
}

func TestKeys(t *testing.T) {
	draw := func(k Keys, n int) map[string]int {
		count, next := map[string]int{}, k.chooser(0)
		for range n {
			count[next()]++
		}
		return count
	}
	if got := draw(Keys{List: []string{"alex", "max"}}, 10); got["alex"] != 5 || got["max"] != 5 {
		t.Errorf("a list is not taken in turn: %v", got)
	}
	even := draw(Keys{Count: 10}, 10_000)
	if len(even) != 10 || even["key-0"] < 800 || even["key-9"] > 1200 {
		t.Errorf("10 keys at random: %v", even)
	}
	skewed := draw(Keys{Count: 1000, Zipf: 1.2}, 10_000)
	if skewed["key-0"] < 5*skewed["key-9"] || len(skewed) < 100 {
		t.Errorf("zipf: key-0 %d times, key-9 %d times, %d keys", skewed["key-0"], skewed["key-9"], len(skewed))
	}
}
