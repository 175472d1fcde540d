package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit/algo"
)

// oracle remembers every spend for ever.
type oracle []struct {
	at    algo.Ticks
	units int64
}

func (o *oracle) note(at algo.Ticks, units int64) {
	*o = append(*o, struct {
		at    algo.Ticks
		units int64
	}{at, units})
}

// within returns the units spent from one instant until before another.
func (o oracle) within(from, until algo.Ticks) (sum int64) {
	for _, s := range o {
		if from <= s.at && s.at < until {
			sum += s.units
		}
	}
	return sum
}

// worst returns the most units that were spent in any interval of length.
func (o oracle) worst(length algo.Ticks) (most int64) {
	for _, s := range o {
		most = max(most, o.within(s.at, s.at+length))
	}
	return most
}

// drawCrowd plays a client that asks for more than it gets.
func drawCrowd(t *rapid.T, a *algo.Algorithm) (algo.Limit, oracle) {
	h := &history{
		a: a,
		l: algo.Limit{
			Quota:  rapid.Int64Range(1, 30).Draw(t, "quota"),
			Burst:  rapid.Int64Range(1, 30).Draw(t, "burst"),
			Window: algo.Ticks(rapid.Int64Range(int64(algo.MinWindow), 3000).Draw(t, "window")),
		},
		now: algo.Ticks(rapid.Int64Range(0, 1e6).Draw(t, "start")),
	}
	var admitted oracle
	gap := rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Just(int64(1)),
		rapid.Int64Range(0, int64(h.l.Window)/10),
		rapid.Int64Range(0, int64(h.l.Window)+1),
	)
	for range 100 {
		h.now += algo.Ticks(gap.Draw(t, "gap"))
		if cost := h.drawCost(t); h.spend(cost).OK {
			admitted.note(h.now, cost)
		}
	}
	return h.l, admitted
}

func TestLogAdmitsWhatTheOracleAdmits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{a: algo.Log, now: algo.Ticks(rapid.Int64Range(0, int64(lastInstant)).Draw(t, "start"))}
		h.l = drawLimit(t, h.a)
		var spent oracle
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			h.now += h.drawGap(t)
			cost := h.drawCost(t)
			left := h.l.Quota - spent.within(h.now-h.l.Window+1, h.now+1)
			v := h.spend(cost)
			if v.OK != (cost <= left) {
				t.Fatalf("%d at %d: ok is %t with %d left", cost, h.now, v.OK, left)
			}
			if v.OK {
				spent.note(h.now, cost)
				left -= cost
			}
			if v.Remaining != left {
				t.Fatalf("%d at %d: %d remaining, want %d", cost, h.now, v.Remaining, left)
			}
		}
	})
}

func TestLogNeverAdmitsMoreThanItsQuotaInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, admitted := drawCrowd(t, algo.Log)
		if got := admitted.worst(l.Window); got > l.Quota {
			t.Fatalf("%d in one window under %+v", got, l)
		}
	})
}

func TestGCRAAdmitsBurstAndItsRateInAnyInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, admitted := drawCrowd(t, algo.GCRA)
		for i, first := range admitted {
			var sum int64
			for _, last := range admitted[i:] {
				sum += last.units
				length := int64(last.at - first.at)
				if most := l.Burst + l.Quota*length/int64(l.Window); sum > most {
					t.Fatalf("%d in %d ticks under %+v, want at most %d", sum, length, l, most)
				}
			}
		}
	})
}

func TestSlidingAdmitsNoMoreThanTwiceItsQuotaInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, admitted := drawCrowd(t, algo.Sliding)
		if got := admitted.worst(l.Window); got > 2*l.Quota {
			t.Fatalf("%d in one window under %+v", got, l)
		}
	})
}

func TestFixedAdmitsNoMoreThanTwiceItsQuotaInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, admitted := drawCrowd(t, algo.Fixed)
		if got := admitted.worst(l.Window); got > 2*l.Quota {
			t.Fatalf("%d in one window under %+v", got, l)
		}
	})
}

// The worst client spends all it can at the end of one frame, and all it can
// until one window later, which is the end of the next.
func TestWorstCaseAroundTheEdgeOfAFrame(t *testing.T) {
	const edge = 1000 * algo.Hour
	for _, test := range []struct {
		a      *algo.Algorithm
		quota  int64
		window algo.Ticks
		want   int64 // in one window
	}{
		{algo.Fixed, 1, algo.Minute, 2},
		{algo.Fixed, 100, algo.Minute, 200},
		{algo.Sliding, 1, algo.Minute, 2},
		{algo.Sliding, 2, algo.Minute, 4},
		{algo.Sliding, 100, algo.Minute, 200},
		{algo.Sliding, 1_000_000, algo.Minute, 2_000_000},
		{algo.Sliding, 1_000_000, algo.Millisecond, 1_998_000}, // 2000 units fade in a tick
		{algo.Log, 100, algo.Minute, 100},
	} {
		h := &history{a: test.a, l: algo.Limit{Quota: test.quota, Window: test.window}}
		var admitted oracle
		begin := edge - 1
		for _, h.now = range []algo.Ticks{begin, edge, edge + test.window/2, begin + test.window - 1} {
			if cost := h.peek(0).Remaining; cost > 0 && h.spend(cost).OK {
				admitted.note(h.now, cost)
			}
		}
		if got := admitted.within(begin, begin+test.window); got != test.want {
			t.Errorf("%s with %d per %v admits %d in one window, want %d", test.a, test.quota, test.window, got, test.want)
		}
	}
}

// Units of a young frame hardly count under Proportional: what it admits after
// an idle frame is Quota divided by the fraction of the frame that has passed.
func TestProportionalAdmitsAHundredfoldInAYoungFrame(t *testing.T) {
	const frame = 1000 * algo.Hour
	h := &history{a: algo.Proportional, l: algo.Limit{Quota: 10, Window: algo.Minute}}
	for _, test := range []struct {
		passed algo.Ticks
		want   int64 // admitted in the frame so far
	}{
		{600 * algo.Millisecond, 1000}, // 100 times the quota
		{30 * algo.Second, 1000},       // it would be 20 had it not been 1000
		{algo.Minute - 1, 1000},
	} {
		h.now = frame + test.passed
		for h.spend(1).OK {
		}
		if got := h.s.B; got != test.want {
			t.Errorf("%v into a frame %d are admitted, want %d", test.passed, got, test.want)
		}
	}
	h.now = frame + algo.Minute
	if got, want := h.peek(1).RetryAfter, 59459460*algo.Microsecond; got != want {
		t.Errorf("the block that pays for it lasts %v of the next frame, want %v", got, want)
	}
}
