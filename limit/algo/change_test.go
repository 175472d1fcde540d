package algo_test

import (
	"testing"

	"github.com/stint-dev/stint/limit/algo"
)

// spent returns a key that has used up its limit at the start of a frame.
func spent(t *testing.T, a *algo.Algorithm, quota int64, window algo.Ticks) *history {
	t.Helper()
	h := &history{a: a, l: algo.Limit{Quota: quota, Window: window, Burst: quota}, now: 1000*algo.Day + 1}
	if v := h.spend(quota); !v.OK || v.Remaining != 0 && a != algo.Proportional {
		t.Fatalf("%s: %+v", a, v)
	}
	return h
}

func TestRaisedLimitIsEffectiveAtOnce(t *testing.T) {
	for _, a := range []*algo.Algorithm{algo.GCRA, algo.Sliding, algo.Log, algo.Fixed} {
		h := spent(t, a, 10, algo.Minute)
		h.l.Quota, h.l.Burst = 25, 25
		if v := h.peek(15); !v.OK || v.Remaining != 0 {
			t.Errorf("%s: 15 more of 25: %+v", a, v)
		}
		if v := h.peek(16); v.OK || v.Remaining != 15 {
			t.Errorf("%s: 16 more of 25: %+v", a, v)
		}
	}
}

func TestLoweredLimitCountsWhatWasSpent(t *testing.T) {
	for _, test := range []struct {
		a     *algo.Algorithm
		retry algo.Ticks // until one unit fits 4 per minute, after 10 were spent
	}{
		{algo.GCRA, 105 * algo.Second},                   // 7 units at 4 per minute
		{algo.Sliding, 36*algo.Second + 60*algo.Second},  // 10 units fade to less than 4
		{algo.Proportional, 59_999_999 + 40*algo.Second}, // 10 fade to 4, at which one hardly counts
		{algo.Log, algo.Minute},                          // all were spent at once
		{algo.Fixed, algo.Minute - algo.Microsecond},     // the next window
	} {
		h := spent(t, test.a, 10, algo.Minute)
		h.l.Quota, h.l.Burst = 4, 4
		if test.a == algo.Proportional {
			h.now += 30 * algo.Second
			test.retry -= 30 * algo.Second
		}
		if v := h.peek(1); v.OK || v.Remaining != 0 || v.RetryAfter != test.retry {
			t.Errorf("%s: denied, retry in %v: %+v", test.a, test.retry, v)
		}
		if v := h.peek(0); !v.OK || v.Remaining != 0 {
			t.Errorf("%s: a look: %+v", test.a, v)
		}
		if v := h.spend(-7); !v.OK || !h.peek(1).OK {
			t.Errorf("%s: a refund of 7 makes room for one: %+v", test.a, v)
		}
	}
}

func TestChangedWindowKeepsCounting(t *testing.T) {
	for _, a := range []*algo.Algorithm{algo.GCRA, algo.Sliding, algo.Log, algo.Fixed} {
		for _, window := range []algo.Ticks{algo.Second, algo.Hour} {
			h := spent(t, a, 10, algo.Minute)
			h.l.Window = window
			if v := h.peek(1); v.OK || v.RetryAfter > 2*window {
				t.Errorf("%s: the window of a spent key is now %v: %+v", a, window, v)
			}
		}
	}
}
