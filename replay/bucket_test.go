package replay

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit/algo"
)

// TestBucketNeedsWhatAllPairsSay compares with the bound over all pairs of
// arrivals. Where points were merged, the quota may be larger but not smaller.
func TestBucketNeedsWhatAllPairsSay(t *testing.T) {
	const window = 10 * algo.Second
	rapid.Check(t, func(t *rapid.T) {
		burst := rapid.SampledFrom([]int64{0, 1, 5}).Draw(t, "burst")
		var b bucket
		var past []point
		var want, got, units int64
		now := algo.Ticks(0)
		for range rapid.IntRange(1, 300).Draw(t, "arrivals") {
			now += algo.Ticks(rapid.Int64Range(0, int64(window)).Draw(t, "step"))
			cost := rapid.Int64Range(1, 1000).Draw(t, "cost")
			past = append(past, point{now, units})
			units += cost
			for _, p := range past {
				span := now - p.at
				if burst == 0 {
					span += window
				}
				if n := units - p.before - burst; n > 0 {
					want = max(want, rate(n, span, window))
				}
			}
			b.add(now, cost)
			got = max(got, b.needs(now, window, burst))
			b.forget(got, window)
			if len(b.hull) > maxPoints {
				t.Fatalf("%d points", len(b.hull))
			}
			if got < want || got > want && !b.merged {
				t.Fatalf("needs %d, want %d (merged: %v)", got, want, b.merged)
			}
		}
	})
}

// TestMergingErrsUpwards has arrivals come ever faster, so that every one of
// them is on the hull.
func TestMergingErrsUpwards(t *testing.T) {
	const window = algo.Minute
	var b bucket
	var past []point
	var now algo.Ticks
	var want, got int64
	for i := range int64(200) {
		now += algo.Ticks(201-i) * algo.Second
		for _, p := range past {
			want = max(want, rate(i-p.before, now-p.at, window))
		}
		past = append(past, point{now, i})
		b.add(now, 1)
		got = max(got, b.needs(now, window, 1))
		if got < want || len(b.hull) > maxPoints {
			t.Fatalf("after %d arrivals: %d, want at least %d; %d points", i+1, got, want, len(b.hull))
		}
	}
	if !b.merged || got > 2*want {
		t.Errorf("needs %d, want %d (merged: %v)", got, want, b.merged)
	}
}
